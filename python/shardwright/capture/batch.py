"""How a user's batch maps to the flat, named tensor inputs of a graph.

A batch is a tensor (one positional argument), a tuple or list (positional
arguments) or a mapping (keyword arguments); inside, dicts, lists and tuples
may nest. Tensors become named inputs; everything else is a constant that is
part of the captured program and must be equal at run time.

The description is plain JSON, so a plan file can rebuild a batch of the right
shapes without the user's data:

    {"form": "kwargs", "tree": {"dict": {"input_ids": {"tensor":
        {"name": "input_ids", "shape": [8, 128], "dtype": "int64"}}}}}
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from shardwright.errors import CaptureError

__all__ = [
    "BatchLayout",
    "describe_batch",
    "dtype_name",
    "rebuild_batch",
    "tensors_of",
]

Tree = dict[str, Any]
_SCALARS = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class BatchLayout:
    """Form and nesting of a batch; `names` are the flat inputs, in order."""

    form: str  # "tensor", "args" or "kwargs"
    tree: Tree
    names: tuple[str, ...]

    def bind(self, batch: Any, *, check_shapes: bool = True) -> list[Tensor]:
        """The tensors of `batch` in the order of `names`.

        Raises CaptureError when structure, a constant, a dtype or (unless
        `check_shapes` is off) a shape differs from the captured batch.
        """
        form, value = _as_tree_value(batch)
        if form != self.form:
            raise CaptureError(
                f"[capture] batch form differs: expected {self.form}, got {form}. "
                "Try: pass the batch the way it was captured."
            )
        flat: list[Tensor] = []
        _bind(self.tree, value, "batch", flat, check_shapes)
        return flat

    def to_json(self) -> dict[str, Any]:
        return {"form": self.form, "tree": self.tree}

    @staticmethod
    def from_json(description: Mapping[str, Any]) -> "BatchLayout":
        tree = description["tree"]
        names = tuple(leaf["name"] for leaf in _tensor_leaves(tree))
        return BatchLayout(description["form"], tree, names)


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def describe_batch(batch: Any, model: nn.Module, taken: set[str]) -> BatchLayout:
    """Layout of `batch`; input names avoid `taken` (parameters, buffers)."""
    form, value = _as_tree_value(batch)
    named = form == "kwargs"
    heads = list(value) if named else _argument_names(model, len(value))
    names: list[str] = []
    used = set(taken)
    branches = [
        _describe(item, head, names, used)
        for head, item in zip(
            heads, value.values() if form == "kwargs" else value, strict=True
        )
    ]
    tree: Tree = (
        {"dict": dict(zip(heads, branches, strict=True))}
        if form == "kwargs"
        else {"tuple": branches}
    )
    return BatchLayout(form, tree, tuple(names))


def rebuild_batch(
    description: Mapping[str, Any], *, device: str | torch.device = "meta"
) -> Any:
    """A batch of empty tensors with the described shapes and constants.

    On "meta" (the default) nothing is allocated; on another device integer
    tensors are zero, so that they are valid indices.
    """
    value = _rebuild(description["tree"], torch.device(device))
    return value[0] if description["form"] == "tensor" else value


def tensors_of(description: Mapping[str, Any]) -> str:
    """The tensors of a described batch, for messages: "x float32[4, 8], ..."."""
    return ", ".join(
        f"{leaf['name']} {leaf['dtype']}{leaf['shape']}"
        for leaf in _tensor_leaves(description["tree"])
    )


def call_arguments(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) with which the model is called for this batch."""
    form, value = _as_tree_value(batch)
    return ((), dict(value)) if form == "kwargs" else (tuple(value), {})


def _as_tree_value(batch: Any) -> tuple[str, Any]:
    if isinstance(batch, Tensor):
        return "tensor", (batch,)
    if isinstance(batch, Mapping):
        return "kwargs", dict(batch)
    if isinstance(batch, tuple | list):
        return "args", tuple(batch)
    raise CaptureError(
        "[capture] unsupported batch: expected a tensor, a tuple of arguments or "
        f"a dict of keyword arguments, got {type(batch).__name__}"
    )


