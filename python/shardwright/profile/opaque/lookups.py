"""Embedding bags, sorting and windows: bookkeeping in 64-bit integers."""

import torch

from shardwright.profile.opaque.call import KernelCall, copy_as, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = [
    "embedding_bag",
    "embedding_bag_backward",
    "gradient_of_extreme",
    "kth_value",
    "sort",
    "unfold_backward",
]

_INDEX = 8  # bytes
_NUMBERS = 64  # bytes
_EXTREMES = {"max", "min", "median", "nanmedian"}
_MAX = 2  # mode of an embedding bag


def embedding_bag(call: KernelCall) -> list[Alternative]:
    """Of (weight, indices, offsets, by frequency, mode, sparse, weights of the
    indices, with last offset, padding row): the bags and their sizes; unless it is
    a plain sum, twice which bag an index is in; for maxima their places."""
    indices = call.args[1]
    bags, features = call.results[0].shape
    mode = call.args[4] if len(call.args) > 4 else 0
    item, numbers = indices.element_size(), tuple(indices.shape)
    held = (whole(call.results[0]), Part(4 * _INDEX, (bags,)), Part(_NUMBERS))
    padded = len(call.args) > 8 and call.args[8] >= 0
    if mode == 0 and not padded:
        return [Alternative(held)]
    found = [Alternative((*held, Part(2 * item, numbers)))]
    if mode == _MAX:
        places = Part(item, (bags, features))
        found.append(Alternative((*held, Part(item, numbers), places)))
    return found


def embedding_bag_backward(call: KernelCall) -> list[Alternative]:
    """Of (gradient, indices, offsets, offset2bag, bag sizes, maximum indices,
    rows, by frequency, mode, sparse, weights, ...): the gradient; which bag an
    index is in; then the indices sorted, their order and counts, or the rows
    that were largest, one feature at a time."""
    gradient, indices = call.args[0], call.args[1]
    bags, features = gradient.shape
    numbers = tuple(indices.shape)
    made = [whole(call.results[0]), Part(_INDEX, numbers), Part(_INDEX)]
    if not gradient.is_contiguous():
        made.append(whole(gradient))
    if call.args[8] == _MAX:
        item = gradient.element_size()
        rows = Part(2 * _INDEX + item, (bags, features))
        return [Alternative((*made, rows, Part(2 * _INDEX, (bags,))))]
    weights = (whole(call.args[10]),) if call.args[10] is not None else ()
    return [Alternative((*made, Part(3 * _INDEX, numbers), *weights))]


def sort(call: KernelCall) -> list[Alternative]:
    """Values, their places, and the places in one row."""
    data = call.args[0]
    dims = [arg for arg in call.args[1:] if type(arg) is int]
    dim = call.kwargs.get("dim", dims[0] if dims else -1)
    if data.dim() == 0:
        return []
    row = Part(_INDEX, (data.shape[dim],))
    return [Alternative((*map(whole, call.results), row))]


def kth_value(call: KernelCall) -> list[Alternative]:
    """Values, their places, a copy of the data, and the place of each."""
    data = call.args[0]
    places = copy_as(data, torch.int64)
    return [Alternative((*map(whole, call.results), whole(data), places))]


def unfold_backward(call: KernelCall) -> list[Alternative]:
    """Of (gradient, sizes, dim, size, step): the gradient and the places along
    the dim."""
    sizes, dim = call.args[1], call.args[2]
    return [Alternative((whole(call.results[0]), Part(_INDEX, (sizes[dim],))))]


def gradient_of_extreme(call: KernelCall) -> list[Alternative]:
    """Of max, min and median of all elements, whose gradient begins with isnan:
    fake tensors take a form with three masks, plain ones take one mask, zeros
    for the gradient, and the mask's sum, as integers."""
    data = call.args[0]
    if not call.in_backward or not call.forward & _EXTREMES:
        return []
    per_element = 1 + data.element_size() + _INDEX
    return [Alternative((Part(per_element, tuple(data.shape)), Part(_INDEX)))]
