"""Memory inside convolutions on the CPU, forward and backward.

ATen runs a convolution in oneDNN or, small ones, by its own im2col ("native").
oneDNN works on blocked copies: channels in blocks of 8 (AVX2) or 16 (AVX-512),
so it reorders operands in and results out, and all copies of one product are
alive together. Where its blocked kernels do not apply (groups of few channels,
kernels larger than the data, dilation in backward) it uses im2col itself
("gemm"). Read off allocator traces of torch 2.13 (oneDNN 3.12) on AVX2, and
held to be an upper bound elsewhere. The conditions of the choice are those of
`ConvParams::use_mkldnn` in ATen.

Notation: X data, W weight, Y result, G its gradient; a prime is the blocked
copy. Every amount is above the level before the kernel, result included.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Any

import torch

from shardwright.profile.opaque.call import has_channels_last
from shardwright.profile.opaque.scratch import Alternative, Condition, Part

__all__ = ["backward_scratch", "forward_scratch"]

_SMALL_IMAGE = 20480  # elements up to which ATen keeps one image to itself
_LARGE_BATCH = 16  # from which ATen gives oneDNN single-threaded 1x1 kernels
_FEW_CHANNELS = 8  # up to which strided kernels on rows are not used for groups
_COLORS = 3  # channels whose weight gradient is taken from data as it lies
_LARGE_KERNEL = 14  # from which blocked kernels for the weight do not apply
_PAGE_ELEMENTS = 4096  # unit of oneDNN's padded copy in strided backward
_PAGE = 4096  # bytes
_ALIGN = 128  # bytes oneDNN adds to align a scratchpad
Box = tuple[Condition, ...]


def forward_scratch(args: Sequence[Any], threads: int) -> list[Alternative]:
    """Of aten.convolution(data, weight, bias, stride, padding, dilation,
    transposed, output_padding, groups)."""
    data, weight = args[0], args[1]
    found: list[Alternative] = []
    for shape, box in _shapes(data, weight, args[3:9], threads):
        if _stays_channels_last(shape, data):
            found += _extended(_channels_last_forward(shape), box, ())
            continue
        copies = _copies(shape, data, weight)
        if args[2] is not None:
            copies = (*copies, _padded_bias(shape), Part(_ALIGN))
        has_bias = args[2] is not None
        found += _extended(_forward(shape, has_bias), box, copies)
    return found


def backward_scratch(args: Sequence[Any], threads: int) -> list[Alternative]:
    """Of aten.convolution_backward(gradient, data, weight, bias sizes, stride,
    padding, dilation, transposed, output_padding, groups, mask)."""
    gradient, data, weight, mask = args[0], args[1], args[2], args[10]
    found: list[Alternative] = []
    for shape, box in _shapes(data, weight, args[4:10], threads):
        if _stays_channels_last(shape, data):
            reordered = () if has_channels_last(gradient) else (shape.out,)
            parts = _channels_last_backward(shape, mask)
            found += _extended(parts, box, reordered)
            continue
        copies = _copies(shape, data, weight)
        if not gradient.is_contiguous() and not has_channels_last(data):
            copies = (*copies, shape.out)
        found += _extended(_backward(shape, mask), box, copies)
    return found


@dataclass(frozen=True)
class _Shape:
    """One way a shard of the convolution may look: `groups` groups of `data` to
    `result` channels. For a transposed one, data and result are swapped."""

    batch: int
    groups: int
    data: int
    result: int
    data_sizes: tuple[int, ...]
    result_sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: int
    dilated: bool
    padded: bool
    pointwise: bool  # 1x1 with stride 1 and no padding: no im2col
    transposed: bool
    item: int  # bytes
    threads: int
    one_group: bool
    float32: bool

    @property
    def block(self) -> int:
        return 16 if "AVX512" in torch.backends.cpu.get_cpu_capability() else 8

    @property
    def depthwise(self) -> bool:
        return not self.one_group and self.data == self.result == 1

    @property
    def blocked(self) -> bool:
        """Whether each group fills whole blocks (or there is one, padded)."""
        whole = self.data % self.block == 0 and self.result % self.block == 0
        return self.one_group or self.depthwise or whole

    @property
    def num_taps(self) -> int:
        return prod(self.kernel)

    # Plain tensors.
    @property
    def x(self) -> Part:
        return self._plain(self.data, self.data_sizes)

    @property
    def out(self) -> Part:
        return self._plain(self.result, self.result_sizes)

    @property
    def w(self) -> Part:
        scale = self.item * self.num_taps
        return Part(scale, (self.groups, self.data, self.result))

    # Blocked copies.
    @property
    def x_blocked(self) -> Part:
        return self._blocked(self.data, self.data_sizes)

    @property
    def out_blocked(self) -> Part:
        return self._blocked(self.result, self.result_sizes)

    @property
    def w_blocked(self) -> Part:
        scale, b = self.item * self.num_taps, self.block
        if self.depthwise:
            return Part(scale, (), ((self.groups, b),))
        return Part(scale, (self.groups,), ((self.data, b), (self.result, b)))

    @property
    def w_flat(self) -> Part:
        """The blocked copy for a first layer: its data channels are not padded."""
        scale = self.item * self.num_taps
        return Part(scale, (self.groups, self.data), ((self.result, self.block),))

    @property
    def w_by_data(self) -> Part:
        """The copy for the data's gradient with channels last: only the data
        channels are padded."""
        scale = self.item * self.num_taps
        return Part(scale, (self.groups, self.result), ((self.data, self.block),))

    @property
    def few(self) -> int:
        """Channels up to which a first layer reads its data as it lies."""
        return self.block - 1 if self.block == 8 else 3

    @property
    def columns(self) -> Part:
        """im2col of one image and one group: what the gemm path unfolds."""
        places = self.data_sizes if self.transposed else self.result_sizes
        channels = self.result if self.transposed else self.data
        return Part(self.item * self.num_taps * prod(places), (channels,))

    @property
    def native_columns(self) -> tuple[Part, ...]:
        return () if self.pointwise else (self.all_columns,)

    @property
    def all_columns(self) -> Part:
        one = self.columns
        return Part(one.scale, (*one.dims, self.batch))

    def _plain(self, channels: int, sizes: tuple[int, ...]) -> Part:
        return Part(self.item * prod(sizes), (self.batch, self.groups, channels))

    def _blocked(self, channels: int, sizes: tuple[int, ...]) -> Part:
        scale, b = self.item * prod(sizes), self.block
        if self.depthwise:
            return Part(scale, (self.batch,), ((self.groups, b),))
        return Part(scale, (self.batch, self.groups), ((channels, b),))


def _shapes(
    data: Any, weight: Any, rest: Sequence[Any], threads: int
) -> Iterator[tuple[_Shape, Box]]:
    """The convolution, and if it has groups also what a shard of one group is."""
    stride, padding, dilation, transposed, extra, groups = rest
    channels, result = data.shape[1], weight.shape[0]
    if transposed:
        result = weight.shape[1] * groups
    kernel = tuple(weight.shape[2:])
    common = {
        "batch": data.shape[0],
        "data": channels // groups,
        "result": result // groups,
        "data_sizes": tuple(data.shape[2:]),
        "result_sizes": _result_sizes(
            data, kernel, stride, padding, dilation, transposed, extra
        ),
        "kernel": kernel,
        "stride": max(stride),
        "dilated": max(dilation) > 1,
        "padded": max(padding) > 0,
        "pointwise": max(kernel) == 1 and max(stride) == 1 and max(padding) == 0,
        "transposed": transposed,
        "item": data.element_size(),
        "threads": threads,
        "float32": data.dtype == torch.float32,
    }
    if groups == 1:
        yield _Shape(groups=1, one_group=True, **common), ()
        return
    yield _Shape(groups=1, one_group=True, **common), (Condition(groups, 1, 1),)
    yield _Shape(groups=groups, one_group=False, **common), (Condition(groups, 2),)


def _result_sizes(
    data: Any,
    kernel: tuple[int, ...],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    extra: Sequence[int],
) -> tuple[int, ...]:
    sizes = []
    for d, k in enumerate(kernel):
        n, step, pad = data.shape[d + 2], stride[d], padding[d]
        span = dilation[d] * (k - 1) + 1
        if transposed:
            sizes.append((n - 1) * step - 2 * pad + span + extra[d])
        else:
            sizes.append((n + 2 * pad - span) // step + 1)
    return tuple(sizes)


def _stays_channels_last(shape: _Shape, data: Any) -> bool:
    """Whether kernels work on data with channels last as it lies."""
    if data.is_contiguous() or not has_channels_last(data) or shape.transposed:
        return False
    return shape.float32 and (shape.one_group or shape.depthwise)


def _copies(shape: _Shape, data: Any, weight: Any) -> tuple[Part, ...]:
    """What is made contiguous first and held throughout."""
    if data.is_contiguous():
        return ()
    if has_channels_last(data):  # data as it is, but another layout of the weight
        return (shape.w_blocked, Part(2 * _PAGE_ELEMENTS + 256 * shape.threads))
    return (shape.x,)


def _extended(
    alternatives: Sequence[Alternative], box: Box, extra: tuple[Part, ...]
) -> list[Alternative]:
    return [Alternative((*a.parts, *extra), (*a.when, *box)) for a in alternatives]


# --- channels last ------------------------------------------------------------


def _weight_copy(shape: _Shape) -> tuple[Part, ...]:
    """The weight with channels last, where that is another order."""
    same = shape.num_taps == 1 or shape.depthwise
    return () if same else (shape.w,)


def _batches(shape: _Shape) -> Part:
    """Descriptors of oneDNN's small products; depthwise kernels have none."""
    if shape.depthwise:
        return Part(0)
    return Part(_PAGE_ELEMENTS + (_PAGE_ELEMENTS + 24) * shape.threads)


