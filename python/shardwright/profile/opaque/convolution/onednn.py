"""Memory of oneDNN's convolutions.

Blocked kernels work on copies with channels in blocks of 8 (AVX2) or 16
(AVX-512): operands are reordered in and results out, and all copies of one
product are alive together.

Notation: X data, W weight, Y result; a prime is the blocked copy.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

from shardwright.profile.opaque.convolution import kernels
from shardwright.profile.opaque.convolution.columns import (
    cache_elements,
    unfolded_elements,
)
from shardwright.profile.opaque.convolution.kernels import Kernel
from shardwright.profile.opaque.convolution.shape import Shape, bias, extended, swapped
from shardwright.profile.opaque.scratch import Alternative, Condition, Part

__all__ = [
    "ALIGN",
    "PAGE_ELEMENTS",
    "backward",
    "columns",
    "forward",
    "has_odd_rows",
    "operands",
    "reduction",
    "strided_rows",
]

ALIGN = 128  # bytes oneDNN adds to align a scratchpad
PAGE_ELEMENTS = 4096  # unit of its padded copy in strided backward
_PAGE = 4096  # bytes
_OPERANDS = 40  # bytes that describe those of one small product
_SCATTERED = 144  # channels of the data's gradient at once


def forward(shape: Shape, has_bias: bool) -> list[Alternative]:
    if not shape.transposed:
        return _result(shape, has_bias)
    return _data_gradient(swapped(shape), has_bias, nested=(Part(ALIGN),))


def backward(shape: Shape, mask: Sequence[bool]) -> list[Alternative]:
    found: list[Alternative] = []
    if mask[0] and shape.transposed:
        found += _result(swapped(shape), False, nested=(Part(ALIGN),))
    elif mask[0]:
        found += _data_gradient(shape, False)
    if mask[1]:
        found += _weight_gradient(shape, mask)
    return found


# --- the result -------------------------------------------------------------------


def _result(
    shape: Shape, has_bias: bool, nested: tuple[Part, ...] = ()
) -> list[Alternative]:
    """`nested` is added to scratchpads within those of transposed ones."""
    found: list[Alternative] = []
    padded = (shape.bias_blocked, Part(ALIGN)) if has_bias else ()
    for kernel, box in kernels.for_result(shape):
        if kernel is Kernel.GEMM:
            parts = [Alternative((shape.out, shape.out))]
            if not shape.pointwise:
                parts += extended(_gemm_of_result(shape), (), nested)
        elif kernel is Kernel.DEPTHWISE_ROWS:
            copies = (shape.x, shape.w_blocked, shape.out)
            parts = [Alternative((shape.out,) * 3), Alternative(copies)]
        else:
            data = () if kernel is Kernel.FLAT else (shape.x_blocked,)
            weight = shape.w_flat if kernel is Kernel.FLAT else shape.w_blocked
            gathered = _gathered(shape) if kernel is Kernel.POINTWISE else ()
            scratch = (*gathered, *nested) if gathered else ()
            copies = (*data, weight, shape.out_blocked, *scratch, *padded)
            parts = [Alternative((shape.out_blocked, shape.out)), Alternative(copies)]
        found += extended(parts, box)
    return found


def _gathered(shape: Shape, backward: bool = False) -> tuple[Part, ...]:
    """1x1 kernels with a stride gather the places they read, or scatter those
    of the data's gradient, per thread."""
    if not shape.strided:
        return ()
    scale = shape.item * prod(shape.result_sizes) * shape.threads
    if backward and shape.block == 8:
        return (Part(scale * _SCATTERED), Part(ALIGN))
    return (Part(scale, (), ((shape.data, shape.block),)), Part(ALIGN))


