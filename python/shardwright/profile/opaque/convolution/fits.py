"""What the AVX2 kernels of oneDNN 3.12 refuse, by sizes that no shard changes.

Each works on a few places of a row at a time; padding, strides and dilation have
to fit in there. All shapes are of plain convolutions.
"""

from shardwright.profile.opaque.convolution.shape import Shape

__all__ = [
    "data_fits",
    "depthwise_fits",
    "depthwise_weight_fits",
    "is_pointwise",
    "lies_outside",
    "result_fits",
    "weight_fits",
]

_UNROLLED = 3  # places of a row that a forward kernel unrolls
_UNROLLED_DEPTHWISE = 4
_REGISTERS = 15  # of AVX2 for sums and operands
_LONG_ROW = 7  # taps from beyond which padding and strides exclude each other
_LONGEST_ROW = 13  # taps of a row for the gradient of the weight
_LONGEST_DEPTHWISE = 3


def is_pointwise(shape: Shape) -> bool:
    """1x1 without padding, with strides only in images that they divide: these
    are gathered first."""
    if not shape.one_group or shape.num_taps > 1 or max(shape.padding) > 0:
        return False
    if not shape.strided:
        return shape.data_sizes == shape.result_sizes
    sizes = zip(shape.result_sizes, shape.stride, shape.data_sizes, strict=True)
    return not shape.volumes and all(out * step == n for out, step, n in sizes)


def _span(shape: Shape, d: int) -> int:
    return shape.dilation[d] * (shape.kernel[d] - 1) + 1


def _end(shape: Shape, d: int, places: int | None = None) -> int:
    """Padding behind the data that the first `places` results read; negative if
    data is left."""
    places = shape.result_sizes[d] if places is None else places
    last = (places - 1) * shape.stride[d] + _span(shape, d)
    return last - shape.data_sizes[d] - shape.padding[d]


def lies_outside(shape: Shape) -> bool:
    """Whether somewhere all taps of a kernel are padding."""
    return any(
        _span(shape, d) <= max(shape.padding[d], _end(shape, d))
        for d in range(len(shape.kernel))
    )


def result_fits(shape: Shape) -> bool:
    places, step, pad = shape.result_sizes[-1], shape.stride[-1], shape.padding[-1]
    unrolled = min(_UNROLLED, places)
    if lies_outside(shape) or pad > unrolled:
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


def depthwise_fits(shape: Shape) -> bool:
    places = shape.result_sizes[-1]
    unrolled = min(_UNROLLED_DEPTHWISE, places)
    behind = _end(shape, -1, places - places % unrolled)
    return not lies_outside(shape) and max(shape.padding[-1], behind) <= unrolled


def data_fits(shape: Shape, blockings: tuple[int, ...]) -> bool:
    places, step = shape.data_sizes[-1], shape.stride[-1]
    if shape.strided and (shape.dilated or shape.volumes):
        return False
    if shape.stride[-1] != shape.stride[-2] or lies_outside(shape):
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


def weight_fits(shape: Shape) -> bool:
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


def depthwise_weight_fits(shape: Shape) -> bool:
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
