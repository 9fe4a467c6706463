"""A local program as the text of a Python file that can be read and imported.

program = LocalProgram()              # regions included
loss, *outputs = program(step, *tensors)
"""

from __future__ import annotations

import re
from typing import Any

from torch import fx

from shardwright.execute.generate import LocalProgram

__all__ = ["source"]

_HEADER = '''"""Local program of one rank, generated from a plan.

Arguments after `step`, in order: {values}.
"""

import torch
from torch import device, inf, nan
{imports}
'''


def source(program: LocalProgram) -> str:
    """Text of a module with one class per region and the class LocalProgram."""
    imports: dict[str, str] = {}
    regions = {
        name: child
        for name, child in program.module.named_children()
        if isinstance(child, fx.GraphModule)
    }
    parts = [
        _class_text(_class_name(name), child, (), program.notes, imports)
        for name, child in regions.items()
    ]
    parts.append(
        _class_text(
            "LocalProgram", program.module, tuple(regions), program.notes, imports
        )
    )
    lines = [f"from {module} import {name}" for name, module in sorted(imports.items())]
    header = _HEADER.format(
        values=", ".join(program.values), imports="\n".join(sorted(lines))
    )
    return "\n\n".join([header, *parts])


def _class_name(region: str) -> str:
    return "".join(part.capitalize() for part in region.split("_"))


def _class_text(
    name: str,
    module: fx.GraphModule,
    regions: tuple[str, ...],
    notes: dict[str, str],
    imports: dict[str, str],
) -> str:
    code = module.graph.python_code(root_module="self")
    text = _with_short_names(code.src.strip(), code.globals, imports)
    lines = [f"class {name}(torch.nn.Module):"]
    if regions:
        lines.append("    def __init__(self):")
        lines.append("        super().__init__()")
        lines += [f"        self.{r} = {_class_name(r)}()" for r in regions]
        lines.append("")
    for line in text.splitlines():
        target = re.match(r"\s+(\w+)(?: :[^=]*)? = ", line)
        note = notes.get(target.group(1)) if target else None
        lines.append(f"    {line}  # {note}" if note else f"    {line}".rstrip())
    return "\n".join(lines) + "\n"


def _with_short_names(text: str, names: dict[str, Any], imports: dict[str, str]) -> str:
    """Functions of ours by their own name, imported; fx joins module and name."""
    for long_name, value in names.items():
        module = getattr(value, "__module__", "")
        if module.startswith("shardwright.") and callable(value):
            text = re.sub(rf"\b{long_name}\b", value.__name__, text)
            imports[value.__name__] = module
    return text