def _argument_names(model: nn.Module, count: int) -> list[str]:
    parameters = inspect.signature(model.forward).parameters.values()
    positional = [
        p.name
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    extra = [f"arg{i}" for i in range(len(positional), count)]
    return (positional + extra)[:count]


def _describe(value: Any, path: str, names: list[str], used: set[str]) -> Tree:
    if isinstance(value, Tensor):
        name = path
        while name in used:
            name = f"input.{name}"
        used.add(name)
        names.append(name)
        shape, dtype = list(value.shape), dtype_name(value.dtype)
        return {"tensor": {"name": name, "shape": shape, "dtype": dtype}}
    if type(value) in _SCALARS:
        return {"constant": value}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise CaptureError(
                f"[capture] unsupported key in {path}: expected str keys. "
                "Try: a dict keyed by strings."
            )
        return {
            "dict": {
                k: _describe(v, f"{path}.{k}", names, used) for k, v in value.items()
            }
        }
    if type(value) in (tuple, list):
        items = [_describe(v, f"{path}.{i}", names, used) for i, v in enumerate(value)]
        return {type(value).__name__: items}
    raise CaptureError(
        f"[capture] unsupported value in the batch at {path}: expected tensors, "
        f"numbers, strings, None, dicts, lists or tuples, got {type(value).__name__}. "
        "Try: unpack it into tensors, or wrap the model."
    )


def _bind(
    tree: Tree, value: Any, path: str, flat: list[Tensor], check_shapes: bool
) -> None:
    ((kind, content),) = tree.items()
    if kind == "tensor":
        _check_tensor(content, value, path, check_shapes)
        flat.append(value)
    elif kind == "constant":
        if type(value) is not type(content) or value != content:
            raise _mismatch(path, f"the constant {content!r}", repr(value))
    elif kind == "dict":
        if not isinstance(value, Mapping) or set(value) != set(content):
            got = sorted(value) if isinstance(value, Mapping) else type(value).__name__
            raise _mismatch(path, f"the keys {sorted(content)}", str(got))
        for key, branch in content.items():
            _bind(branch, value[key], f"{path}.{key}", flat, check_shapes)
    else:
        if not isinstance(value, tuple | list) or len(value) != len(content):
            raise _mismatch(path, f"{len(content)} items", repr(type(value).__name__))
        for index, branch in enumerate(content):
            _bind(branch, value[index], f"{path}.{index}", flat, check_shapes)


def _check_tensor(leaf: Tree, value: Any, path: str, check_shapes: bool) -> None:
    expected = f"{leaf['dtype']}{leaf['shape']}"
    if not isinstance(value, Tensor):
        raise _mismatch(path, f"a tensor {expected}", type(value).__name__)
    got = f"{dtype_name(value.dtype)}{list(value.shape)}"
    same_shape = not check_shapes or list(value.shape) == leaf["shape"]
    if dtype_name(value.dtype) != leaf["dtype"] or not same_shape:
        raise _mismatch(path, expected, got)


def _mismatch(path: str, expected: str, got: str) -> CaptureError:
    return CaptureError(
        f"[capture] batch differs from the captured one: expected {expected}, got "
        f"{got} (at {path}). Try: capture again for this batch."
    )


def _tensor_leaves(tree: Tree) -> Iterator[dict[str, Any]]:
    ((kind, content),) = tree.items()
    if kind == "tensor":
        yield content
    elif kind != "constant":
        branches: Sequence[Tree] = list(content.values()) if kind == "dict" else content
        for branch in branches:
            yield from _tensor_leaves(branch)


def _rebuild(tree: Tree, device: torch.device) -> Any:
    ((kind, content),) = tree.items()
    if kind == "tensor":
        dtype = getattr(torch, content["dtype"])
        return torch.zeros(content["shape"], dtype=dtype, device=device)
    if kind == "constant":
        return content
    if kind == "dict":
        return {key: _rebuild(branch, device) for key, branch in content.items()}
    items = [_rebuild(branch, device) for branch in content]
    return tuple(items) if kind == "tuple" else items
