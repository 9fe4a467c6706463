"""Checks that code keeps to the layer tables of tools/layers.toml.

C++ includes and Python imports are read from the sources; each one that the
tables do not allow is printed as `file:line: what is wrong`, as are cycles
among files. Exit code 1 when anything was found.

    python tools/check_layers.py [ROOT]
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["check_cpp", "check_python", "find_cycle", "load_tables", "main"]

_INCLUDE = re.compile(r'^\s*#\s*include\s+(["<])([^">]+)[">]')
_DEPENDS = re.compile(r"sw_add_layer\(\s*(\w+)\s+DEPENDS\s+([a-z_\s]+)")
_OURS = "shardwright/"


def load_tables(path: Path) -> dict[str, Any]:
    """The tables; `ValueError` when one names an unknown layer or is cyclic."""
    tables = tomllib.loads(path.read_text())
    for language in ("cpp", "python"):
        layers: dict[str, list[str]] = tables[language]["layers"]
        graph = {
            name: [entry.split("/")[0] for entry in allowed if entry != "_core"]
            for name, allowed in layers.items()
        }
        for name, allowed in graph.items():
            for other in allowed:
                if other not in graph:
                    raise ValueError(f"{path}: {name} allows unknown '{other}'")
        cycle = find_cycle(graph)
        if cycle:
            raise ValueError(f"{path}: layers form a cycle: {' -> '.join(cycle)}")
    return tables


def find_cycle(graph: Mapping[str, Sequence[str]]) -> list[str]:
    """One cycle as [a, b, ..., a], or [] when there is none.

    Depth-first search; linear in nodes and edges. A node points to the nodes
    it uses; names that are no nodes are ignored.
    """
    done: set[str] = set()
    for root in graph:
        path: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = []
        if root not in done:
            stack.append((root, iter(graph[root])))
            path.append(root)
        while stack:
            node, targets = stack[-1]
            target = next(targets, None)
            if target is None:
                done.add(node)
                stack.pop()
                path.pop()
            elif target in path:
                return [*path[path.index(target) :], target]
            elif target in graph and target not in done:
                stack.append((target, iter(graph[target])))
                path.append(target)
    return []


# --- C++ ---------------------------------------------------------------------


@dataclass(frozen=True)
class _Include:
    path: str  # of the including file, from the root
    line: int
    quoted: bool
    target: str  # "shardwright/base/json.h", "nlohmann/json.hpp"

    @property
    def where(self) -> str:
        return f"{self.path}:{self.line}"


def _includes(root: Path, folder: Path) -> Iterator[_Include]:
    for file in sorted([*folder.rglob("*.h"), *folder.rglob("*.cc")]):
        path = file.relative_to(root).as_posix()
        for number, line in enumerate(file.read_text().splitlines(), start=1):
            match = _INCLUDE.match(line)
            if match:
                yield _Include(path, number, match[1] == '"', match[2])


def _is_allowed(target: str, layer: str, allowed: Sequence[str]) -> bool:
    name = target.removeprefix(_OURS)
    return name.split("/")[0] in (layer, *allowed) or name in allowed


def _check_include(include: _Include, tables: Mapping[str, Any]) -> Iterator[str]:
    for prefix, pattern in tables["third_party"].items():
        if include.target.startswith(prefix) and not re.search(pattern, include.path):
            yield (
                f"{include.where}: <{include.target}> may be included only by "
                f"files matching {pattern}"
            )
    if not include.path.startswith("src/"):
        return
    layer = include.path.split("/")[2]
    if layer not in tables["layers"]:
        yield f"{include.where}: layer '{layer}' is not in the table"
    elif include.quoted and not include.target.startswith(_OURS):
        yield (
            f'{include.where}: "{include.target}" must be written from the source '
            f'root: "shardwright/{layer}/..."'
        )
    elif include.quoted and not _is_allowed(
        include.target, layer, tables["layers"][layer]
    ):
        yield f"{include.where}: {layer} may not include {include.target}"


def _check_cmake(root: Path, layers: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for file in sorted((root / "src").rglob("CMakeLists.txt")):
        for name, depends in _DEPENDS.findall(file.read_text()):
            allowed = {entry.split("/")[0] for entry in layers.get(name, [])}
            for other in depends.split():
                if other not in allowed:
                    yield (f"{file.relative_to(root)}: {name} may not link {other}")


def check_cpp(root: Path, tables: Mapping[str, Any]) -> list[str]:
    """What breaks the C++ table under `root`, one text each."""
    folders = ["src/shardwright", *tables["programs"]["folders"]]
    includes = [
        include for folder in folders for include in _includes(root, root / folder)
    ]
    problems = [
        problem for include in includes for problem in _check_include(include, tables)
    ]
    problems += _check_cmake(root, tables["layers"])
    uses: dict[str, list[str]] = {}
    for include in includes:
        ours = include.target.startswith(_OURS)
        folder = "src" if ours else include.path.rpartition("/")[0]
        uses.setdefault(include.path, []).append(f"{folder}/{include.target}")
    cycle = find_cycle(uses)
    if cycle:
        problems.append(f"includes form a cycle: {' -> '.join(cycle)}")
    return problems


# --- Python ------------------------------------------------------------------


@dataclass(frozen=True)
class _Import:
    line: int
    name: str  # absolute: "shardwright.capture.export", "torch.fx"
    at_load: bool  # runs when the module is imported
    typing_only: bool  # under `if TYPE_CHECKING`


def _is_type_checking(node: ast.AST) -> bool:
    if not isinstance(node, ast.If):
        return False
    test = node.test
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    return name == "TYPE_CHECKING"


def _names(node: ast.stmt, package: list[str]) -> list[str]:
    """Absolute names an import statement asks for."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        module = ".".join([*base, *([node.module] if node.module else [])])
        return [f"{module}.{alias.name}" for alias in node.names]
    return []


