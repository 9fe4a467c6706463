"""Op schemas as data: arguments by name, what is mutated, what is a shape."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from shardwright.capture.batch import dtype_name
from shardwright.errors import CaptureError

__all__ = [
    "SHAPE_ARGS",
    "base_name",
    "bind_arguments",
    "has_effect",
    "is_random",
    "is_written",
    "json_attrs",
    "tensor_operands",
    "unbind_arguments",
]

# Argument that is the result's full shape, by op; replaced by the local shape
# at run time.
SHAPE_ARGS: Mapping[str, str] = {
    "aten.view.default": "size",
    "aten._unsafe_view.default": "size",
    "aten.reshape.default": "shape",
    "aten.expand.default": "size",
    "aten.broadcast_to.default": "size",
    "aten.zeros.default": "size",
    "aten.ones.default": "size",
    "aten.full.default": "size",
    "aten.empty.memory_format": "size",
    "aten.rand.default": "size",
    "aten.randn.default": "size",
    "aten.randint.default": "size",
    "aten.randint.low": "size",
    "aten.new_zeros.default": "size",
    "aten.new_ones.default": "size",
    "aten.new_full.default": "size",
    "aten.new_empty.default": "size",
}
# Arguments that say where and how a result is stored, not what it is.
_STORAGE_ARGS = ("device", "layout", "pin_memory", "memory_format")


def base_name(op: OpOverload) -> str:
    """ "linear" of aten.linear.default."""
    return str(op._schema.name.split("::")[1])


def bind_arguments(
    op: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """All arguments by schema name, in schema order, defaults filled in."""
    bound: dict[str, Any] = {}
    for index, argument in enumerate(op._schema.arguments):
        if argument.name in kwargs:
            bound[argument.name] = kwargs[argument.name]
        elif index < len(args) and not argument.kwarg_only:
            bound[argument.name] = args[index]
        else:
            bound[argument.name] = argument.default_value
    return bound


def unbind_arguments(
    op: OpOverload, bound: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """(args, kwargs) that call `op` with all of `bound` explicit."""
    args = tuple(bound[a.name] for a in op._schema.arguments if not a.kwarg_only)
    kwargs = {a.name: bound[a.name] for a in op._schema.arguments if a.kwarg_only}
    return args, kwargs


def tensor_operands(
    bound: Mapping[str, Any], is_tensor: Callable[[Any], bool]
) -> list[tuple[str, Any]]:
    """(name, tensor) in schema order; list items as "tensors[1]"."""
    found: list[tuple[str, Any]] = []
    for name, value in bound.items():
        if is_tensor(value):
            found.append((name, value))
        elif isinstance(value, list | tuple):
            found += [
                (f"{name}[{index}]", item)
                for index, item in enumerate(value)
                if is_tensor(item)
            ]
    return found


def is_written(op: OpOverload) -> list[str]:
    """Names of the arguments whose memory the op changes, by schema."""
    return [
        a.name
        for a in op._schema.arguments
        if a.alias_info is not None and a.alias_info.is_write
    ]


def has_effect(op: OpOverload, bound: Mapping[str, Any]) -> bool:
    """True when the op changes running statistics its schema does not name."""
    packet = op._schema.name
    if packet == "aten::batch_norm":
        return bool(bound["training"]) and bound["running_mean"] is not None
    if packet == "aten::instance_norm":
        return bool(bound["use_input_stats"]) and bound["running_mean"] is not None
    return False


def is_random(op: OpOverload, bound: Mapping[str, Any]) -> bool:
    """True when a run draws random numbers."""
    if torch.Tag.nondeterministic_seeded not in op.tags:
        return False
    if "dropout_p" in bound:  # attention
        return bool(bound["dropout_p"] > 0)
    if "dropout" in bound and "train" in bound:  # recurrent layers
        return bool(bound["train"]) and bound["dropout"] > 0
    if base_name(op).startswith("rrelu"):
        return bool(bound["training"])
    return True


def json_attrs(op: OpOverload, bound: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments whose values are no tensors, as JSON values.

    A number passed where the schema says Tensor (x * 0.5) is an attribute;
    an absent optional tensor is left out. Infinite and undefined floats become
    "inf", "-inf", "nan": JSON has none.
    """
    attrs: dict[str, Any] = {}
    for argument in op._schema.arguments:
        value = bound[argument.name]
        is_tensor_type = "Tensor" in str(argument.type)
        if argument.name in _STORAGE_ARGS or (
            is_tensor_type and not isinstance(value, bool | int | float | complex)
        ):
            continue
        attrs[argument.name] = _json_value(value, op, argument.name)
    return attrs


def _json_value(value: Any, op: OpOverload, name: str) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, torch.dtype):
        return dtype_name(value)
    if isinstance(value, list | tuple):
        return [_json_value(item, op, name) for item in value]
    if isinstance(value, complex):
        return str(value)
    kind = "tensor" if isinstance(value, Tensor | fx.Node) else type(value).__name__
    raise CaptureError(
        f"[capture] unsupported argument: {name} of {op} is a {kind}. "
        "Try: pass plain numbers (a torch.Generator cannot be captured)."
    )
