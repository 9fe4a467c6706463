"""Kernels: class, FLOPs and bytes of one dispatched ATen call.

One multiply-add is 2 FLOPs. Products, convolutions, attention and RNN layers
have FLOPs; everything else counts bytes only. `torch.utils.flop_counter` is not
used: it counts 0 for attention on the CPU and RNN layers, and the backward of
grouped convolutions as if ungrouped.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

__all__ = ["Kernel", "kernel_of"]


@dataclass(frozen=True)
class Kernel:
    """`reads` and `writes` are bytes, one number per tensor; `flops` one number
    per product inside the kernel."""

    name: str  # "aten.mm"
    kind: str  # gemm, attention, conv, elementwise, reduction, copy, other
    flops: tuple[int, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]


def kernel_of(
    op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any], out: Any
) -> Kernel | None:
    """The kernel that `op` launches; None for views and allocations."""
    name = op._schema.name.split("::")[1]
    if _moves_nothing(op, name):
        return None
    inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
    outputs = [t for t in tree_leaves(out) if isinstance(t, Tensor)]
    flops = _FLOPS[name](args, out) if name in _FLOPS else 0
    products = flops if isinstance(flops, tuple) else (flops,)
    return Kernel(
        name=f"{op.namespace}.{name}",
        kind=_kind(op, name),
        flops=tuple(int(number) for number in products),
        reads=tuple(_reads(name, inputs, outputs)),
        writes=tuple(_touched_bytes(t) for t in outputs),
    )


def _moves_nothing(op: OpOverload, name: str) -> bool:
    if name in _NO_KERNEL or name.startswith(("empty", "new_empty")):
        return True
    if op.namespace == "prim":  # questions of fake tensors, such as prim.device
        return True
    returns = op._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )


_NO_KERNEL = {"_unsafe_view", "_reshape_alias", "lift_fresh", "detach", "detach_"}
# Ops that read no more of their table than they return.
_GATHERS = {"embedding", "gather", "index", "index_select", "take_along_dim", "take"}
# Ops that overwrite their first tensor without reading it.
_OVERWRITES = {
    "fill_", "zero_", "copy_", "bernoulli_", "uniform_", "normal_", "random_",
    "exponential_", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
    "bernoulli", "new_zeros", "new_ones", "new_full",
}  # fmt: skip


def _reads(name: str, inputs: list[Tensor], outputs: list[Tensor]) -> list[int]:
    if name in _GATHERS and inputs and outputs:
        return [_touched_bytes(outputs[0]), *map(_touched_bytes, inputs[1:])]
    if name in _OVERWRITES:
        inputs = inputs[1:]
    return [_touched_bytes(t) for t in inputs]


def _touched_bytes(tensor: Tensor) -> int:
    """Bytes of distinct elements: a broadcast dim is read once."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return prod(n for n, stride in sizes if stride != 0) * tensor.element_size()


# -- classes ---------------------------------------------------------------

_REDUCTIONS = (
    "sum", "mean", "prod", "amax", "amin", "max", "min", "aminmax", "argmax", "argmin",
    "var", "var_mean", "std", "norm", "linalg_vector_norm", "logsumexp", "any", "all",
    "cumsum", "cumprod", "_softmax", "_log_softmax", "native_layer_norm",
    "native_group_norm", "native_batch_norm", "_fused_rms_norm", "nll_loss_forward",
    "mse_loss", "smooth_l1_loss", "binary_cross_entropy", "_softmax_backward_data",
    "_log_softmax_backward_data", "native_layer_norm_backward", "topk", "sort",
    "native_group_norm_backward", "native_batch_norm_backward", "batch_norm_backward",
    "_fused_rms_norm_backward",
)  # fmt: skip
_COPIES = (
    "clone", "copy_", "copy", "_to_copy", "cat", "stack", "fill_", "zero_", "zeros",
    "ones", "full", "zeros_like", "ones_like", "full_like", "new_zeros", "new_ones",
    "new_full", "constant_pad_nd", "slice_scatter", "select_scatter", "slice_backward",
    "select_backward", "repeat", "roll", "arange", "scalar_tensor",
)  # fmt: skip
_GEMMS = (
    "mm", "addmm", "bmm", "baddbmm", "addbmm", "mv", "addmv", "dot", "vdot",
    "_grouped_mm", "_trilinear", "mkldnn_rnn_layer", "mkldnn_rnn_layer_backward",
)  # fmt: skip
_KIND_OF_NAME = (
    dict.fromkeys(_REDUCTIONS, "reduction")
    | dict.fromkeys(_COPIES, "copy")
    | dict.fromkeys(_GEMMS, "gemm")
)


