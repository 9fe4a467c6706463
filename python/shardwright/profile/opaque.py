"""Memory inside CPU kernels that fake execution cannot see.

Formulas read off allocator traces of torch 2.13 on the CPU; a measured value
may replace them. Each function gives bytes above the level before the kernel
at its highest point, as alternatives (the true peak is about their maximum),
each alternative a list of terms to add.
"""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

__all__ = ["storage_bytes", "transients"]

Terms = tuple[int, ...]
# Losses whose scalar result keeps the unreduced buffer alive as its storage.
_FULL_SIZE_LOSSES = {
    "mse_loss", "smooth_l1_loss", "binary_cross_entropy", "soft_margin_loss",
}  # fmt: skip


def storage_bytes(op: OpOverload, args: Sequence[Any], out: Tensor) -> int:
    """Bytes of the storage of a new result, where fake kernels say less."""
    if op._schema.name.split("::")[1] in _FULL_SIZE_LOSSES:
        return _bytes(args[0])
    return int(out.untyped_storage().nbytes())


def transients(op: OpOverload, args: Sequence[Any], threads: int) -> list[Terms]:
    name = op._schema.name.split("::")[1]
    if name == "convolution":
        return _convolution(args)
    if name == "convolution_backward":
        return _convolution_backward(args)
    if name == "_scaled_dot_product_flash_attention_for_cpu":
        return [_flash_attention(args, threads)]
    return []


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _convolution(args: Sequence[Any]) -> list[Terms]:
    """oneDNN reorders input, weight and result into blocked layouts.

    It spares some of them below 16 channels. That is not modelled: a shard may
    have fewer channels than the whole, and too much is the safe side.
    """
    data, weight, transposed, groups = args[0], args[1], args[6], args[8]
    if data.dim() != 4:
        return []
    channels_out = weight.shape[1] * groups if transposed else weight.shape[0]
    out = _output_bytes(args, channels_out)
    return [(_bytes(data), _bytes(weight), out), (out, out)]


def _output_bytes(args: Sequence[Any], channels_out: int) -> int:
    data, weight = args[0], args[1]
    stride, padding, dilation, transposed, extra = args[3:8]
    sizes = []
    for d in range(data.dim() - 2):
        n, k = data.shape[d + 2], weight.shape[d + 2]
        span = dilation[d % len(dilation)] * (k - 1) + 1
        step, pad = stride[d % len(stride)], padding[d % len(padding)]
        if transposed:
            sizes.append((n - 1) * step - 2 * pad + span + extra[d % len(extra)])
        else:
            sizes.append((n + 2 * pad - span) // step + 1)
    return int(data.shape[0] * channels_out * prod(sizes) * data.element_size())


def _convolution_backward(args: Sequence[Any]) -> list[Terms]:
    """The gradient of the data, then, with it alive, that of the weight."""
    gradient, data, weight, stride, mask = args[0], args[1], args[2], args[4], args[10]
    if data.dim() != 4:
        return []
    g, x, w = _bytes(gradient), _bytes(data), _bytes(weight)
    bias = weight.shape[0] * weight.element_size() if mask[2] else 0
    kept = x if mask[0] else 0
    found: list[Terms] = []
    if mask[0]:
        copies = 3 if max(stride) > 1 else 2
        found += [(g, w, x), (x,) * copies]
    return [*found, (kept, g, x, w, bias), (kept, w, w, bias, bias)]


def _flash_attention(args: Sequence[Any], threads: int) -> Terms:
    """Result, log-sum-exp, and per thread a block of scores and of output."""
    query, key = args[0], args[1]
    batch, heads, length, head_dim = query.shape
    rows = 256 if length >= 768 else 64 if length >= 192 else 32
    columns = min(512, key.shape[2])
    accumulate = 4  # bytes: float32 whatever the operands are
    scratch = rows * columns + 2 * rows + rows * head_dim
    return (
        _bytes(query),
        batch * heads * length * accumulate,
        scratch * threads * accumulate,
    )


def default_threads() -> int:
    return torch.get_num_threads()
