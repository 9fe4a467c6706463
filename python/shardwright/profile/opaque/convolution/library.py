"""Whether ATen gives a convolution to oneDNN or runs it by its own im2col.

The conditions are those of `ConvParams::use_mkldnn` in ATen.
"""

from math import prod

from shardwright.profile.opaque.convolution.shape import Box, Shape
from shardwright.profile.opaque.scratch import Condition

__all__ = ["native_boxes", "onednn_boxes"]

_SMALL_IMAGE = 20480  # elements up to which ATen keeps one image to itself
_LARGE_BATCH = 16  # from which ATen gives oneDNN single-threaded 1x1 kernels
_WIDE = 3  # taps per dim beyond which oneDNN also gets single images


def onednn_boxes(shape: Shape) -> list[Box]:
    """Sizes for which ATen calls oneDNN (their union)."""
    if not _onednn_may(shape):
        return []
    if _is_plain(shape):
        return [(Condition(shape.batch, _LARGE_BATCH),)]
    if _always(shape):
        return [()]
    one = (Condition(shape.batch, 1, 1), Condition(shape.data, _last_small(shape) + 1))
    return [(Condition(shape.batch, 2),), one]


def native_boxes(shape: Shape) -> list[Box]:
    """The complement of `onednn_boxes`."""
    if not _onednn_may(shape):
        return [()]
    if _is_plain(shape):
        return [(Condition(shape.batch, 1, _LARGE_BATCH - 1),)]
    if _always(shape):
        return []
    return [
        (Condition(shape.batch, 1, 1), Condition(shape.data, 1, _last_small(shape)))
    ]


def _onednn_may(shape: Shape) -> bool:
    # bfloat16 only on machines with AVX-512, float64 nowhere.
    pairs = zip(shape.output_padding, shape.stride, strict=True)
    overlong = shape.transposed and any(extra >= step for extra, step in pairs)
    return shape.float32 and not overlong


def _is_plain(shape: Shape) -> bool:
    """1x1 (the last two dims count) on one thread."""
    flat = max(shape.kernel[-2:]) == 1 and not shape.strided and not shape.dilated
    return flat and shape.threads == 1


def _always(shape: Shape) -> bool:
    return min(shape.kernel[-2:]) > _WIDE or not shape.one_group


def _last_small(shape: Shape) -> int:
    """Channels up to which one image is small; of volumes the width is not
    counted."""
    return _SMALL_IMAGE // prod(shape.data_sizes[:2])
