"""One way a shard of a convolution may look, and the bytes of its operands."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch

from shardwright.profile.opaque.scratch import Alternative, Condition, Part

__all__ = ["Box", "Shape", "bias", "extended", "of_one_group", "shapes", "swapped"]

Box = tuple[Condition, ...]
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Shape:
    """`groups` groups of `data` to `result` channels. Rows are images of height
    one, as ATen sees them. For a transposed one, data and result are swapped.

    Only `batch`, `groups`, `data` and `result` may differ between the whole and
    its shards; within one group of several, the channels may not either."""

    batch: int
    groups: int
    data: int
    result: int
    data_sizes: Sizes
    result_sizes: Sizes
    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    output_padding: Sizes
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
    def strided(self) -> bool:
        return max(self.stride) > 1

    @property
    def dilated(self) -> bool:
        return max(self.dilation) > 1

    @property
    def volumes(self) -> bool:
        return len(self.kernel) == 3

    @property
    def num_taps(self) -> int:
        return prod(self.kernel)

    @property
    def pointwise(self) -> bool:
        """1x1 that reads every place once: no im2col."""
        return self.num_taps == 1 and not self.strided and max(self.padding) == 0

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
        """The copy for the data's gradient on rows: only the data channels are
        padded."""
        scale = self.item * self.num_taps
        return Part(scale, (self.groups, self.result), ((self.data, self.block),))

    @property
    def bias_blocked(self) -> Part:
        if self.depthwise:
            return Part(self.item, (), ((self.groups, self.block),))
        return Part(self.item, (self.groups,), ((self.result, self.block),))

    def _plain(self, channels: int, sizes: Sizes) -> Part:
        return Part(self.item * prod(sizes), (self.batch, self.groups, channels))

    def _blocked(self, channels: int, sizes: Sizes) -> Part:
        scale, b = self.item * prod(sizes), self.block
        if self.depthwise:
            return Part(scale, (self.batch,), ((self.groups, b),))
        return Part(scale, (self.batch, self.groups), ((channels, b),))


def shapes(
    data: Any, weight: Any, rest: Sequence[Any], threads: int
) -> Iterator[tuple[Shape, Box]]:
    """The convolution, and if it has groups also what a shard of one group is."""
    stride, padding, dilation, transposed, extra, groups = rest
    result = weight.shape[1] * groups if transposed else weight.shape[0]
    rows = data.dim() == 3
    shape = Shape(
        batch=data.shape[0],
        groups=groups,
        data=data.shape[1] // groups,
        result=result // groups,
        data_sizes=_sizes(data.shape[2:], rows, 1),
        result_sizes=(),
        kernel=_sizes(weight.shape[2:], rows, 1),
        stride=_sizes(stride, rows, 1),
        padding=_sizes(padding, rows, 0),
        dilation=_sizes(dilation, rows, 1),
        output_padding=_sizes(extra, rows, 0),
        transposed=transposed,
        item=data.element_size(),
        threads=threads,
        one_group=groups == 1,
        float32=data.dtype == torch.float32,
    )
    shape = replace(shape, result_sizes=_result_sizes(shape))
    if groups == 1:
        yield shape, ()
        return
    yield replace(shape, groups=1, one_group=True), (Condition(groups, 1, 1),)
    yield shape, (Condition(groups, 2),)


def _sizes(given: Sequence[int], rows: bool, height: int) -> Sizes:
    return (height, *given) if rows else tuple(given)


def _result_sizes(shape: Shape) -> Sizes:
    sizes = []
    for d, n in enumerate(shape.data_sizes):
        step, pad = shape.stride[d], shape.padding[d]
        span = shape.dilation[d] * (shape.kernel[d] - 1) + 1
        if shape.transposed:
            sizes.append((n - 1) * step - 2 * pad + span + shape.output_padding[d])
        else:
            sizes.append((n + 2 * pad - span) // step + 1)
    return tuple(sizes)


def swapped(shape: Shape) -> Shape:
    """A transposed convolution is the gradient of a plain one, the data being
    that one's result."""
    return replace(
        shape,
        data=shape.result,
        result=shape.data,
        data_sizes=shape.result_sizes,
        result_sizes=shape.data_sizes,
        transposed=False,
    )


def of_one_group(part: Part) -> Part:
    batch, _, channels = part.dims
    return Part(part.scale, (batch, channels))


def bias(shape: Shape, mask: Sequence[bool]) -> tuple[Part, ...]:
    """The gradient of the bias."""
    if not mask[2]:
        return ()
    return (Part(shape.item, (shape.groups, shape.result)),)


def extended(
    alternatives: Sequence[Alternative], box: Box, extra: tuple[Part, ...] = ()
) -> list[Alternative]:
    """The same with more parts, under more conditions."""
    return [Alternative((*a.parts, *extra), (*a.when, *box)) for a in alternatives]
