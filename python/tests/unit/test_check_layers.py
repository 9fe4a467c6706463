"""The layer checker, on small trees with one fault each."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[3]


def load_checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "check_layers", ROOT / "tools" / "check_layers.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["check_layers"] = module  # dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


checker = load_checker()
TABLES = checker.load_tables(ROOT / "tools" / "layers.toml")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def cpp(root: Path, files: dict[str, str]) -> list[str]:
    result: list[str] = checker.check_cpp(write(root, files), TABLES["cpp"])
    return result


def python(root: Path, files: dict[str, str]) -> list[str]:
    tree = {f"python/shardwright/{name}": text for name, text in files.items()}
    result: list[str] = checker.check_python(write(root, tree), TABLES["python"])
    return result


SRC = "src/shardwright"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (f"{SRC}/ir/a.h", '#include "shardwright/base/result.h"'),
        (f"{SRC}/ir/a.h", '#include "shardwright/ir/b.h"'),
        (f"{SRC}/verify/a.cc", '#include "shardwright/cost/kernel_time.h"'),
        (f"{SRC}/base/json.h", "#include <nlohmann/json.hpp>"),
        (f"{SRC}/ir/a_test.cc", "#include <gtest/gtest.h>"),
        ("apps/cli/a.cc", '#include "shardwright/planner/make_plan.h"'),
        ("python/bindings/a.cc", '#include "bind.h"'),
        (f"{SRC}/ir/a.h", "#include <vector>"),
    ],
)
def test_allowed_include(tmp_path: Path, path: str, line: str) -> None:
    assert cpp(tmp_path, {path: line}) == []


@pytest.mark.parametrize(
    ("path", "line", "part"),
    [
        (f"{SRC}/ir/a.h", '#include "shardwright/plan/p.h"', "ir may not include"),
        (f"{SRC}/solver/a.cc", '#include "shardwright/ir/g.h"', "solver may not"),
        (f"{SRC}/verify/a.cc", '#include "shardwright/solver/s.h"', "verify may not"),
        (f"{SRC}/verify/a.cc", '#include "shardwright/cost/memory.h"', "cost/memory.h"),
        (f"{SRC}/ir/a.h", '#include "b.h"', "from the source root"),
        (f"{SRC}/ir/a.cc", "#  include <nlohmann/json.hpp>", "base/json"),
        (f"{SRC}/ir/a.cc", "#include <gtest/gtest.h>", "only by files"),
        (f"{SRC}/base/a.cc", "#include <CLI/CLI.hpp>", "apps/cli"),
        (f"{SRC}/nowhere/a.cc", "#include <vector>", "not in the table"),
        (f"{SRC}/nowhere/a.cc", '#include "shardwright/base/a.h"', "not in the table"),
    ],
)
def test_forbidden_include(tmp_path: Path, path: str, line: str, part: str) -> None:
    problems = cpp(tmp_path, {path: f"// first line\n{line}\n"})
    assert len(problems) == 1
    assert problems[0].startswith(f"{path}:2: ")
    assert part in problems[0]


def test_header_cycle_inside_a_layer(tmp_path: Path) -> None:
    problems = cpp(
        tmp_path,
        {
            f"{SRC}/ir/a.h": '#include "shardwright/ir/b.h"',
            f"{SRC}/ir/b.h": '#include "shardwright/ir/a.h"',
        },
    )
    assert problems == [
        f"includes form a cycle: {SRC}/ir/a.h -> {SRC}/ir/b.h -> {SRC}/ir/a.h"
    ]


def test_cmake_links_follow_the_table(tmp_path: Path) -> None:
    bad = f"{SRC}/solver/CMakeLists.txt"
    problems = cpp(tmp_path, {bad: "sw_add_layer(solver DEPENDS base\n  ir)"})
    assert problems == [f"{bad}: solver may not link ir"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("capture/__init__.py", "import torch\nfrom shardwright.errors import X"),
        ("capture/a.py", "from .b import c"),
        ("api.py", "def f():\n    from shardwright.capture import g"),
        ("api.py", "if TYPE_CHECKING:\n    import torch"),
        ("execute/a.py", "from shardwright.runtime import x"),
        ("config.py", "import json, dataclasses"),
        ("__init__.py", "from shardwright.errors import X"),
    ],
)
def test_allowed_import(tmp_path: Path, name: str, text: str) -> None:
    assert python(tmp_path, {name: text}) == []


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("capture/a.py", "import shardwright.profile", "capture may not import"),
        ("capture/a.py", "from ..profile import x", "capture may not import"),
        ("capture/a.py", "from shardwright import profile", "capture may not"),
        ("capture/a.py", "from shardwright import plan", "capture may not"),
        ("capture/a.py", "def f():\n    import shardwright.api", "capture may not"),
        ("runtime/a.py", "import shardwright.errors", "runtime may not import"),
        ("errors.py", "import torch", "may not import torch when it is loaded"),
        ("report/a.py", "try:\n    import torch.fx\nexcept E:\n    pass", "torch"),
        ("api.py", "from shardwright.capture import g", "inside the function"),
        ("extra.py", "import json", "not in the table"),
    ],
)
def test_forbidden_import(tmp_path: Path, name: str, text: str, part: str) -> None:
    problems = python(tmp_path, {name: text})
    assert len(problems) == 1
    assert problems[0].startswith(f"python/shardwright/{name}:")
    assert part in problems[0]


def test_import_cycle_inside_a_part(tmp_path: Path) -> None:
    problems = python(
        tmp_path,
        {
            "capture/a.py": "from shardwright.capture.b import x",
            "capture/b.py": "from shardwright.capture import a",
        },
    )
    assert problems == [
        "imports form a cycle: shardwright.capture.a -> shardwright.capture.b -> "
        "shardwright.capture.a"
    ]


def test_cycle_in_the_table_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "layers.toml"
    table.write_text(
        '[cpp.layers]\na = ["b"]\nb = ["a"]\n[python.layers]\nerrors = []\n'
    )
    with pytest.raises(ValueError, match="a -> b -> a"):
        checker.load_tables(table)


def test_this_repository_keeps_to_its_tables() -> None:
    assert checker.main([str(ROOT)]) == 0
