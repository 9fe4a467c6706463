"""Batch, layer and group norm."""

from math import prod

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, has_channels_last, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = [
    "batch_norm",
    "batch_norm_backward",
    "group_norm_backward",
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
    twice; where channels are last, each thread sums for itself."""
    data, mask = call.args[1], call.args[9]
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


def layer_norm_backward(call: KernelCall) -> list[Alternative]:
    """Of (gradient, data, normalized shape, mean, inverse deviation, weight,
    bias, mask): the gradients, and per thread a sum of those of weight and
    bias."""
    data, normalized, mask = call.args[1], tuple(call.args[2]), call.args[7]
    wanted = int(mask[1]) + int(mask[2])
    vectors = wanted + 2 * call.threads if wanted else 0
    sums = Part(data.element_size() * vectors, normalized)
    return [Alternative((whole(data), sums))]


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
