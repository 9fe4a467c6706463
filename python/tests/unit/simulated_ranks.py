"""A device mesh in one process: what every rank holds of a tensor.

Ranks are in row order, the last axis innermost. A layout is one symbol per
axis: "R" copies, "P" addends of a sum, "S<d>" torch.chunk parts along d.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = [
    "coordinates",
    "forward_layout",
    "gather",
    "gradient_layout",
    "local_size",
    "scatter",
]


def forward_layout(port: str) -> list[str]:
    """D (replicated, gradient partial) is R for the tensor."""
    return ["R" if symbol == "D" else symbol for symbol in port.split(",")]


def gradient_layout(port: str) -> list[str]:
    """For the gradient D is a partial sum, and P is replicated."""
    swapped = {"D": "P", "P": "R"}
    return [swapped.get(symbol, symbol) for symbol in port.split(",")]


def coordinates(sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return list(itertools.product(*(range(size) for size in sizes)))


def scatter(
    tensor: Tensor,
    layout: Sequence[str],
    sizes: Sequence[int],
    generator: torch.Generator,
) -> list[Tensor]:
    """One tensor per rank."""
    if not layout:
        return [tensor]
    symbol, ranks = layout[0], sizes[0]
    if symbol == "R":
        parts = [tensor] * ranks
    elif symbol == "P":
        parts = _addends(tensor, ranks, generator)
    else:
        parts = _chunks(tensor, int(symbol[1:]), ranks)
    rest = [scatter(part, layout[1:], sizes[1:], generator) for part in parts]
    return [local for group in rest for local in group]


def gather(
    locals_: Sequence[Tensor],
    layout: Sequence[str],
    sizes: Sequence[int],
    tolerance: float = 1e-10,
) -> Tensor:
    """The whole tensor; raises AssertionError when replicas differ."""
    if not layout:
        return locals_[0]
    symbol, ranks = layout[0], sizes[0]
    inner = len(locals_) // ranks
    parts = [
        gather(locals_[i * inner : (i + 1) * inner], layout[1:], sizes[1:], tolerance)
        for i in range(ranks)
    ]
    if symbol == "P":
        return torch.stack(parts).sum(0)
    if symbol != "R":
        return torch.cat(parts, int(symbol[1:]))
    for part in parts[1:]:
        torch.testing.assert_close(part, parts[0], rtol=tolerance, atol=tolerance)
    return parts[0]


def local_size(
    shape: Sequence[int],
    layout: Sequence[str],
    sizes: Sequence[int],
    coordinate: Sequence[int],
) -> list[int]:
    """Shape of the part of the rank at `coordinate`."""
    local = list(shape)
    for symbol, ranks, index in zip(layout, sizes, coordinate, strict=True):
        if symbol[0] == "S":
            dim = int(symbol[1:])
            part = -(-local[dim] // ranks)
            local[dim] = max(0, min(part, local[dim] - part * index))
    return local


def _addends(tensor: Tensor, ranks: int, generator: torch.Generator) -> list[Tensor]:
    if not tensor.is_floating_point() and not tensor.is_complex():
        return [tensor, *(torch.zeros_like(tensor) for _ in range(ranks - 1))]
    noise = [
        torch.randn(tensor.shape, dtype=tensor.dtype, generator=generator)
        for _ in range(ranks - 1)
    ]
    return [tensor - sum(noise, torch.zeros_like(tensor)), *noise]


def _chunks(tensor: Tensor, dim: int, ranks: int) -> list[Tensor]:
    size = tensor.shape[dim]
    part = -(-size // ranks)
    starts = [min(part * i, size) for i in range(ranks + 1)]
    return [
        tensor.narrow(dim, start, end - start)
        for start, end in itertools.pairwise(starts)
    ]
