"""Batch normalisation over a sharded batch, exact: statistics of all ranks."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
from torch import Tensor

from . import axes as _axes
from .collectives import all_reduce
from .recorder import phase
from .regions import recomputing

__all__ = ["sync_batch_norm"]


def _reduced(x: Tensor, axes: tuple[str, ...]) -> Tensor:
    for name in axes:
        x = all_reduce(x, name)
    return x


class _SyncBatchNorm(torch.autograd.Function):
    """y = (x - mean) * invstd * weight + bias, mean and invstd over all ranks.

    One buffer of x's size in forward (the result) and one in backward (the
    gradient); everything else has one number per channel.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        eps: float,
        axes: tuple[str, ...],
        count: int,
    ) -> tuple[Tensor, Tensor, Tensor]:
        dims = [0, *range(2, x.dim())]
        local = x.numel() // x.shape[1]
        if local:
            variance, mean = torch.var_mean(x, dims, correction=0)
        else:
            variance, mean = x.new_zeros(x.shape[1]), x.new_zeros(x.shape[1])
        total = _reduced(mean * local, axes)
        center = total.div_(count)
        # Σ (x - center)² of this rank, from its own variance and mean.
        deviation = variance.add_((mean - center).square_()).mul_(local)
        variance = _reduced(deviation, axes).div_(count)
        invstd = (variance + eps).rsqrt_()
        shape = [1, -1, *[1] * (x.dim() - 2)]
        scale = invstd if weight is None else invstd * weight
        out = (x - center.view(shape)).mul_(scale.view(shape))
        if bias is not None:
            out.add_(bias.view(shape))
        ctx.save_for_backward(x, weight, center, invstd)
        ctx.constants = (axes, count, _axes.current())
        ctx.mark_non_differentiable(center, variance)
        return out, center, variance

    @staticmethod
    def backward(
        ctx: Any, gradient: Tensor, _center: Tensor, _variance: Tensor
    ) -> tuple[Tensor | None, ...]:
        x, weight, center, invstd = ctx.saved_tensors
        axes, count, bound_axes = ctx.constants
        dims = [0, *range(2, x.dim())]
        shape = [1, -1, *[1] * (x.dim() - 2)]
        sum_gradient = gradient.sum(dims)
        result = x - center.view(shape)
        sum_product = result.mul_(gradient).sum(dims)
        bias_gradient = sum_gradient if ctx.needs_input_grad[2] else None
        weight_gradient = sum_product * invstd if ctx.needs_input_grad[1] else None
        with _axes.bound(bound_axes), phase("backward"):
            both = _reduced(torch.stack((sum_gradient, sum_product)), axes)
        mean_gradient, mean_product = both.div_(count).unbind(0)
        # dx = scale * (dy - mean(dy) - (x - center) * invstd² * mean(dy (x - center)))
        factor = (invstd.square() * mean_product).neg_()
        torch.sub(x, center.view(shape), out=result)
        result.mul_(factor.view(shape)).add_(gradient)
        result.sub_(mean_gradient.view(shape))
        scale = invstd if weight is None else invstd * weight
        result.mul_(scale.view(shape))
        return result, weight_gradient, bias_gradient, None, None, None


def sync_batch_norm(
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
    *,
    axes: tuple[str, ...],
    global_shape: tuple[int, ...],
) -> Tensor:
    """aten.batch_norm of an x whose dims other than 1 are sharded on `axes`.

    `global_shape` is the shape of the whole x. Running statistics are updated
    once (not in the second run of a region) and are equal on all ranks.
    Gradients of weight and bias are Partial over `axes`. Collectives: per axis
    forward an all_reduce of C sums and one of C squared deviations, backward
    one of 2 C sums. Half precision is refused: sums would lose their digits.
    """
    if not training and running_mean is not None:
        out: Tensor = torch.ops.aten.batch_norm.default(
            x, weight, bias, running_mean, running_var, False, momentum, eps,
            cudnn_enabled,
        )  # fmt: skip
        return out
    if x.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            "[runtime] sync_batch_norm needs exact sums: expected float32 or "
            f"float64, got {x.dtype}. Try: keep the batch norm in float32."
        )
    count = math.prod(global_shape) // global_shape[1]
    if count <= 1:
        raise ValueError(
            "[runtime] sync_batch_norm needs more than one value per channel: "
            f"expected a count above 1, got {count} (shape {global_shape})."
        )
    out, mean, variance = cast(Any, _SyncBatchNorm).apply(
        x, weight, bias, eps, axes, count
    )
    if training and not recomputing():
        with torch.no_grad():
            if running_mean is not None:
                running_mean.mul_(1 - momentum).add_(mean, alpha=momentum)
            if running_var is not None:
                unbiased = count / (count - 1)
                running_var.mul_(1 - momentum)
                running_var.add_(variance, alpha=momentum * unbiased)
    return out
