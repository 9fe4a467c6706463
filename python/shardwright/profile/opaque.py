"""Memory inside CPU kernels that fake execution cannot see.

Formulas read off allocator traces of torch 2.13 on the CPU. They give bytes
above the level before the kernel at its highest point, as alternatives of
which the highest counts.
"""

import os
from collections.abc import Sequence
from typing import Any

from torch import Tensor
from torch._ops import OpOverload

from shardwright.profile.convolution import backward_scratch, forward_scratch
from shardwright.profile.scratch import Alternative, Condition, Part

__all__ = ["storage_bytes", "transients"]

# Losses whose scalar result keeps the unreduced buffer alive as its storage.
_FULL_SIZE_LOSSES = {
    "mse_loss", "smooth_l1_loss", "binary_cross_entropy", "soft_margin_loss",
}  # fmt: skip

_BATCH_NORM = {"native_batch_norm", "_native_batch_norm_legit"}
_BATCH_NORM_BACKWARD = {"native_batch_norm_backward"}


def storage_bytes(op: OpOverload, args: Sequence[Any], out: Tensor) -> int:
    """Bytes of the storage of a new result, where fake kernels say less."""
    if op._schema.name.split("::")[1] in _FULL_SIZE_LOSSES:
        return _bytes(args[0])
    return int(out.untyped_storage().nbytes())


def transients(op: OpOverload, args: Sequence[Any], threads: int) -> list[Alternative]:
    name = op._schema.name.split("::")[1]
    if name == "convolution":
        return forward_scratch(args, threads)
    if name == "convolution_backward":
        return backward_scratch(args, threads)
    if name == "_scaled_dot_product_flash_attention_for_cpu":
        return [_flash_attention(args, threads)]
    if name == "_scaled_dot_product_flash_attention_for_cpu_backward":
        return _flash_attention_backward(args, threads)
    if name == "native_layer_norm_backward":
        return [_layer_norm_backward(args, threads)]
    if name == "native_group_norm_backward":
        return [_group_norm_backward(args)]
    if name in _BATCH_NORM:
        return [_batch_norm(args[0], 1, 5)]
    if name in _BATCH_NORM_BACKWARD:
        return [_batch_norm(args[1], 2, 5)]
    return []


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _flash_attention(args: Sequence[Any], threads: int) -> Alternative:
    """Result, log-sum-exp, and per thread a block of scores and of output."""
    query, key = args[0], args[1]
    batch, heads, length, head_dim = query.shape
    rows, columns = _attention_block(length, key.shape[2])
    accumulate = 4  # bytes: float32 whatever the operands are
    scratch = rows * columns + 2 * rows + rows * head_dim
    item = query.element_size()
    return Alternative(
        (
            Part(item, (batch, heads, length, head_dim)),
            Part(accumulate, (batch, heads, length)),
            Part(scratch * threads * accumulate),
        )
    )


def _flash_attention_backward(args: Sequence[Any], threads: int) -> list[Alternative]:
    """Three gradients, a copy of the incoming one unless it lies [batch, length,
    heads, size], and per thread a block of scores and one of their gradients."""
    gradient, query, key, value = args[:4]
    rows, columns = _attention_block(query.shape[2], key.shape[2])
    accumulate = 4
    always = (
        *(Part(t.element_size(), tuple(t.shape)) for t in (query, key, value)),
        Part((2 * rows * columns * threads + rows) * accumulate),
    )
    if gradient.transpose(1, 2).is_contiguous():
        return [Alternative(always)]
    copy = Part(gradient.element_size(), tuple(gradient.shape))
    # One head, or one row, that is left of a contiguous gradient lies both ways.
    _, heads, length, _ = gradient.shape
    both = gradient.is_contiguous()
    when = (Condition(heads, low=2), Condition(length, low=2)) if both else ()
    return [Alternative(always), Alternative((*always, copy), when)]


def _attention_block(length: int, keys: int) -> tuple[int, int]:
    """Rows and columns of scores that the CPU kernels hold at a time."""
    rows = 256 if length >= 768 else 64 if length >= 192 else 32
    return min(rows, length), min(512, keys)


def _batch_norm(data: Tensor, copies: int, vectors: int) -> Alternative:
    """Backward makes the gradient of the data twice; both phases work with a few
    numbers per channel, results included."""
    item = data.element_size()
    whole = Part(item, tuple(data.shape))
    return Alternative((*[whole] * copies, Part(item * vectors, (data.shape[1],))))


def _layer_norm_backward(args: Sequence[Any], threads: int) -> Alternative:
    """The gradients, and per thread a sum of those of weight and bias."""
    data, normalized = args[1], tuple(args[2])
    item = data.element_size()
    sums = Part(item * (2 + 2 * threads), normalized)
    return Alternative((Part(item, tuple(data.shape)), sums))


def _group_norm_backward(args: Sequence[Any]) -> Alternative:
    """The gradients, and two sums per image and channel."""
    data = args[1]
    item, images, channels = data.element_size(), data.shape[0], data.shape[1]
    return Alternative(
        (
            Part(item, tuple(data.shape)),
            Part(2 * item, (channels,)),
            Part(2 * item, (images, channels)),
        )
    )


def default_threads() -> int:
    """CPU threads of one rank: what torchrun and `shardwright run` give it."""
    return max(1, int(os.environ.get("OMP_NUM_THREADS") or 1))