def _channels_last_forward(shape: _Shape) -> list[Alternative]:
    found = [
        Alternative((shape.out, *_weight_copy(shape), *shape.native_columns), box)
        for box in _native_boxes(shape)
    ]
    weight = shape.w_blocked if shape.depthwise else shape.w_flat
    parts = (shape.out, *_weight_copy(shape), _batches(shape), weight)
    return [*found, *(Alternative(parts, box) for box in _onednn_boxes(shape))]


def _channels_last_backward(shape: _Shape, mask: Sequence[bool]) -> list[Alternative]:
    found: list[Alternative] = []
    for box in _native_boxes(shape):
        found += _extended(_native_backward(shape, mask), box, _weight_copy(shape))
    alternatives: list[Alternative] = []
    if mask[0]:
        alternatives.append(Alternative(_channels_last_data_gradient(shape)))
    if mask[1]:
        alternatives += _channels_last_weight_gradient(shape, mask)
    for box in _onednn_boxes(shape):
        found += _extended(alternatives, box, ())
    return found


def _channels_last_data_gradient(shape: _Shape) -> tuple[Part, ...]:
    if shape.depthwise:
        return (shape.x, shape.w_blocked)
    copies = (shape.x, *_weight_copy(shape), shape.w_by_data)
    if shape.stride > 1:
        return (*copies, *_strided(shape))
    return (*copies, _batches(shape), Part(_ALIGN))


