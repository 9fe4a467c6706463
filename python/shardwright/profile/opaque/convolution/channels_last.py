"""Memory of convolutions that work on data with channels last as it lies."""

from collections.abc import Sequence
from typing import Any

from shardwright.profile.opaque.call import has_channels_last
from shardwright.profile.opaque.convolution import native
from shardwright.profile.opaque.convolution.library import native_boxes, onednn_boxes
from shardwright.profile.opaque.convolution.onednn import (
    ALIGN,
    PAGE_ELEMENTS,
    reduction,
    strided_rows,
)
from shardwright.profile.opaque.convolution.shape import Shape, bias, extended
from shardwright.profile.opaque.scratch import Alternative, Condition, Part

__all__ = ["backward", "forward", "stays"]

_COLORS = 3  # channels whose weight gradient is taken from data as it lies


def stays(shape: Shape, data: Any) -> bool:
    """Whether kernels work on the data as it lies."""
    if data.is_contiguous() or not has_channels_last(data) or shape.transposed:
        return False
    return shape.float32 and (shape.one_group or shape.depthwise)


def forward(shape: Shape) -> list[Alternative]:
    found: list[Alternative] = []
    for box in native_boxes(shape):
        found += extended(native.forward(shape, False), box, _weight_copy(shape))
    weight = shape.w_blocked if shape.depthwise else shape.w_flat
    parts = (shape.out, *_weight_copy(shape), _batches(shape), weight)
    found += [Alternative(parts, box) for box in onednn_boxes(shape)]
    return found


def backward(shape: Shape, mask: Sequence[bool]) -> list[Alternative]:
    found: list[Alternative] = []
    for box in native_boxes(shape):
        found += extended(native.backward(shape, mask), box, _weight_copy(shape))
    alternatives: list[Alternative] = []
    if mask[0]:
        alternatives.append(Alternative(_data_gradient(shape)))
    if mask[1]:
        alternatives += _weight_gradient(shape, mask)
    for box in onednn_boxes(shape):
        found += extended(alternatives, box)
    return found


def _weight_copy(shape: Shape) -> tuple[Part, ...]:
    """The weight with channels last, where that is another order."""
    same = shape.num_taps == 1 or shape.depthwise
    return () if same else (shape.w,)


def _batches(shape: Shape) -> Part:
    """Descriptors of oneDNN's small products; depthwise kernels have none."""
    if shape.depthwise:
        return Part(0)
    return Part(PAGE_ELEMENTS + (PAGE_ELEMENTS + 24) * shape.threads)


def _data_gradient(shape: Shape) -> tuple[Part, ...]:
    if shape.depthwise:
        return (shape.x, shape.w_blocked)
    copies = (shape.x, *_weight_copy(shape), shape.w_by_data)
    if shape.strided:
        return (*copies, *strided_rows(shape))
    return (*copies, _batches(shape), Part(ALIGN))


def _weight_gradient(shape: Shape, mask: Sequence[bool]) -> list[Alternative]:
    kept = (shape.x,) if mask[0] else ()
    of_bias = bias(shape, mask)
    sums = reduction(shape, mask) if shape.threads > 1 else ()
    copies = (*_weight_copy(shape), shape.w, shape.w)
    always = (*kept, *copies, *of_bias, *of_bias, *sums)
    if shape.depthwise:
        return [Alternative((*always, shape.w_blocked))]
    flat, blocked = (*always, shape.w_flat), (*always, shape.w_blocked)
    return [
        Alternative(flat, (Condition(shape.data, _COLORS, _COLORS),)),
        Alternative(blocked, (Condition(shape.data, high=_COLORS - 1),)),
        Alternative(blocked, (Condition(shape.data, low=_COLORS + 1),)),
    ]
