"""Gradients that take other forms for plain tensors than for fake ones."""

from shardwright.profile.opaque import conversions
from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["where"]

_INDEX = 8  # bytes


def where(call: KernelCall) -> list[Alternative]:
    """In backward of `masked_fill`: the gradient of a value that learns. Fake
    tensors take the sum of gradient or zero, plain ones that of the elements
    which the mask selects."""
    if call.in_backward and "masked_fill" in call.forward:
        return _masked_select(call)
    return conversions.elementwise(call)


def _masked_select(call: KernelCall) -> list[Alternative]:
    """The mask as integers. Unless gradient and mask are contiguous and of one
    shape, two such, and the selected elements beside them: all, if need be."""
    mask, gradient = call.args[0], call.args[1]
    shape = tuple(gradient.shape)
    plain = tuple(mask.shape) == shape and mask.is_contiguous()
    if plain and gradient.is_contiguous():
        return [Alternative((Part(_INDEX, shape), Part(_INDEX)))]
    counts = Part(2 * _INDEX, shape)
    return [Alternative((whole(gradient), counts, Part(_INDEX)))]