def _channels_last_weight_gradient(
    shape: _Shape, mask: Sequence[bool]
) -> list[Alternative]:
    kept = (shape.x,) if mask[0] else ()
    bias = _bias(shape, mask)
    sums = _reduction(shape, mask) if shape.threads > 1 else ()
    copies = (*_weight_copy(shape), shape.w, shape.w)
    always = (*kept, *copies, *bias, *bias, *sums)
    if shape.depthwise:
        return [Alternative((*always, shape.w_blocked))]
    return _by_colors(shape, (*always, shape.w_flat), (*always, shape.w_blocked))


# --- which library ------------------------------------------------------------


def _onednn_boxes(shape: _Shape) -> list[Box]:
    """Sizes for which ATen calls oneDNN (their union)."""
    if not shape.float32:
        return []  # bfloat16 on machines without AVX-512; float64 everywhere
    wide = len(shape.kernel) > 1 and min(shape.kernel[-2:]) > 3
    plain = max(shape.kernel[-2:]) == 1 and shape.stride == 1 and not shape.dilated
    if plain and shape.threads == 1:
        return [(Condition(shape.batch, _LARGE_BATCH),)]
    if wide or not shape.one_group:
        return [()]
    first = _SMALL_IMAGE // prod(shape.data_sizes) + 1
    one = (Condition(shape.batch, 1, 1), Condition(shape.data, first))
    return [(Condition(shape.batch, 2),), one]


