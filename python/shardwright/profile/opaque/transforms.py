"""Fourier transforms (MKL)."""

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["fourier", "fourier_to_real"]


def fourier(call: KernelCall) -> list[Alternative]:
    """Of (data, dims, ...): the result, and the data in the order in which it is
    transformed, dims last, unless it lies so."""
    data, dims = call.args[0], call.args[1]
    copy = _reordered(data, dims)
    return [Alternative((whole(call.results[0]), *copy))] if copy else []


def fourier_to_real(call: KernelCall) -> list[Alternative]:
    """As `fourier`; over several dims, all but the last are done first, complex,
    and their result is reordered again."""
    data, dims = call.args[0], call.args[1]
    result = whole(call.results[0])
    if len(dims) == 1:
        copy = _reordered(data, dims)
        return [Alternative((result, *copy))] if copy else []
    between = whole(data)
    return [Alternative((result, between, between))]


def _reordered(data: Tensor, dims: Sequence[int]) -> tuple[Part, ...]:
    last = [dim % data.dim() for dim in dims]
    first = [dim for dim in range(data.dim()) if dim not in last]
    first.sort(key=data.stride, reverse=True)
    # Batch dims become one.
    for outer, inner in pairwise(first):
        if data.stride(outer) != data.stride(inner) * data.shape[inner]:
            return (whole(data),)
    return ()
