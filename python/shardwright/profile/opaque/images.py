"""Kernels on images: resizing, patches, pixel shuffle."""

from math import ceil, prod

from shardwright.profile.opaque.call import KernelCall, has_channels_last, whole
from shardwright.profile.opaque.scratch import Alternative, Condition, Part

__all__ = ["affine_grid", "fold", "patches", "pixel_shuffle", "smoothed", "upsample"]

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


def smoothed(call: KernelCall, reach: int) -> list[Alternative]:
    """Resizing with antialias: along the width, then along the height; for each a
    table of places, numbers of taps, strides, weights."""
    data, result = call.args[0], call.results[0]
    item = data.element_size()
    between = Part(item, (*data.shape[:3], result.shape[3]))
    tables = 0
    for before, after in zip(data.shape[2:], result.shape[2:], strict=True):
        taps = 2 * ceil(reach * max(1.0, before / after)) + 1
        tables = max(tables, after * (4 * _INDEX + item * taps))
    return [Alternative((whole(result), between, Part(tables)))]


def affine_grid(call: KernelCall) -> list[Alternative]:
    """The grid, and the same with a coordinate of ones before the product."""
    result = call.results[0]
    ones = Part(result.element_size(), tuple(result.shape[:-1]))
    return [Alternative((whole(result), whole(result), ones))]


def pixel_shuffle(call: KernelCall) -> list[Alternative]:
    data = call.args[0]
    if data.is_contiguous() or (data.dim() == 4 and has_channels_last(data)):
        return []
    return [Alternative((whole(call.results[0]), whole(data)))]


def fold(call: KernelCall) -> list[Alternative]:
    """col2im makes a result as large as its data, which it copies unless that is
    contiguous."""
    data, result = call.args[0], call.results[0]
    if data.is_contiguous():
        return []
    larger = data if prod(data.shape) > prod(result.shape) else result
    return [Alternative((whole(larger), whole(data)))]


def patches(call: KernelCall) -> list[Alternative]:
    """im2col starts with a result as large as its data, and then grows it; data
    that is not contiguous is copied."""
    data, result = call.args[0], call.results[0]
    copy = () if data.is_contiguous() else (whole(data),)
    if prod(result.shape) <= prod(data.shape):
        return [Alternative((whole(data), *copy))] if copy else []
    return [Alternative((whole(result), whole(data), *copy))]
