"""Softmax and reductions that are made of several steps."""

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = [
    "distances",
    "euclidean",
    "index_mean",
    "log_sum_exp",
    "median",
    "scatter_mean",
    "softmax_backward",
]

_NUMBERS = 32  # bytes
_FEW_POINTS = 25  # up to which distances are not taken from a product
_NO_PRODUCT = 2  # a caller's wish
_MASK = 1  # bytes


def softmax_backward(call: KernelCall) -> list[Alternative]:
    """Of (gradient, result, ...): each copied unless it is contiguous."""
    copies = [whole(t) for t in call.args[:2] if not t.is_contiguous()]
    return [Alternative((whole(call.results[0]), *copies))] if copies else []


def log_sum_exp(call: KernelCall) -> list[Alternative]:
    """The result, maxima, and the exponentials of all elements."""
    result = call.results[0]
    exponentials = Part(result.element_size(), tuple(call.args[0].shape))
    return [Alternative((whole(result), whole(result), exponentials, Part(_NUMBERS)))]


def median(call: KernelCall) -> list[Alternative]:
    """Values, their places, and the data copied unless each row is together."""
    data = call.args[0]
    if len(call.args) < 2:
        return [Alternative((whole(data), *map(whole, call.results)))]
    if data.dim() == 0 or data.stride(call.args[1]) == 1:
        return []
    return [Alternative((*map(whole, call.results), whole(data)))]


def scatter_mean(call: KernelCall) -> list[Alternative]:
    """The result, ones for the elements, their counts, and where these are 0."""
    if "mean" not in call.args:
        return []
    result, index = call.results[0], call.args[2]
    ones = Part(result.element_size(), tuple(index.shape))
    zeros = Part(_MASK, tuple(result.shape))
    made = () if call.op._schema.is_mutable else (whole(result),)
    return [Alternative((*made, ones, whole(result), zeros, Part(_NUMBERS)))]


def index_mean(call: KernelCall) -> list[Alternative]:
    if "mean" not in call.args:
        return []
    result, source = call.results[0], call.args[3]
    made = () if call.op._schema.is_mutable else (whole(result),)
    zeros = Part(_MASK, tuple(result.shape))
    return [
        Alternative((*made, whole(result), whole(source))),
        Alternative((*made, whole(result), zeros, Part(_NUMBERS))),
    ]


def distances(call: KernelCall) -> list[Alternative]:
    """Operands copied unless contiguous, and repeated for each of the batch.
    Euclidean ones between many points are taken from a product."""
    left, right, power = call.args[:3]
    result = call.results[0]
    copies = [whole(t) for t in (left, right) if not t.is_contiguous()]
    item, batch = result.element_size(), tuple(result.shape[:-2])
    for points in (left, right):
        if points.shape[:-2] != result.shape[:-2]:
            copies.append(Part(item, (*batch, *points.shape[-2:])))
    wanted = call.args[3] if len(call.args) > 3 else None
    many = max(left.shape[-2], right.shape[-2]) > _FEW_POINTS
    if power == 2 and (many or wanted == 1) and wanted != _NO_PRODUCT:
        copies += _with_norms(left, right, result)
    return [Alternative((whole(result), *copies))] if copies else []


def euclidean(call: KernelCall) -> list[Alternative]:
    left, right = call.args[:2]
    result = call.results[0]
    return [Alternative((whole(result), *_with_norms(left, right, result)))]


def _with_norms(left: Tensor, right: Tensor, result: Tensor) -> list[Part]:
    """Points with their squared norms and ones as two more coordinates."""
    item, batch = result.element_size(), tuple(result.shape[:-2])
    return [
        part
        for points in (left, right)
        for part in (
            Part(item, (*batch, *points.shape[-2:])),
            Part(2 * item, (*batch, points.shape[-2])),
        )
    ]
