"""Which of its kernels oneDNN 3.12 takes for a product of float32 on the CPU.

The blocked kernels unroll a few places of a row; they refuse padding that does
not fit in there, kernels that lie outside the data, and more. What they refuse
goes to im2col and a matrix product ("gemm"). The conditions are those of the
AVX2 kernels' `init_conf`; off AVX2 the gemm form is possible wherever AVX2
takes it, besides the blocked one, and the larger counts.

All shapes here are of plain, not transposed, convolutions.
"""

from enum import Enum, auto

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

_UNROLLED = 3  # places of a row that a forward kernel unrolls
_UNROLLED_DEPTHWISE = 4
_REGISTERS = 15  # of AVX2 for sums and operands
_LONG_ROW = 7  # taps from beyond which padding and strides exclude each other
_LONGEST_ROW = 13  # taps of a row for the gradient of the weight
_LONGEST_DEPTHWISE = 3
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
        return _choose(shape, Kernel.DEPTHWISE, _depthwise_fits(shape))
    if _is_pointwise(shape):
        return [(Kernel.POINTWISE, ())]
    fits = _result_fits(shape)
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
    if _is_pointwise(shape):
        return [(Kernel.POINTWISE, ())]
    if not (shape.one_group or _whole_blocks(shape)):
        return [(Kernel.GEMM, ())]
    found: list[Choice] = []
    for fits in sorted({_data_fits(shape, numbers) for numbers in _BLOCKINGS}):
        found += _choose(shape, Kernel.BLOCKED, fits)
    return found


def for_weight(shape: Shape) -> list[Choice]:
    if shape.depthwise:
        fits = not shape.volumes and _depthwise_weight_fits(shape)
        return _choose(shape, Kernel.DEPTHWISE, fits)
    if _is_pointwise(shape):
        return [(Kernel.POINTWISE, ())]
    fits = _weight_fits(shape)
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
    fits = not shape.dilated if shape.volumes else _depthwise_fits(shape)
    return Kernel.DEPTHWISE if fits else Kernel.GEMM


def for_data_on_rows(shape: Shape) -> Kernel:
    large_groups = shape.one_group or shape.result > _FEW_CHANNELS
    if shape.strided and not shape.dilated and large_groups:
        return Kernel.ROWS
    if shape.depthwise and not shape.dilated and not shape.volumes:
        return Kernel.DEPTHWISE
    if not (shape.strided or shape.depthwise or _lies_outside(shape)):
        return Kernel.ROWS
    few = shape.data < _FEW_CHANNELS and shape.kernel[-1] > 3 and shape.stride[-1] > 1
    fits = all(_data_fits(shape, numbers) for numbers in _BLOCKINGS)
    return Kernel.BLOCKED if fits and not few else Kernel.GEMM


def for_weight_on_rows(shape: Shape) -> list[Choice]:
    if shape.depthwise and not shape.volumes and _depthwise_weight_fits(shape):
        return [(Kernel.DEPTHWISE, ())]
    if _is_pointwise(shape):
        return [(Kernel.POINTWISE, ())]
    if not _weight_fits(shape):
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


def _is_pointwise(shape: Shape) -> bool:
    """1x1 without padding, with strides only in images that they divide: these
    are gathered first."""
    if not shape.one_group or shape.num_taps > 1 or max(shape.padding) > 0:
        return False
    if not shape.strided:
        return shape.data_sizes == shape.result_sizes
    sizes = zip(shape.result_sizes, shape.stride, shape.data_sizes, strict=True)
    return not shape.volumes and all(out * step == n for out, step, n in sizes)


# --- geometry ---------------------------------------------------------------------


def _span(shape: Shape, d: int) -> int:
    return shape.dilation[d] * (shape.kernel[d] - 1) + 1


def _end(shape: Shape, d: int, places: int | None = None) -> int:
    """Padding behind the data that the first `places` results read; negative if
    data is left."""
    places = shape.result_sizes[d] if places is None else places
    last = (places - 1) * shape.stride[d] + _span(shape, d)
    return last - shape.data_sizes[d] - shape.padding[d]


def _lies_outside(shape: Shape) -> bool:
    """Whether somewhere all taps of a kernel are padding."""
    return any(
        _span(shape, d) <= max(shape.padding[d], _end(shape, d))
        for d in range(len(shape.kernel))
    )


def _result_fits(shape: Shape) -> bool:
    places, step, pad = shape.result_sizes[-1], shape.stride[-1], shape.padding[-1]
    unrolled = min(_UNROLLED, places)
    if _lies_outside(shape) or pad > unrolled:
        return False
    steps, pads = max(shape.stride[-2:]), max(shape.padding[-2:])
    if shape.kernel[-1] > _LONG_ROW and steps > 1 and pads > 0:
        return False
    behind = max(0, _end(shape, -1, places - places % unrolled))
    if behind <= unrolled * step or places // unrolled <= 1:
        return True
    unrolled = min(behind // step + places % unrolled, places, _REGISTERS // 2)
    behind = max(0, _end(shape, -1, places - places % unrolled))
    return unrolled >= max(pad, behind)


def _depthwise_fits(shape: Shape) -> bool:
    places = shape.result_sizes[-1]
    unrolled = min(_UNROLLED_DEPTHWISE, places)
    behind = _end(shape, -1, places - places % unrolled)
    return not _lies_outside(shape) and max(shape.padding[-1], behind) <= unrolled


def _data_fits(shape: Shape, blockings: tuple[int, ...]) -> bool:
    places, step = shape.data_sizes[-1], shape.stride[-1]
    if shape.strided and (shape.dilated or shape.volumes):
        return False
    if shape.stride[-1] != shape.stride[-2] or _lies_outside(shape):
        return False
    before = max(0, (_span(shape, -1) - 1 - shape.padding[-1]) // step)
    unrolled, most = 0, 0
    for blocks in blockings:
        width = step
        while width * blocks + width // step <= _REGISTERS and width < places + step:
            row = min(width, places)
            width += step
            if before * step > row and row != places:
                continue
            products = -(-row // step) * blocks
            if products > most or (products == most and unrolled < row):
                unrolled, most = row, products
    if most == 0:
        return False
    end, rest = _end(shape, -1), places % unrolled
    after = max(0, int((_span(shape, -1) - 1 - end - rest) / step))
    if after * step > unrolled:
        return False
    return places <= unrolled or (unrolled % step == 0 and end + rest >= 0)


def _weight_fits(shape: Shape) -> bool:
    if shape.dilated or shape.kernel[-1] > _LONGEST_ROW:
        return False
    for d in range(len(shape.kernel)):
        padding = (shape.padding[d], max(0, _end(shape, d)))
        if max(padding) >= _span(shape, d):
            return False
        if d == len(shape.kernel) - 3 and max(padding) > 0:
            return False
    taps = zip(shape.kernel[:-1], shape.data_sizes[:-1], strict=True)
    return all(k <= n for k, n in taps)


def _depthwise_weight_fits(shape: Shape) -> bool:
    height, width = shape.kernel
    step = shape.stride[0]
    if shape.dilated or width > _LONGEST_DEPTHWISE or shape.stride[1] > width:
        return False
    for d, k in enumerate(shape.kernel):
        if max(shape.padding[d], _end(shape, d)) > k // 2:
            return False
    if shape.data_sizes[0] < height + -shape.padding[0] % step:
        return False
    ends = (shape.padding[0], max(0, _end(shape, 0)))
    return all(pad <= 1 or pad % step == 0 for pad in ends)
