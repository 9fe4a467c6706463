"""Memory of convolutions that work on images with channels last as they lie.

Only the weight is copied: to channels last, and from there to blocks."""

from collections.abc import Sequence
from math import prod
from typing import Any

from shardwright.profile.opaque.call import has_channels_last
from shardwright.profile.opaque.convolution import kernels, native
from shardwright.profile.opaque.convolution.kernels import Kernel
from shardwright.profile.opaque.convolution.library import native_boxes, onednn_boxes
from shardwright.profile.opaque.convolution.onednn import (
    ALIGN,
    columns,
    has_odd_rows,
    operands,
    reduction,
    strided_rows,
)
from shardwright.profile.opaque.convolution.shape import (
    Shape,
    bias,
    extended,
    swapped,
)
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["applies", "backward", "forward"]


def applies(shape: Shape, data: Any, weight: Any) -> bool:
    """Whether kernels work with channels last: if the data or the weight lies so
    and no other way."""
    return _lies_so(data) or _lies_so(weight)


def _lies_so(tensor: Any) -> bool:
    return has_channels_last(tensor) and not tensor.is_contiguous()


def forward(shape: Shape, data: Any, weight: Any, has_bias: bool) -> list[Alternative]:
    copies = _copies(shape, data, weight)
    found: list[Alternative] = []
    for box in native_boxes(shape):
        unfolded = native.forward(shape, has_bias, contiguous=False)
        found += extended(unfolded, box, (*copies, *_plain_copies(shape)))
    if shape.transposed:
        parts = _data_gradient(swapped(shape), has_bias, (Part(ALIGN),))
    else:
        parts = _result(shape, has_bias)
    for box in onednn_boxes(shape):
        found.append(Alternative((*parts, *copies), box))
    return found


def backward(
    shape: Shape, gradient: Any, data: Any, weight: Any, mask: Sequence[bool]
) -> list[Alternative]:
    copies = _copies(shape, data, weight)
    if not has_channels_last(gradient):
        copies = (*copies, shape.out)
    found: list[Alternative] = []
    for box in native_boxes(shape):
        unfolded = native.backward(shape, mask, contiguous=False)
        plain = (*_plain_copies(shape), shape.out) if shape.volumes else ()
        found += extended(unfolded, box, (*copies, *plain))
    alternatives: list[Alternative] = []
    if mask[0] and shape.transposed:
        alternatives.append(Alternative(_result(swapped(shape), False, (Part(ALIGN),))))
    elif mask[0]:
        alternatives.append(Alternative(_data_gradient(shape, False)))
    if mask[1]:
        alternatives += _weight_gradient(shape, mask)
    for box in onednn_boxes(shape):
        found += extended(alternatives, box, copies)
    return found


def _copies(shape: Shape, data: Any, weight: Any) -> tuple[Part, ...]:
    """What lies otherwise and is copied, held throughout."""
    parts = () if has_channels_last(data) else (shape.x,)
    return parts if has_channels_last(weight) else (*parts, shape.w)


def _plain_copies(shape: Shape) -> tuple[Part, ...]:
    """What ATen's own kernels of volumes make contiguous."""
    return (shape.x, shape.w) if shape.volumes else ()


def _result(
    shape: Shape, has_bias: bool, nested: tuple[Part, ...] = ()
) -> tuple[Part, ...]:
    kernel = kernels.for_result_on_rows(shape)
    padded = (shape.bias_blocked, Part(ALIGN)) if has_bias else ()
    if kernel is Kernel.DEPTHWISE:
        return (shape.out, shape.w_blocked, *padded)
    if kernel is Kernel.GEMM:
        image = (_one_image(shape, shape.data, shape.data_sizes), Part(2 * ALIGN))
        return (shape.out, shape.w, columns(shape), *image, *nested)
    return (shape.out, shape.w_flat, operands(shape), *nested)


def _data_gradient(
    shape: Shape, has_bias: bool, nested: tuple[Part, ...] = ()
) -> tuple[Part, ...]:
    kernel = kernels.for_data_on_rows(shape)
    again = (shape.x, Part(ALIGN)) if has_bias else ()
    if kernel is Kernel.DEPTHWISE:
        return (shape.x, shape.w_blocked, *again)
    if kernel is Kernel.BLOCKED:
        return (shape.x, _both_padded(shape), *again)
    if kernel is Kernel.GEMM:
        sums = () if shape.one_group else (_sums_of_one_group(shape), Part(ALIGN))
        whole = shape.result_sizes[0] if shape.volumes else 1  # not by slices here
        column = columns(shape).times(whole)
        unfolded = () if shape.pointwise else (column, Part(ALIGN))
        return (shape.x, shape.w, *unfolded, *sums, *nested, *again)
    copies = (shape.x, shape.w_by_data, *nested)
    if shape.strided:
        after = again if has_odd_rows(shape) else ()
        return (*copies, *strided_rows(shape), *after)
    return (*copies, operands(shape), Part(ALIGN))


def _sums_of_one_group(shape: Shape) -> Part:
    return _one_image(shape, shape.data, shape.data_sizes)


def _one_image(shape: Shape, channels: int, sizes: tuple[int, ...]) -> Part:
    """Of one group, per thread."""
    return Part(shape.item * prod(sizes) * shape.threads, (channels,))


def _both_padded(shape: Shape) -> Part:
    """The weight in blocks of both channels, also of single ones."""
    scale, b = shape.item * shape.num_taps, shape.block
    return Part(scale, (shape.groups,), ((shape.data, b), (shape.result, b)))


def _weight_gradient(shape: Shape, mask: Sequence[bool]) -> list[Alternative]:
    kept = (shape.x,) if mask[0] else ()
    of_bias = bias(shape, mask)
    plain = swapped(shape) if shape.transposed else shape
    nested = (Part(ALIGN),) if shape.transposed else ()
    always = (*kept, *of_bias, *of_bias)
    found: list[Alternative] = []
    for kernel, box in kernels.for_weight_on_rows(plain):
        if kernel is Kernel.GEMM:
            four = plain.w.times(4 * shape.threads)
            image = _one_image(plain, plain.data, plain.data_sizes)
            unfolded = () if plain.pointwise else (columns(plain),)
            scratch = (four, image, *unfolded, Part(3 * ALIGN), *nested)
            found.append(Alternative((*kept, *of_bias, shape.w, *scratch), box))
            found.append(Alternative((*always, shape.w, shape.w, shape.w), box))
            continue
        made = _made(plain, kernel)
        scratch = reduction(shape, mask)
        if kernel is Kernel.POINTWISE and plain.strided:
            gathered = _one_image(plain, plain.data, plain.result_sizes)
            scratch = (*scratch, gathered, Part(ALIGN))
        found.append(Alternative((*kept, *of_bias, made, *scratch, *nested), box))
        found.append(Alternative((*always, shape.w, shape.w, made), box))
    return found


def _made(shape: Shape, kernel: Kernel) -> Part:
    if kernel is Kernel.DEPTHWISE:
        return shape.w_blocked
    return shape.w_flat if kernel is Kernel.FLAT else _both_padded(shape)
