"""Which of its kernels oneDNN 3.12 takes for a product of float32 on the CPU.

The blocked kernels unroll a few places of a row; they refuse padding that does
not fit in there, kernels that lie outside the data, and more. What they refuse
goes to im2col and a matrix product ("gemm"). The conditions are those of the
AVX2 kernels' `init_conf`; off AVX2 the gemm form is possible wherever AVX2
takes it, besides the blocked one, and the larger counts.

All shapes here are of plain, not transposed, convolutions.
"""

from enum import Enum, auto

from shardwright.profile.opaque.convolution.fits import (
    data_fits,
    depthwise_fits,
    depthwise_weight_fits,
    is_pointwise,
    lies_outside,
    result_fits,
    weight_fits,
)
from shardwright.profile.opaque.convolution.shape import Box, Shape
from shardwright.profile.opaque.scratch import Condition

__all__ = [
    "Choice",
    "Kernel",
    "for_data",
    "for_data_on_rows",
    "for_result",
    "for_result_on_rows",
    "for_weight",
    "for_weight_on_rows",
]

_COLORS = 3  # channels whose weight gradient is taken from data as it lies
_FEW_CHANNELS = 8  # up to which groups are not worked on by rows
# Blocks of data channels that one step takes: which of these divide their number.
_BLOCKINGS = ((1,), (1, 2), (1, 3), (1, 2, 4), (1, 2, 3), (1, 2, 3, 4))


class Kernel(Enum):
    DEPTHWISE = auto()  # groups in blocks
    DEPTHWISE_ROWS = auto()  # the same, channels last
    POINTWISE = auto()  # blocked, 1x1
    BLOCKED = auto()
    FLAT = auto()  # blocked, but the data as it lies
    ROWS = auto()  # channels last
    GEMM = auto()


Choice = tuple[Kernel, Box]


def for_result(shape: Shape) -> list[Choice]:
    if shape.depthwise and shape.volumes:
        return _choose(shape, Kernel.DEPTHWISE_ROWS, not shape.dilated)
    if shape.depthwise:
        return _choose(shape, Kernel.DEPTHWISE, depthwise_fits(shape))
    if is_pointwise(shape):
        return [(Kernel.POINTWISE, ())]
    fits = result_fits(shape)
    if not fits and shape.block == 8:
        return [(Kernel.GEMM, ())]
    if shape.one_group:
        few = shape.block - 1 if shape.block == 8 else _COLORS
        flat = _choose(shape, Kernel.FLAT, fits, (Condition(shape.data, 1, few),))
        mimo = (Condition(shape.data, few + 1),)
        return [*flat, *_choose(shape, Kernel.BLOCKED, fits, mimo)]
    if _whole_blocks(shape):
        return _choose(shape, Kernel.BLOCKED, fits)
    return [*_flat_groups(shape, fits)]


def _flat_groups(shape: Shape, fits: bool) -> list[Choice]:
    """Few groups of few channels may read their data as it lies."""
    few = (shape.block - 1) // shape.data
    if not fits or shape.result % shape.block or few < 2:
        return [(Kernel.GEMM, ())]
    return [
        *_choose(shape, Kernel.FLAT, True, (Condition(shape.groups, high=few),)),
        (Kernel.GEMM, (Condition(shape.groups, few + 1),)),
    ]


def for_data(shape: Shape) -> list[Choice]:
    large_groups = shape.one_group or shape.result > _FEW_CHANNELS
    if shape.strided and not shape.dilated and large_groups:
        return [(Kernel.ROWS, ())]
    if shape.depthwise:
        fits = not shape.volumes and not shape.dilated
        return _choose(shape, Kernel.DEPTHWISE, fits)
    if is_pointwise(shape):
        return [(Kernel.POINTWISE, ())]
    if not (shape.one_group or _whole_blocks(shape)):
        return [(Kernel.GEMM, ())]
    found: list[Choice] = []
    for fits in sorted({data_fits(shape, numbers) for numbers in _BLOCKINGS}):
        found += _choose(shape, Kernel.BLOCKED, fits)
    return found


