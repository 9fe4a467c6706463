"""Batch, layer and group norm."""

from math import prod

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, has_channels_last, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = [
    "batch_norm",
    "batch_norm_backward",
    "group_norm",
    "group_norm_backward",
    "layer_norm",
    "layer_norm_backward",
]


def batch_norm(call: KernelCall) -> list[Alternative]:
    """The result and a few numbers per channel, statistics included."""
    data = call.args[0]
    vectors = 5 if _channels_are_last(data) else 4
    return [Alternative((whole(data), _per_channel(data, vectors)))]


def batch_norm_backward(call: KernelCall) -> list[Alternative]:
    """Of (gradient, data, weight, running mean and variance, saved mean and
    inverse deviation, train, epsilon, mask): the gradient of the data is made
    twice if both lie alike; where channels are last, each thread sums for itself."""
    gradient, data, mask = call.args[0], call.args[1], call.args[9]
    alike = gradient.is_contiguous() and data.is_contiguous()
    if not alike and not (has_channels_last(gradient) and has_channels_last(data)):
        torn = not data.is_contiguous() and not has_channels_last(data)
        copy = (whole(gradient),) if torn and not gradient.is_contiguous() else ()
        vectors = _per_channel(data, 3 + 2 * call.threads)
        return [Alternative((whole(data), vectors, *copy))]
    parameters = _per_channel(data, int(mask[1]) + int(mask[2]))
    found = [Alternative((whole(data), whole(data), parameters))]
    if _channels_are_last(data):
        sums = _per_channel(data, 3 + 2 * call.threads)
        found.append(Alternative((whole(data), sums)))
    return found


def _channels_are_last(data: Tensor) -> bool:
    if data.is_contiguous() or not has_channels_last(data):
        return prod(data.shape[2:]) == 1
    return True


def _per_channel(data: Tensor, vectors: int) -> Part:
    return Part(data.element_size() * vectors, (data.shape[1],))


def layer_norm(call: KernelCall) -> list[Alternative]:
    """Of (data, normalized shape, weight, bias, epsilon): the results, and the
    data copied unless it is contiguous."""
    data = call.args[0]
    if data.is_contiguous():
        return []
    return [Alternative((*map(whole, call.results), whole(data)))]


def layer_norm_backward(call: KernelCall) -> list[Alternative]:
    """Of (gradient, data, normalized shape, mean, inverse deviation, weight,
    bias, mask): the gradients, per thread a sum of those of weight and bias, and
    copies of gradient and data unless these are contiguous."""
    data, normalized, mask = call.args[1], tuple(call.args[2]), call.args[7]
    wanted = int(mask[1]) + int(mask[2])
    vectors = wanted + 2 * call.threads if wanted else 0
    weight = call.args[5]
    item = data.element_size() if weight is None else weight.element_size()
    if item > data.element_size():  # converted when they are whole
        vectors += 2 * wanted
    sums = Part(item * vectors, normalized)
    made = (whole(data),) if mask[0] else ()
    copies = [whole(t) for t in (call.args[0], data) if not t.is_contiguous()]
    return [Alternative((*made, sums, *copies))]


def group_norm(call: KernelCall) -> list[Alternative]:
    """With channels last, two sums per image and channel."""
    data = call.args[0]
    if not has_channels_last(data) or data.is_contiguous():
        return []
    sums = Part(2 * max(data.element_size(), 4), tuple(data.shape[:2]))
    return [Alternative((*map(whole, call.results), sums))]


def group_norm_backward(call: KernelCall) -> list[Alternative]:
    """The gradients, and two sums per image and channel."""
    data = call.args[1]
    images, channels = data.shape[:2]
    return [
        Alternative(
            (
                whole(data),
                _per_channel(data, 2),
                Part(2 * data.element_size(), (images, channels)),
            )
        )
    ]
