"""Kernels on images: resizing, patches, pixel shuffle."""

from math import prod

from shardwright.profile.opaque.call import KernelCall, has_channels_last, whole
from shardwright.profile.opaque.scratch import Alternative, Condition, Part

__all__ = ["patches", "pixel_shuffle", "upsample"]

_INDEX = 8  # bytes
_SMALL_RESULT = 128  # height + width up to which resizing works channels last
_COLORS = 3  # channels that one thread resizes bilinearly with channels last
# Places of the data that one place of the result is made of, along one dim.
_TAPS = {"nearest": 1, "nearest_exact": 1, "linear": 2, "cubic": 4}


def upsample(call: KernelCall, kind: str) -> list[Alternative]:
    """A table of places and weights along each dim; or, with channels last,
    copies of data and result unless they lie so."""
    data, result = call.args[0], call.results[0]
    channels = data.shape[1]
    bytes_per_tap = _INDEX + data.element_size()
    table = Part(_TAPS[kind] * bytes_per_tap * sum(result.shape[2:]))
    found = [Alternative((whole(result), table))]
    if data.dim() != 4 or kind == "cubic":
        return found
    if has_channels_last(data):
        return found
    copies = (whole(result), whole(data), whole(result))
    if sum(result.shape[2:]) <= _SMALL_RESULT:
        found.append(Alternative(copies, (Condition(channels, low=2),)))
    elif kind == "linear" and call.threads == 1:
        found.append(Alternative(copies, (Condition(channels, _COLORS, _COLORS),)))
    return found


def pixel_shuffle(call: KernelCall) -> list[Alternative]:
    data = call.args[0]
    if data.is_contiguous() or (data.dim() == 4 and has_channels_last(data)):
        return []
    return [Alternative((whole(call.results[0]), whole(data)))]


def patches(call: KernelCall) -> list[Alternative]:
    """im2col starts with a result as large as its data, and then grows it."""
    data, result = call.args[0], call.results[0]
    if prod(result.shape) <= prod(data.shape):
        return []
    return [Alternative((whole(result), whole(data)))]
