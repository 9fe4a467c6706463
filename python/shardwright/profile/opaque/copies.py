"""Copies that kernels make of operands which do not lie as they read them."""

from torch import Tensor

from shardwright.profile.opaque import conversions
from shardwright.profile.opaque.call import (
    KernelCall,
    has_channels_last,
    transposing,
    whole,
)
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = [
    "copy",
    "extreme_pool_backward",
    "gelu_backward",
    "in_order",
    "of_gradient_and_result",
    "of_image",
    "of_smoothed_gradient",
    "repeat",
    "roll",
]

_NUMBER = 8  # bytes


def copy(call: KernelCall) -> list[Alternative]:
    """A matrix that changes between rows and columns, in blocks."""
    into = call.op._schema.is_mutable
    source = call.args[1] if into else call.args[0]
    result = call.results[0]
    if source.dim() != 2 or source.dtype != result.dtype:
        return conversions.elementwise(call)
    if source.stride() == result.stride() or source.is_contiguous():
        return []
    made = () if into else (whole(result),)
    block = transposing(source) or (Part(0),)
    return [Alternative((*made, *block))]


def in_order(call: KernelCall) -> list[Alternative]:
    """The first operand copied unless it is contiguous."""
    return _with_copies(call, *_unless_contiguous(call.args[0]))


def gelu_backward(call: KernelCall) -> list[Alternative]:
    """Of (gradient, data): oneDNN takes contiguous data, and a gradient in the
    same order; one that lies in another order is copied twice."""
    gradient, data = call.args[0], call.args[1]
    if call.kwargs.get("approximate", "none") != "none":
        return conversions.elementwise(call)
    if not data.is_contiguous() or gradient.is_contiguous():
        return conversions.elementwise(call)
    times = 1 if 0 in gradient.stride() else 2
    return _with_copies(call, whole(gradient).times(times))


def of_smoothed_gradient(call: KernelCall) -> list[Alternative]:
    """Of resizing with antialias: and the result, where channels are last."""
    gradient = call.args[0]
    again = (whole(call.results[0]),) if _lies_last(gradient) else ()
    return _with_copies(call, *_unless_contiguous(gradient), *again)


def of_image(call: KernelCall) -> list[Alternative]:
    """The image copied unless it lies with channels first or last."""
    data = call.args[0]
    ordered = data.is_contiguous() or has_channels_last(data)
    return _with_copies(call, *(() if ordered else (whole(data),)))


def of_gradient_and_result(call: KernelCall) -> list[Alternative]:
    """Of (gradient, data, ...): works in the layout of the gradient; a result in
    that of the data is made beside it, and so are the places of maxima."""
    gradient, data, result = call.args[0], call.args[1], call.results[0]
    copies = []
    if not gradient.is_contiguous() and not has_channels_last(gradient):
        copies.append(whole(gradient))
    if _lies_last(gradient) != _lies_last(data):
        copies.append(whole(result))
    places = call.args[-1]
    if len(call.args) > 2 and isinstance(places, Tensor):  # not of averages
        copies += [whole(places)] * (_lies_last(gradient) != _lies_last(places))
    return _with_copies(call, *copies)


def extreme_pool_backward(call: KernelCall) -> list[Alternative]:
    """Of (gradient, data, places): the gradient copied into the data's layout."""
    gradient, data = call.args[0], call.args[1]
    if _lies_last(data):
        ordered = has_channels_last(gradient)
    else:
        ordered = gradient.is_contiguous()
    return _with_copies(call, *(() if ordered else (whole(gradient),)))


def roll(call: KernelCall) -> list[Alternative]:
    """One dim after the other; without dims, as one row."""
    data = call.args[0]
    dims = call.args[2] if len(call.args) > 2 else ()
    if len(dims) > 1:
        return _with_copies(call, *[whole(data)] * (len(dims) - 1))
    return [] if dims else in_order(call)


def repeat(call: KernelCall) -> list[Alternative]:
    """The result, and its sizes and strides as tensors."""
    return _with_copies(call, Part(4 * _NUMBER * (call.results[0].dim() + 1)))


def _with_copies(call: KernelCall, *copies: Part) -> list[Alternative]:
    if not copies:
        return []
    return [Alternative((*map(whole, call.results), *copies))]


def _unless_contiguous(tensor: Tensor) -> tuple[Part, ...]:
    return () if tensor.is_contiguous() else (whole(tensor),)


def _lies_last(tensor: Tensor) -> bool:
    return has_channels_last(tensor) and not tensor.is_contiguous()
