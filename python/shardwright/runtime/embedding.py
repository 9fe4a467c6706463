"""Embedding whose table is split over rows (the vocabulary)."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor

from .axes import axis as find_axis

__all__ = ["vocab_parallel_embedding"]

aten = torch.ops.aten


class _VocabParallelEmbedding(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, weight: Tensor, indices: Tensor, offset: int, padding_idx: int
    ) -> Tensor:
        rows = weight.shape[0]
        local = indices - offset
        outside = (local < 0) | (local >= rows)
        # A row index of `rows` marks "not mine": the backward kernel skips it.
        local.masked_fill_(outside, rows)
        if rows == 0:
            out = weight.new_zeros((*indices.shape, weight.shape[1]))
        else:
            out = aten.embedding.default(weight, local.clamp(max=rows - 1))
            out.masked_fill_(outside.unsqueeze(-1), 0)
        if padding_idx >= 0:
            local.masked_fill_(indices == padding_idx, rows)
        ctx.save_for_backward(local)
        ctx.rows = rows
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        (local,) = ctx.saved_tensors
        rows = ctx.rows
        if rows == 0:
            weight = gradient.new_zeros((0, gradient.shape[-1]))
        else:
            weight = aten.embedding_dense_backward.default(
                gradient, local, rows, rows, False
            )
        return weight, None, None, None


def vocab_parallel_embedding(
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
    *,
    axes: tuple[str, ...],
    size: int,
) -> Tensor:
    """Rows of a weight that is Shard(0) on `axes`; result Partial(sum) there.

    `size` is the number of rows of the whole table, `axes` in mesh order.
    Indices are global; a row that lives elsewhere gives zeros. Saves the local
    indices (8 bytes per index). No collectives.
    """
    if scale_grad_by_freq or sparse:
        raise ValueError(
            "[runtime] vocab_parallel_embedding cannot scale gradients by "
            "frequency or make sparse gradients: expected both False, got "
            f"scale_grad_by_freq={scale_grad_by_freq}, sparse={sparse}. "
            "Try: replicate this embedding."
        )
    offset, length = 0, size
    for name in axes:
        step, length = find_axis(name).chunk(length)
        offset += step
    if weight.shape[0] != length:
        raise ValueError(
            "[runtime] vocab_parallel_embedding got a wrong shard: expected "
            f"{length} rows of {size}, got {weight.shape[0]} (axes {axes})."
        )
    out: Tensor = cast(Any, _VocabParallelEmbedding).apply(
        weight, indices, offset, padding_idx
    )
    return out