def _gemm_of_result(shape: Shape) -> list[Alternative]:
    """im2col of a part of one image and group. How large a part is known for
    the sizes at hand; for others it fits into the cache, or has one channel. Of
    volumes it is a slice."""
    whole, single = columns(shape), columns(replace(shape, data=1)).value()
    scratch = (shape.out, Part(ALIGN))
    cache = cache_elements(shape.item) * shape.item * shape.threads
    few = prod(shape.result_sizes) < shape.block * shape.threads
    if shape.volumes or few or cache == 0:
        return [Alternative((*scratch, whole))]
    last = max(1, cache // single)
    bounds = [
        Alternative((*scratch, whole), (Condition(shape.data, 1, last),)),
        Alternative(
            (*scratch, Part(max(cache, single))), (Condition(shape.data, last + 1),)
        ),
    ]
    if shape.threads > 1:
        return bounds
    exact = Part(shape.item * unfolded_elements(shape), pinned=True)
    sizes = (shape.batch, shape.groups, shape.data, shape.result)
    here = tuple(Condition(size, size, size) for size in sizes)
    found = [Alternative((*scratch, exact), here)]
    for size in sizes:
        found += extended(bounds, (Condition(size, 1, size - 1),))
    return found


def columns(shape: Shape) -> Part:
    """im2col of one image and one group, of volumes one slice, per thread."""
    scale = shape.item * shape.num_taps * prod(shape.result_sizes[-2:])
    return Part(scale * shape.threads, (shape.data,))


# --- the gradient of the data -----------------------------------------------------


def _data_gradient(
    shape: Shape, has_bias: bool, nested: tuple[Part, ...] = ()
) -> list[Alternative]:
    """The bias is of a transposed one, and added from one result to another."""
    found: list[Alternative] = []
    x, x_blocked, align = shape.x, shape.x_blocked, Part(ALIGN)
    second = (x, align) if has_bias else ()
    # On even rows the transposed kernel adds the bias itself.
    after_rows = second if has_odd_rows(shape) else ()
    for kernel, box in kernels.for_data(shape):
        if kernel is Kernel.ROWS:
            scratch = (*strided_rows(shape), *nested, *after_rows)
            copies = (shape.out, shape.w_by_data, x, *scratch)
            parts = [Alternative((x, x, x)), Alternative(copies)]
        elif kernel is Kernel.GEMM:
            unfolded = () if shape.pointwise else (columns(shape), align, *nested)
            parts = [Alternative((x, *unfolded, *second)), Alternative((x, x))]
        else:
            again = (x_blocked, align) if has_bias else ()
            scattered = kernel is Kernel.POINTWISE and _gathered(shape, backward=True)
            scratch = (*(scattered or ()), *again)
            copies = (shape.out_blocked, shape.w_blocked, x_blocked, *scratch)
            parts = [Alternative((x_blocked, x)), Alternative(copies)]
        found += extended(parts, box)
    return found


def strided_rows(shape: Shape) -> tuple[Part, ...]:
    """Scratch of the strided data gradient. Per thread: a padded copy of one
    image's gradient, flags of what of it is copied, the operands of a batch of
    products, and where rows are no multiple of the stride, a row of the result."""
    places, steps = 1, 1
    for d, n in enumerate(shape.result_sizes):
        step, k, pad = shape.stride[d], shape.kernel[d], shape.padding[d]
        end = (n - 1) * step + k - shape.data_sizes[d] - pad
        places *= n + max(0, k - 1 - pad) // step + max(0, k - 1 - end) // step
        steps *= ceil(shape.data_sizes[d] / step)
    buffers = [
        _rounded(shape, places * shape.result),
        operands(shape),
        Part(2 * _PAGE),
        Part(shape.threads, (), ((steps * shape.groups, _PAGE),)),
    ]
    if has_odd_rows(shape):
        step = shape.stride[-1]
        row = ceil(shape.data_sizes[-1] / step) * step * step
        buffers += [_rounded(shape, row * shape.data), Part(_PAGE)]
    return tuple(buffers)


def operands(shape: Shape) -> Part:
    """What describes the operands of a batch of small products."""
    one = _OPERANDS * ceil(_pages(_OPERANDS * shape.num_taps) / _OPERANDS)
    return Part(one * shape.threads + _PAGE)


def has_odd_rows(shape: Shape) -> bool:
    return shape.data_sizes[-1] % shape.stride[-1] > 0


def _rounded(shape: Shape, elements: int) -> Part:
    """That many of each group, per thread, rounded up."""
    scale = shape.item * shape.threads
    return Part(scale, (), ((shape.groups * elements, PAGE_ELEMENTS),))


def _pages(size: int) -> int:
    return ceil(size / _PAGE) * _PAGE


# --- the gradient of the weight ---------------------------------------------------


def _weight_gradient(shape: Shape, mask: Sequence[bool]) -> list[Alternative]:
    kept = (shape.x,) if mask[0] else ()
    of_bias = bias(shape, mask)
    found: list[Alternative] = []
    kept_and_made = (*kept, shape.w, *of_bias, *of_bias)
    plain = swapped(shape) if shape.transposed else shape
    nested = (Part(ALIGN),) if shape.transposed else ()
    for kernel, box in kernels.for_weight(plain):
        if kernel is Kernel.GEMM:
            parts = (*kept, shape.w, *of_bias, *_gemm_of_weight(plain), *nested)
            made = shape.w
        else:
            data = () if kernel is Kernel.FLAT else (plain.x_blocked,)
            weight = plain.w_flat if kernel is Kernel.FLAT else plain.w_blocked
            gathered = _gathered(plain) if kernel is Kernel.POINTWISE else ()
            sums = (*reduction(shape, mask), *gathered)
            sums = (*sums, *nested) if sums else ()
            parts = (*kept, *data, weight, plain.out_blocked, *sums)
            made = weight
        found += [Alternative(parts, box), Alternative((*kept_and_made, made), box)]
    return found


def _gemm_of_weight(shape: Shape) -> tuple[Part, ...]:
    """Four sums per thread, and im2col."""
    sums = shape.w.times(4 * shape.threads)
    unfolded = () if shape.pointwise else (columns(shape),)
    return (sums, *unfolded, Part(2 * ALIGN))


def reduction(shape: Shape, mask: Sequence[bool]) -> tuple[Part, ...]:
    """Sums of several threads, and of a padded bias."""
    parts = []
    if shape.threads > 1:
        copies = shape.threads - (0 if shape.num_taps == 1 else 1)
        parts.append(shape.w_blocked.times(copies))
        pages = 6 if mask[2] else 3
        parts.append(Part(pages * _PAGE + 2 * ALIGN))
    if mask[2]:
        parts.append(shape.bias_blocked.times(1 + shape.threads))
        parts.append(Part(ALIGN))
    return tuple(parts)