def _native_boxes(shape: _Shape) -> list[Box]:
    """The complement of `_onednn_boxes`."""
    if not shape.float32:
        return [()]
    wide = len(shape.kernel) > 1 and min(shape.kernel[-2:]) > 3
    plain = max(shape.kernel[-2:]) == 1 and shape.stride == 1 and not shape.dilated
    if plain and shape.threads == 1:
        return [(Condition(shape.batch, 1, _LARGE_BATCH - 1),)]
    if wide or not shape.one_group:
        return []
    last = _SMALL_IMAGE // prod(shape.data_sizes)
    return [(Condition(shape.batch, 1, 1), Condition(shape.data, 1, last))]


# --- forward --------------------------------------------------------------------


def _forward(shape: _Shape, has_bias: bool) -> list[Alternative]:
    found: list[Alternative] = []
    for box in _native_boxes(shape):
        found += _extended(_native_forward(shape), box, ())
    for box in _onednn_boxes(shape):
        if shape.transposed:
            # A bias is added from one blocked result to another.
            plain = _swapped(shape)
            second = has_bias and plain.stride == 1 and plain.blocked
            extra = (plain.x_blocked,) if second else ()
            parts = _extended(_onednn_data_gradient(plain), (), (*extra, Part(_ALIGN)))
        else:
            parts = _onednn_forward(shape)
        found += _extended(parts, box, ())
    return found


def _native_forward(shape: _Shape) -> list[Alternative]:
    columns = shape.native_columns
    if shape.one_group:
        return [Alternative((shape.out, *columns))]
    one_x, one_out = _of_one_group(shape.x), _of_one_group(shape.out)
    return [
        Alternative((shape.out, one_x, *columns)),
        Alternative((shape.out, shape.out)),
        Alternative((one_out, one_x, *columns)),
    ]


def _of_one_group(part: Part) -> Part:
    batch, _, channels = part.dims
    return Part(part.scale, (batch, channels))


def _onednn_forward(shape: _Shape) -> list[Alternative]:
    if not shape.blocked:
        return [
            Alternative((shape.out, shape.out)),
            Alternative((shape.out, *_gemm(shape))),
        ]
    found = [Alternative((shape.out_blocked, shape.out))]
    copies = (shape.out_blocked, *_reduced_to_unit_stride(shape))
    blocked = (shape.x_blocked, shape.w_blocked, *copies)
    if shape.one_group and max(shape.kernel) > 1:
        found += [
            Alternative(
                (shape.w_flat, *copies), (Condition(shape.data, 1, shape.few),)
            ),
            Alternative(blocked, (Condition(shape.data, shape.few + 1),)),
        ]
    else:
        found.append(Alternative(blocked))
    if _exceeds_data(shape) and shape.stride > 1:
        found.append(Alternative((shape.out, *_gemm(shape))))
    return found


def _reduced_to_unit_stride(shape: _Shape) -> tuple[Part, ...]:
    """1x1 kernels with a stride gather the places they read, per thread."""
    if shape.stride == 1 or max(shape.kernel) > 1:
        return ()
    scale = shape.item * prod(shape.result_sizes) * shape.threads
    if shape.one_group:
        return (Part(scale, (), ((shape.data, shape.block),)), Part(_ALIGN))
    return (Part(scale, (shape.data,)), Part(_ALIGN))


