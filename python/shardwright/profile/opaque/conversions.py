"""Copies in another dtype that kernels make of their operands.

A CPU kernel computes in one dtype. Element-wise ones convert operands of
another one whole before they start (a GPU converts in registers), reductions
convert what they read to what they sum in.
"""

from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from shardwright.profile.opaque.call import KernelCall, copy_as, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["count", "elementwise", "reduction"]

_HALF = {torch.bfloat16, torch.float16}
# Their mask is read as it is.
_UNCONVERTED = {
    "masked_fill", "masked_fill_", "clone", "native_dropout_backward",
}  # fmt: skip


def elementwise(call: KernelCall) -> list[Alternative]:
    """Result, and operands converted to the dtype of the computation."""
    if torch.Tag.pointwise not in call.op.tags or call.name in _UNCONVERTED:
        return []
    first = 1 if call.name == "where" else 0  # its condition stays bool
    leaves = tree_leaves((call.args[first:], call.kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
    if not tensors or not call.results:
        return []
    result = call.results[0]
    dtype = _computes_in(tensors, result)
    made = [whole(result)]
    if dtype.is_complex and not result.dtype.is_complex:
        made.append(copy_as(result, dtype))  # computed so, then converted
    copies = [
        copy_as(tensor, dtype)
        for tensor in tensors
        if tensor.dtype != dtype and tensor.dim() > 0
    ]
    if len(made) == 1 and not copies:
        return []
    if call.op._schema.is_mutable:
        made = made[1:]  # into an operand
    return [Alternative((*made, *copies))]


def _computes_in(tensors: Sequence[Tensor], result: Tensor) -> torch.dtype:
    # Tensors without dims give way to others.
    first, *others = tensors
    common = reduce(
        torch.promote_types,
        (torch.result_type(first, other) for other in others or [first]),
    )
    if result.dtype == torch.bool or common.is_complex:
        return common  # a comparison, or |z|
    return result.dtype


def count(call: KernelCall) -> list[Alternative]:
    """What is not 0, as integers."""
    data = call.args[0]
    if len(call.args) < 2:
        return []
    found = () if data.dtype == torch.bool else (copy_as(data, torch.bool),)
    integers = copy_as(data, torch.int64)
    return [Alternative((whole(call.results[0]), *found, integers))]


def reduction(call: KernelCall) -> list[Alternative]:
    """Result, and the operand in the dtype that is summed in. A mean of 16-bit
    floats is a sum of 32-bit ones, converted in the end."""
    data, result = call.args[0], call.results[0]
    summed = result.dtype
    parts: list[Part] = [whole(result)]
    if call.name == "mean" and summed in _HALF:
        summed = torch.float32
        parts.append(copy_as(result, summed))
    if data.dtype == summed:
        return []
    return [Alternative((*parts, copy_as(data, summed)))]