def _walk(
    nodes: Sequence[ast.AST], package: list[str], at_load: bool, typing_only: bool
) -> Iterator[_Import]:
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for name in _names(node, package):
                yield _Import(node.lineno, name, at_load, typing_only)
        elif _is_type_checking(node):
            assert isinstance(node, ast.If)
            yield from _walk(node.body, package, False, True)
            yield from _walk(node.orelse, package, at_load, typing_only)
        else:
            lazy = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            children = list(ast.iter_child_nodes(node))
            yield from _walk(children, package, at_load and not lazy, typing_only)


def _imports(file: Path, package: list[str]) -> list[_Import]:
    tree = ast.parse(file.read_text(), filename=str(file))
    return list(_walk(tree.body, package, True, False))


def _check_import(
    item: _Import, part: str, where: str, tables: Mapping[str, Any]
) -> Iterator[str]:
    layers, torch = tables["layers"], tables["torch"]
    top, *rest = item.name.split(".")
    free = part not in torch["parts"]
    if top == "shardwright":
        other = rest[0] if rest else "__init__"
        # `from shardwright import x` with x no part asks the package itself.
        known = other in layers or other == "_core"
        if not known:
            other = "__init__"
        if other not in (part, *layers[part]):
            yield f"{where}: {part} may not import {item.name}"
        elif free and item.at_load and other in torch["parts"]:
            yield (
                f"{where}: {part} loads without torch: import {item.name} inside "
                "the function that needs it"
            )
    elif free and top in torch["packages"] and item.at_load:
        yield f"{where}: {part} may not import {top} when it is loaded"


def _module_of(name: str, modules: Mapping[str, object]) -> str:
    """The longest prefix of `name` that is a module of ours, or ""."""
    words = name.split(".")
    while words and ".".join(words) not in modules:
        words.pop()
    return ".".join(words)


def check_python(root: Path, tables: Mapping[str, Any]) -> list[str]:
    """What breaks the Python table under `root`, one text each."""
    source = root / "python" / "shardwright"
    problems: list[str] = []
    loads: dict[str, list[str]] = {}
    for file in sorted(source.rglob("*.py")):
        relative = file.relative_to(source)
        part = relative.parts[0].removesuffix(".py")
        package = ["shardwright", *relative.parts[:-1]]
        stem = [] if relative.name == "__init__.py" else [relative.stem]
        module = ".".join([*package, *stem])
        where = file.relative_to(root).as_posix()
        if part not in tables["layers"]:
            problems.append(f"{where}: part '{part}' is not in the table")
            continue
        imports = _imports(file, package)
        for item in imports:
            problems += _check_import(item, part, f"{where}:{item.line}", tables)
        loads[module] = [item.name for item in imports if item.at_load]
    graph = {
        module: sorted({_module_of(name, loads) for name in names} - {module})
        for module, names in loads.items()
    }
    cycle = find_cycle(graph)
    if cycle:
        problems.append(f"imports form a cycle: {' -> '.join(cycle)}")
    return problems


def main(arguments: Sequence[str]) -> int:
    """Checks the tree at arguments[0], by default the one around this file."""
    here = Path(__file__).resolve().parent
    root = Path(arguments[0]).resolve() if arguments else here.parent
    tables = load_tables(here / "layers.toml")
    problems = check_cpp(root, tables["cpp"]) + check_python(root, tables["python"])
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