def _exceeds_data(shape: _Shape) -> bool:
    """Blocked kernels want at least as many rows as the filter has."""
    pairs = zip(shape.kernel[:-1], shape.data_sizes[:-1], strict=True)
    return any(k > n for k, n in pairs)


def _gemm(shape: _Shape) -> tuple[Part, ...]:
    if shape.pointwise:
        return (Part(_ALIGN),)
    return (shape.columns.times(shape.threads), Part(_ALIGN))


# --- backward -------------------------------------------------------------------


def _backward(shape: _Shape, mask: Sequence[bool]) -> list[Alternative]:
    found: list[Alternative] = []
    for box in _native_boxes(shape):
        found += _extended(_native_backward(shape, mask), box, ())
    for box in _onednn_boxes(shape):
        parts: list[Alternative] = []
        if mask[0]:
            parts += (
                _onednn_forward(_swapped(shape))
                if shape.transposed
                else _onednn_data_gradient(shape)
            )
        if mask[1]:
            parts += _onednn_weight_gradient(shape, mask)
        slack = (Part(_ALIGN),) if shape.transposed else ()
        found += _extended(parts, box, slack)
    return found


def _swapped(shape: _Shape) -> _Shape:
    """A transposed convolution is the gradient of a plain one, the data being
    that one's result."""
    fields = dict(vars(shape))
    fields |= {
        "data": shape.result,
        "result": shape.data,
        "data_sizes": shape.result_sizes,
        "result_sizes": shape.data_sizes,
        "transposed": False,
    }
    return _Shape(**fields)


def _native_backward(shape: _Shape, mask: Sequence[bool]) -> list[Alternative]:
    kept = [shape.x] if mask[0] else []
    made = [shape.w] if mask[1] else []
    bias = _bias(shape, mask)
    # 2-D kernels unfold for the weight only.
    volumes = len(shape.kernel) == 3
    unfolds = mask[1] or shape.dilated or shape.transposed or volumes
    columns = shape.native_columns if unfolds else ()
    if volumes and shape.pointwise and mask[0]:
        columns = (shape.all_columns,)  # made even where they are the data
    if shape.one_group:
        return [Alternative((*kept, *made, *bias, *columns))]
    one_x, one_out = _of_one_group(shape.x), _of_one_group(shape.out)
    one_w = Part(shape.w.scale, shape.w.dims[1:])
    return [
        Alternative((*kept, *made, *bias, one_x, one_out, one_w, *columns)),
        Alternative((*kept, *kept, *made, *made, *bias, *bias)),
    ]


def _onednn_data_gradient(shape: _Shape) -> list[Alternative]:
    found: list[Alternative] = []
    if shape.stride > 1 and (shape.one_group or shape.result > _FEW_CHANNELS):
        # On plain rows, not blocks; with groups only if these are long.
        copies = (shape.out, shape.w_blocked, shape.x, *_strided(shape))
        found = [Alternative((shape.x,) * 3), Alternative(copies)]
        if shape.one_group or shape.blocked:
            return found
    if shape.blocked:
        copies = (shape.out_blocked, shape.w_blocked, shape.x_blocked)
        return [Alternative((shape.x_blocked, shape.x)), Alternative(copies)]
    return [
        *found,
        Alternative((shape.x, *_gemm(shape))),
        Alternative((shape.x, shape.x)),
    ]


def _strided(shape: _Shape) -> tuple[Part, ...]:
    """Scratch of oneDNN's strided data gradient: per thread a padded copy of one
    image's gradient, and buffers that grow when rows are no multiple of the stride."""
    halo = max(ceil((k - 1) / shape.stride) for k in shape.kernel)
    places = prod(
        n + (halo if k > 1 else 0)
        for n, k in zip(shape.result_sizes, shape.kernel, strict=True)
    )
    odd = shape.data_sizes[-1] % shape.stride > 0
    fixed, buffers = (16384, 24600) if odd else (12288, 8216)
    channels = (shape.groups, shape.result)
    copy = (
        Part(shape.item * shape.threads, (), ((channels[1] * places, _PAGE_ELEMENTS),))
        if shape.one_group
        else Part(shape.item * shape.threads * places, channels)
    )
    slack = 0 if shape.one_group else shape.item * _PAGE_ELEMENTS * shape.threads
    return (copy, Part(fixed + slack + buffers * shape.threads))


