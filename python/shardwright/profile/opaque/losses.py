"""Losses: their elements, and what a reduction keeps of them."""

from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = [
    "kept_whole",
    "logistic",
    "one_by_one",
    "soft_margin_backward",
]

_NUMBERS = 32  # bytes: those of one reduction


def one_by_one(call: KernelCall) -> list[Alternative]:
    """Huber: the elements, then their sum or mean."""
    if call.results[0].dim() == call.args[0].dim():
        return []
    return [Alternative((_elements(call), Part(_NUMBERS)))]


def kept_whole(call: KernelCall) -> list[Alternative]:
    """The elements, and a result that is made as large and then cut."""
    if call.results[0].dim() == call.args[0].dim():
        return []
    return [Alternative((_elements(call), _elements(call), Part(_NUMBERS)))]


def _elements(call: KernelCall) -> Part:
    return whole(call.args[0])


def logistic(call: KernelCall) -> list[Alternative]:
    """Binary cross entropy of logits: elements, the logarithm of a sigmoid, and
    weights of positive targets."""
    weights = call.args[3] if len(call.args) > 3 else None
    positive = (whole(weights),) if weights is not None else ()
    return [Alternative((_elements(call), _elements(call), *positive, Part(_NUMBERS)))]


def soft_margin_backward(call: KernelCall) -> list[Alternative]:
    data = call.args[1]
    return [Alternative((whole(data).times(3), Part(_NUMBERS)))]