def for_weight(shape: Shape) -> list[Choice]:
    if shape.depthwise:
        fits = not shape.volumes and depthwise_weight_fits(shape)
        return _choose(shape, Kernel.DEPTHWISE, fits)
    if is_pointwise(shape):
        return [(Kernel.POINTWISE, ())]
    fits = weight_fits(shape)
    if not shape.one_group:
        return _choose(shape, Kernel.BLOCKED, fits and _whole_blocks(shape))
    colors, fewer, more = (
        (Condition(shape.data, _COLORS, _COLORS),),
        (Condition(shape.data, high=_COLORS - 1),),
        (Condition(shape.data, low=_COLORS + 1),),
    )
    if shape.block != 8:
        return _choose(shape, Kernel.BLOCKED, fits)
    return [
        *_choose(shape, Kernel.FLAT, fits, colors),
        *_choose(shape, Kernel.BLOCKED, fits, fewer),
        *_choose(shape, Kernel.BLOCKED, fits, more),
    ]


def for_result_on_rows(shape: Shape) -> Kernel:
    """Of data with channels last; small products handle most."""
    if not shape.depthwise:
        return Kernel.ROWS
    fits = not shape.dilated if shape.volumes else depthwise_fits(shape)
    return Kernel.DEPTHWISE if fits else Kernel.GEMM


def for_data_on_rows(shape: Shape) -> Kernel:
    large_groups = shape.one_group or shape.result > _FEW_CHANNELS
    if shape.strided and not shape.dilated and large_groups:
        return Kernel.ROWS
    if shape.depthwise and not shape.dilated and not shape.volumes:
        return Kernel.DEPTHWISE
    if not (shape.strided or shape.depthwise or lies_outside(shape)):
        return Kernel.ROWS
    few = shape.data < _FEW_CHANNELS and shape.kernel[-1] > 3 and shape.stride[-1] > 1
    fits = all(data_fits(shape, numbers) for numbers in _BLOCKINGS)
    return Kernel.BLOCKED if fits and not few else Kernel.GEMM


def for_weight_on_rows(shape: Shape) -> list[Choice]:
    if shape.depthwise and not shape.volumes and depthwise_weight_fits(shape):
        return [(Kernel.DEPTHWISE, ())]
    if is_pointwise(shape):
        return [(Kernel.POINTWISE, ())]
    if not weight_fits(shape):
        return [(Kernel.GEMM, ())]
    if not shape.one_group:
        return _weight_of_groups_on_rows(shape)
    return [
        (Kernel.FLAT, (Condition(shape.data, _COLORS, _COLORS),)),
        (Kernel.BLOCKED, (Condition(shape.data, high=_COLORS - 1),)),
        (Kernel.BLOCKED, (Condition(shape.data, low=_COLORS + 1),)),
    ]


def _weight_of_groups_on_rows(shape: Shape) -> list[Choice]:
    """Groups of three channels, or three of one, are taken for colors, wrongly,
    and then refused."""
    if shape.data == _COLORS:
        return [(Kernel.GEMM, ())]
    if shape.data != 1:
        return [(Kernel.BLOCKED, ())]
    return [
        (Kernel.GEMM, (Condition(shape.groups, _COLORS, _COLORS),)),
        (Kernel.BLOCKED, (Condition(shape.groups, high=_COLORS - 1),)),
        (Kernel.BLOCKED, (Condition(shape.groups, low=_COLORS + 1),)),
    ]


def _choose(shape: Shape, kernel: Kernel, fits: bool, box: Box = ()) -> list[Choice]:
    if fits:
        return [(kernel, box)]
    if shape.block == 8:
        return [(Kernel.GEMM, box)]
    return [(Kernel.GEMM, box), (kernel, box)]


def _whole_blocks(shape: Shape) -> bool:
    return shape.data % shape.block == 0 and shape.result % shape.block == 0
