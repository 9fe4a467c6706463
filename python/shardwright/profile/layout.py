"""How a tensor lies in memory, and how it would lie at other factor sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "Layout",
    "contiguous_strides",
    "is_dense",
    "kept_as",
    "layout_json",
    "memory_order",
    "scaled_strides",
]


@dataclass(frozen=True)
class Layout:
    """Shape, strides (elements), dtype, and whether autograd tracks it."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    requires_grad: bool = False

    @staticmethod
    def of(tensor: Any) -> "Layout":
        """From a tensor, or from anything that describes one."""
        stride = tensor.stride() if isinstance(tensor, Tensor) else tensor.stride
        return Layout(
            tuple(tensor.shape), tuple(stride), tensor.dtype, tensor.requires_grad
        )

    def resized(self, shape: Sequence[int]) -> "Layout":
        """The same layout at another shape of the same rank."""
        stride = scaled_strides(self.shape, self.stride, shape)
        return Layout(tuple(shape), stride, self.dtype, self.requires_grad)

    def empty(self) -> Tensor:
        return torch.empty_strided(
            self.shape, self.stride, dtype=self.dtype, device="cpu"
        )


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(
        prod(max(size, 1) for size in shape[d + 1 :]) for d in range(len(shape))
    )


def is_dense(layout: Layout) -> bool:
    """True when the elements fill their memory: no gaps, none shared."""
    running = 1
    for size, stride in sorted(
        ((n, s) for n, s in zip(layout.shape, layout.stride, strict=True) if n != 1),
        key=lambda pair: pair[1],
    ):
        if stride != running:
            return False
        running *= size
    return True


def kept_as(layout: Layout, leaf: Layout) -> bool:
    """Whether autograd keeps a gradient of a leaf as it lies: with the strides of
    the leaf, or in the order of its dims if the leaf itself has gaps."""
    stride = leaf.stride if is_dense(leaf) else contiguous_strides(leaf.shape)
    return all(
        size == 1 or one == other
        for size, one, other in zip(leaf.shape, layout.stride, stride, strict=True)
    )


def memory_order(layout: Layout, expected: Sequence[int] = ()) -> list[int]:
    """Dims from the slowest to the fastest: `expected` (default: as named) where
    the tensor lies so, else by stride; as named if elements share memory."""
    named = list(range(len(layout.shape)))
    for order in (list(expected) or named, named):
        shape = [layout.shape[dim] for dim in order]
        wanted = contiguous_strides(shape)
        if all(
            layout.stride[dim] == stride
            for dim, size, stride in zip(order, shape, wanted, strict=True)
            if size > 1
        ):
            return order
    pairs = zip(layout.shape, layout.stride, strict=True)
    if any(n > 1 and s == 0 for n, s in pairs):
        return named
    return sorted(named, key=lambda dim: (-layout.stride[dim], dim))


def layout_json(layout: Layout | None, expected: Sequence[int] = ()) -> Any:
    """{"order": dims from the slowest to the fastest, "dense": whether they fill
    their memory}; None for a contiguous tensor and for none."""
    if layout is None:
        return None
    order, dense = memory_order(layout, expected), is_dense(layout)
    if dense and order == sorted(order):
        return None
    return {"order": order, "dense": dense}


def scaled_strides(
    shape: Sequence[int], stride: Sequence[int], new_shape: Sequence[int]
) -> tuple[int, ...]:
    """Strides of `new_shape` with the order of dims and the gaps of the old.

    A broadcast dim (stride 0) stays one. A gap is the ratio between a dim's
    stride and the extent of all smaller dims: the query of a fused projection
    [B, T, 3, H, D][:, :, 0] keeps its factor 3 whatever H becomes.
    """
    order = sorted(
        (d for d in range(len(shape)) if stride[d] != 0), key=lambda d: (stride[d], -d)
    )
    result = [0] * len(shape)
    extent, new_extent = 1, 1
    for d in order:
        result[d] = max(1, new_extent * stride[d] // extent)
        extent = stride[d] * max(shape[d], 1)
        new_extent = result[d] * max(new_shape[d], 1)
    return tuple(result)
