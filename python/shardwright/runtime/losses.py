"""Cross entropy over sharded rows or classes, and means over sharded dims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from .axes import axis as find_axis
from .collectives import all_reduce

__all__ = ["cross_entropy", "scaled_mean"]

aten = torch.ops.aten
_NONE, _MEAN, _SUM = 0, 1, 2  # torch's reduction numbers


class _CrossEntropy(torch.autograd.Function):
    """Σ over valid rows of (log Σ exp - target logit) / denominator.

    Keeps the logits (an operand) and one number per row; the gradient is made
    in place in one buffer of the logits' size. `offset` is the first class of
    this rank; with classes whole it is 0 and nothing is communicated.
    """

    @staticmethod
    def forward(
        ctx: Any,
        logits: Tensor,
        target: Tensor,
        denominator: Tensor | None,
        ignore_index: int,
        class_axes: tuple[str, ...],
        offset: int,
    ) -> Tensor:
        dim = 1 if logits.dim() > 1 else 0
        classes = logits.shape[dim]
        local = (target - offset).unsqueeze(dim)
        mine = (local >= 0) & (local < classes)
        local = local.clamp_(0, max(classes - 1, 0))
        if classes:
            top = logits.amax(dim, keepdim=True)
            picked = logits.gather(dim, local).masked_fill_(~mine, 0)
        else:
            top = logits.new_full(local.shape, -torch.inf)
            picked = logits.new_zeros(local.shape)
        for name in class_axes:
            top = all_reduce(top, name, "max")
        total = (logits - top).exp_().sum(dim, keepdim=True)
        if class_axes:
            both = torch.stack((total, picked))
            for name in class_axes:
                both = all_reduce(both, name)
            total, picked = both.unbind(0)
        log_sum = total.log().add_(top)
        valid = (target != ignore_index).unsqueeze(dim)
        loss = (log_sum - picked).masked_fill_(~valid, 0).sum()
        ctx.save_for_backward(logits, target, log_sum, denominator)
        ctx.constants = (dim, ignore_index, offset)
        return loss if denominator is None else loss / denominator

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        logits, target, log_sum, denominator = ctx.saved_tensors
        dim, ignore_index, offset = ctx.constants
        classes = logits.shape[dim]
        scale = gradient if denominator is None else gradient / denominator
        result = torch.sub(logits, log_sum).exp_()
        if classes:
            local = (target - offset).unsqueeze(dim)
            mine = (local >= 0) & (local < classes)
            local = local.clamp_(0, classes - 1)
            result.scatter_add_(dim, local, mine.to(result.dtype).neg_())
        valid = (target != ignore_index).unsqueeze(dim)
        result.mul_(valid.to(result.dtype).mul_(scale))
        return result, None, None, None, None, None


def cross_entropy(
    logits: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    *,
    row_axes: tuple[str, ...],
    class_axes: tuple[str, ...],
    num_classes: int,
) -> Tensor:
    """aten.cross_entropy_loss over shards; logits (rows, classes, ...).

    Result: Partial(sum) over `row_axes`, equal along `class_axes`. The
    denominator of a mean is the number of valid targets of *all* ranks.
    Collectives, forward only: per row axis one all_reduce of an int64 count (if
    mean); per class axis one max and one sum of two stacked numbers a row.
    """
    if reduction not in (_MEAN, _SUM):
        raise _refused("reduction", "mean or sum", "none")
    if weight is not None:
        raise _refused("weight", "no class weights", "a tensor")
    if label_smoothing != 0.0:
        raise _refused("label_smoothing", "0.0", str(label_smoothing))
    if target.is_floating_point():
        raise _refused("target", "class indices", "probabilities")
    offset, length = 0, num_classes
    for name in class_axes:
        step, length = find_axis(name).chunk(length)
        offset += step
    if logits.shape[1 if logits.dim() > 1 else 0] != length:
        raise _refused("logits", f"{length} classes", str(list(logits.shape)))
    denominator = None
    if reduction == _MEAN:
        count = (target != ignore_index).sum()
        for name in row_axes:
            count = all_reduce(count, name)
        denominator = count.to(logits.dtype)
    out: Tensor = cast(Any, _CrossEntropy).apply(
        logits, target, denominator, ignore_index, class_axes, offset
    )
    return out


def _refused(what: str, expected: str, got: str) -> ValueError:
    return ValueError(
        f"[runtime] cross_entropy over shards does not do this {what}: "
        f"expected {expected}, got {got}. Try: replicate the loss."
    )


def _sum_of_mean(x: Tensor, **kwargs: Any) -> Tensor:
    total: Tensor = aten.sum.default(x, **kwargs)
    return total


def _sum_of_mean_dim(
    x: Tensor, dim: list[int] | None, keepdim: bool = False, **kwargs: Any
) -> Tensor:
    total: Tensor = aten.sum.dim_IntList(x, dim, keepdim, **kwargs)
    return total


# Ops that end in a mean, as the same op ending in a sum.
_MEANS: dict[str, Callable[..., Tensor]] = {
    "aten.mean.default": _sum_of_mean,
    "aten.mean.dim": _sum_of_mean_dim,
}
_REDUCED_LOSSES = frozenset(
    {
        "aten.mse_loss.default",
        "aten.kl_div.default",
        "aten.l1_loss.default",
        "aten.smooth_l1_loss.default",
        "aten.huber_loss.default",
        "aten.soft_margin_loss.default",
        "aten.binary_cross_entropy.default",
        "aten.binary_cross_entropy_with_logits.default",
    }
)


def scaled_mean(
    op: Any, *args: Any, global_count: int, axes: tuple[str, ...] = (), **kwargs: Any
) -> Tensor:
    """A mean over a sharded dim: local sum / global count, Partial(sum).

    `op` is the ATen overload that takes the mean; `global_count` the number of
    elements in one mean of the whole tensor. No collectives (`axes` names the
    axes of the partial result, for readers).
    """
    name = str(op)
    if name in _MEANS:
        return _MEANS[name](*args, **kwargs).div_(global_count)
    if name in _REDUCED_LOSSES:
        names = [argument.name for argument in op._schema.arguments]
        position = names.index("reduction")
        values = list(args[:position])
        for later in names[len(values) : position]:
            if later in kwargs:
                values.append(kwargs.pop(later))
        reduction = (
            args[position] if position < len(args) else kwargs.pop("reduction", _MEAN)
        )
        if reduction == _MEAN and len(values) == position:
            total: Tensor = op(*values, _SUM, *args[position + 1 :], **kwargs)
            return total / global_count
    raise ValueError(
        f"[runtime] scaled_mean does not know this op: expected one of "
        f"{sorted([*_MEANS, *_REDUCED_LOSSES])} with reduction mean, got {name}. "
        "Try: keep the averaged dim whole."
    )