def _kind(op: OpOverload, name: str) -> str:
    if name in _KIND_OF_NAME:
        return _KIND_OF_NAME[name]
    if "attention" in name:
        return "attention"
    if "conv" in name:
        return "conv"
    pointwise = torch.Tag.pointwise in op.tags
    # Backward formulas carry no tag; those of pointwise ops are pointwise.
    return "elementwise" if pointwise or name.endswith("_backward") else "other"


# -- FLOPs -----------------------------------------------------------------


def _product(left: Tensor, right: Tensor) -> int:
    """[..., m, k] @ [..., k, n]."""
    return int(2 * left.numel() * right.shape[-1])


def _vector_product(left: Tensor, right: Tensor) -> int:
    return 2 * left.numel() if right.dim() == 1 else _product(left, right)


def _grouped_product(args: Sequence[Any], out: Any) -> int:
    """Rows (2-D) or columns of one operand are divided among the groups."""
    left, right = args[0], args[1]
    if left.dim() == 3 and right.dim() == 2:
        return int(2 * left.shape[1] * left.shape[2] * right.shape[1])
    return _product(left, right)


def _convolution(args: Sequence[Any], out: Tensor) -> int:
    """Each output (transposed: input) element meets one filter."""
    data, weight, transposed = args[0], args[1], args[6]
    positions = data if transposed else out
    return int(2 * positions.numel() * prod(weight.shape[1:]))


def _convolution_backward(args: Sequence[Any], out: Any) -> int:
    gradient, data, weight, transposed, mask = (
        args[0], args[1], args[2], args[7], args[10],
    )  # fmt: skip
    positions = data if transposed else gradient
    one = 2 * positions.numel() * prod(weight.shape[1:])
    return int(one * (int(mask[0]) + int(mask[1])))


def _attention(args: Sequence[Any], out: Any) -> int:
    """Q K^T and P V. A causal mask is not discounted."""
    query, key, value = args[0], args[1], args[2]
    pairs = prod(query.shape[:-1]) * key.shape[-2]
    return int(2 * pairs * (query.shape[-1] + value.shape[-1]))


def _attention_backward(args: Sequence[Any], out: Any) -> int:
    """Q K^T again, then dV, dP, dQ, dK."""
    query, key, value = args[1], args[2], args[3]
    pairs = prod(query.shape[:-1]) * key.shape[-2]
    return int(2 * pairs * (3 * query.shape[-1] + 2 * value.shape[-1]))


def _trilinear(args: Sequence[Any], out: Any) -> tuple[int, ...]:
    """Products over the expanded dims, contracted over one summed dim first, then
    over the others (nn.Bilinear and its gradients)."""
    expanded = []
    for tensor, dims in zip(args[:3], args[3:6], strict=True):
        shape = list(tensor.shape)
        for dim in dims:
            shape.insert(dim, 1)
        expanded.append(shape)
    sizes = [max(column) for column in zip(*expanded, strict=True)]
    total = rest = prod(sizes)
    for dim in args[6][:1]:
        rest //= sizes[dim]
    return (2 * total, 2 * rest) if args[6] else (2 * total,)


def _rnn_layer(args: Sequence[Any], out: Any) -> int:
    steps_times_batch = args[0].shape[0] * args[0].shape[1]
    return int(2 * steps_times_batch * (args[1].numel() + args[2].numel()))


_FLOPS: dict[str, Callable[[Sequence[Any], Any], int | tuple[int, ...]]] = {
    "mm": lambda args, out: _product(args[0], args[1]),
    "bmm": lambda args, out: _product(args[0], args[1]),
    "addmm": lambda args, out: _product(args[1], args[2]),
    "baddbmm": lambda args, out: _product(args[1], args[2]),
    "addbmm": lambda args, out: _product(args[1], args[2]),
    "mv": lambda args, out: _vector_product(args[0], args[1]),
    "addmv": lambda args, out: _vector_product(args[1], args[2]),
    "dot": lambda args, out: 2 * args[0].numel(),
    "vdot": lambda args, out: 2 * args[0].numel(),
    "_grouped_mm": _grouped_product,
    "convolution": _convolution,
    "convolution_backward": _convolution_backward,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
    "_scaled_dot_product_flash_attention": _attention,
    "_scaled_dot_product_flash_attention_backward": _attention_backward,
    "_scaled_dot_product_efficient_attention": _attention,
    "_scaled_dot_product_efficient_attention_backward": _attention_backward,
    "_scaled_dot_product_cudnn_attention": _attention,
    "_scaled_dot_product_cudnn_attention_backward": _attention_backward,
    "_trilinear": _trilinear,
    "mkldnn_rnn_layer": _rnn_layer,
    "mkldnn_rnn_layer_backward": lambda args, out: 2 * _rnn_layer(args, out),
}
