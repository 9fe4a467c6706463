"""Memory inside convolutions on the CPU, forward and backward.

ATen runs a convolution in oneDNN or, small ones, by its own im2col ("native"):
library.py. oneDNN has several kernels and takes the first that fits:
kernels.py, with their conditions in fits.py; what each allocates is in
onednn.py, and in channels_last.py for data that lies so. Read off allocator traces of
torch 2.13 (oneDNN 3.12) on AVX2, and held to be an upper bound elsewhere.

Every amount is above the level before the kernel, result included.
"""

from collections.abc import Sequence
from typing import Any

from shardwright.profile.opaque.convolution import channels_last, native, onednn
from shardwright.profile.opaque.convolution.library import native_boxes, onednn_boxes
from shardwright.profile.opaque.convolution.shape import Shape, extended, shapes
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["backward_scratch", "forward_scratch"]


def forward_scratch(args: Sequence[Any], threads: int) -> list[Alternative]:
    """Of aten.convolution(data, weight, bias, stride, padding, dilation,
    transposed, output_padding, groups)."""
    data, weight, has_bias = args[0], args[1], args[2] is not None
    found: list[Alternative] = []
    for shape, box in shapes(data, weight, args[3:9], threads):
        if channels_last.applies(shape, data, weight):
            parts = channels_last.forward(shape, data, weight, has_bias)
            found += extended(parts, box)
            continue
        inside: list[Alternative] = []
        for native_box in native_boxes(shape):
            inside += extended(native.forward(shape, has_bias), native_box)
        for onednn_box in onednn_boxes(shape):
            inside += extended(onednn.forward(shape, has_bias), onednn_box)
        found += extended(inside, box, _copies(shape, data))
    return found


def backward_scratch(args: Sequence[Any], threads: int) -> list[Alternative]:
    """Of aten.convolution_backward(gradient, data, weight, bias sizes, stride,
    padding, dilation, transposed, output_padding, groups, mask)."""
    gradient, data, weight, mask = args[0], args[1], args[2], args[10]
    found: list[Alternative] = []
    for shape, box in shapes(data, weight, args[4:10], threads):
        if channels_last.applies(shape, data, weight):
            parts = channels_last.backward(shape, gradient, data, weight, mask)
            found += extended(parts, box)
            continue
        copies = _copies(shape, data)
        if not gradient.is_contiguous():
            copies = (*copies, shape.out)
        inside: list[Alternative] = []
        for native_box in native_boxes(shape):
            inside += extended(native.backward(shape, mask), native_box)
        for onednn_box in onednn_boxes(shape):
            inside += extended(onednn.backward(shape, mask), onednn_box)
        found += extended(inside, box, copies)
    return found


def _copies(shape: Shape, data: Any) -> tuple[Part, ...]:
    """What is made contiguous first and held throughout."""
    return () if data.is_contiguous() else (shape.x,)
