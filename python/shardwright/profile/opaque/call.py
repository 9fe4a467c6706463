"""One dispatched kernel, as the formulas see it, and parts they share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from shardwright.profile.opaque.scratch import Part

__all__ = ["KernelCall", "copy_as", "has_channels_last", "transposing", "whole"]


@dataclass(frozen=True)
class KernelCall:
    """`op(*args, **kwargs)` gave `out`; `threads` CPU threads run it."""

    op: OpOverload
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    out: Any
    threads: int
    in_backward: bool
    forward: frozenset[str] = frozenset()  # in backward: the kernels before it

    @property
    def name(self) -> str:
        return self.op._schema.name.split("::")[1]

    @property
    def results(self) -> list[Tensor]:
        return [leaf for leaf in tree_leaves(self.out) if isinstance(leaf, Tensor)]


def whole(tensor: Tensor) -> Part:
    """The bytes of all its elements."""
    return Part(tensor.element_size(), tuple(tensor.shape))


def copy_as(tensor: Tensor, dtype: torch.dtype) -> Part:
    """The bytes of its elements converted to `dtype`."""
    return Part(dtype.itemsize, tuple(tensor.shape))


_SQUARE = 60  # rows and columns of a block; fewer elements are not blocked


def transposing(matrix: Tensor) -> tuple[Part, ...]:
    """A copy into the other order of a matrix goes through a square block."""
    if matrix.dim() != 2 or matrix.numel() < _SQUARE**2:
        return ()
    return (Part(_SQUARE**2 * matrix.element_size()),)


_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


def has_channels_last(tensor: Tensor) -> bool:
    """Whether an image or volume lies so; with one channel or place it may be
    contiguous as well."""
    dims = tensor.dim()
    return dims in _CHANNELS_LAST and tensor.is_contiguous(
        memory_format=_CHANNELS_LAST[dims]
    )