def _onednn_weight_gradient(shape: _Shape, mask: Sequence[bool]) -> list[Alternative]:
    kept = [shape.x] if mask[0] else []
    bias = _bias(shape, mask)
    found = [
        Alternative((*kept, shape.w_blocked, shape.w, *bias, *bias)),
        Alternative((*kept, shape.w, shape.w, *bias, *bias)),
    ]
    plain = _swapped(shape) if shape.transposed else shape
    if plain.blocked and not (plain.block == 8 and _is_unusual(plain)):
        scratch = (*_reduction(shape, mask), *_reduced_to_unit_stride(plain))
        always = (*kept, plain.out_blocked, *scratch)
        blocked = (*always, plain.x_blocked, plain.w_blocked)
        if plain.one_group and plain.block == 8 and max(plain.kernel) > 1:
            found += _by_colors(plain, (*always, plain.w_flat), blocked)
        else:
            found.append(Alternative(blocked))
    # Blocked or not is known for AVX2 only: elsewhere the larger counts.
    unknown = plain.block != 8 and (len(plain.kernel) == 3 or shape.transposed)
    gemm = not plain.blocked or plain.depthwise or plain.dilated
    if gemm or unknown or _is_unusual(plain):
        found.append(Alternative((*kept, shape.w, *bias, *_gemm_of_weight(plain))))
    return found


def _by_colors(
    shape: _Shape, flat: tuple[Part, ...], blocked: tuple[Part, ...]
) -> list[Alternative]:
    """`flat` for three data channels, whose data is read as it lies and whose
    weight is not padded; `blocked` for others."""
    return [
        Alternative(flat, (Condition(shape.data, _COLORS, _COLORS),)),
        Alternative(blocked, (Condition(shape.data, high=_COLORS - 1),)),
        Alternative(blocked, (Condition(shape.data, low=_COLORS + 1),)),
    ]


def _is_unusual(shape: _Shape) -> bool:
    """Where AVX2 has no blocked kernel for the gradient of the weight."""
    volumes = len(shape.kernel) == 3 and shape.padded
    large = max(shape.kernel) >= _LARGE_KERNEL
    return volumes or large or _exceeds_data(shape)


def _gemm_of_weight(shape: _Shape) -> tuple[Part, ...]:
    """Four sums per thread, and im2col, of volumes one slice at a time."""
    sums = shape.w.times(4 * shape.threads)
    if shape.pointwise:
        return (sums, Part(2 * _ALIGN))
    places = shape.result_sizes[1:] if len(shape.kernel) == 3 else shape.result_sizes
    scale = shape.item * shape.num_taps * prod(places) * shape.threads
    return (sums, Part(scale, (shape.data,)), Part(2 * _ALIGN))


def _reduction(shape: _Shape, mask: Sequence[bool]) -> tuple[Part, ...]:
    """Sums of several threads, and of a padded bias."""
    parts = []
    if shape.threads > 1:
        copies = shape.threads - (0 if max(shape.kernel) == 1 else 1)
        parts.append(shape.w_blocked.times(copies))
        pages = 6 if mask[2] else 3
        parts.append(Part(pages * _PAGE + 2 * _ALIGN))
    if mask[2]:
        parts.append(_padded_bias(shape).times(1 + shape.threads))
        parts.append(Part(_ALIGN))
    return tuple(parts)


def _padded_bias(shape: _Shape) -> Part:
    if shape.depthwise:
        return Part(shape.item, (), ((shape.groups, shape.block),))
    return Part(shape.item, (shape.groups,), ((shape.result, shape.block),))


def _bias(shape: _Shape, mask: Sequence[bool]) -> tuple[Part, ...]:
    if not mask[2]:
        return ()
    return (Part(shape.item, (shape.groups, shape.result)),)
