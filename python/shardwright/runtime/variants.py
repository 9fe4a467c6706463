"""Special implementations that some strategies need, by their plan names.

`bind_variant` turns a captured ATen call into the call of its variant; the
program generator and the profiler both go through it, so what is profiled is
what runs. The variants live in files of their own: `embedding`, `losses`,
`batch_norm`, `random_ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import axes
from .batch_norm import sync_batch_norm
from .embedding import vocab_parallel_embedding
from .losses import cross_entropy, scaled_mean
from .random_ops import random

__all__ = [
    "FUNCTIONS",
    "bind_variant",
    "cross_entropy",
    "local_variants",
    "random",
    "scaled_mean",
    "sync_batch_norm",
    "vocab_parallel_embedding",
]

# By name: generated code that hands one on says which in text.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        cross_entropy,
        random,
        scaled_mean,
        sync_batch_norm,
        vocab_parallel_embedding,
    )
}

# Variants that replace one op and take its arguments unchanged.
_REPLACED: dict[str, tuple[str, Callable[..., Any]]] = {
    "vocab_parallel_embedding": ("aten.embedding.default", vocab_parallel_embedding),
    "cross_entropy": ("aten.cross_entropy_loss.default", cross_entropy),
    "sync_batch_norm": ("aten.batch_norm.default", sync_batch_norm),
}


def bind_variant(
    name: str,
    op: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    variant_args: Mapping[str, Any],
    *,
    first_operand_shape: Sequence[int],
    key: str = "",
    step: Any = 0,
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """(function, args, kwargs) that run `op` as variant `name`.

    `variant_args` as the plan has them. `first_operand_shape` is the global
    shape of the op's first tensor (batch norm counts with it); `key` and `step`
    serve random ops.
    """
    extra = {k: tuple(v) if isinstance(v, list) else v for k, v in variant_args.items()}
    if name == "random":
        return random, (op, key, step, *args), {**kwargs, **extra}
    if name == "scaled_mean":
        wanted: dict[str, Any] = {
            k: extra[k] for k in ("axes", "global_count") if k in extra
        }
        return scaled_mean, (op, *args), {**kwargs, **wanted}
    if name not in _REPLACED:
        raise ValueError(
            f"[runtime] unknown variant: expected one of "
            f"{sorted([*_REPLACED, 'random', 'scaled_mean'])}, got '{name}'. "
            "Try: a shardwright of the plan's version."
        )
    expected, function = _REPLACED[name]
    if str(op) != expected:
        raise ValueError(
            f"[runtime] variant {name} is for another op: expected {expected}, "
            f"got {op}."
        )
    if name == "sync_batch_norm":
        extra["global_shape"] = tuple(first_operand_shape)
    return function, tuple(args), {**kwargs, **extra}


def local_variants() -> dict[
    str, Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
]:
    """Each variant as a function (op, args, kwargs) of *local* tensors alone.

    For profiling under fake tensors, without process groups: every collective a
    variant may issue is in it, along axes of size 2 on which this rank is 0.
    """
    return {name: _local_variant(name) for name in _LOCAL_ARGS}


# Arguments a plan would give, for tensors that are halves along these axes.
_LOCAL_ARGS: dict[str, dict[str, Any]] = {
    "vocab_parallel_embedding": {"axes": ("half",)},
    "cross_entropy": {"row_axes": ("half",), "class_axes": ("other",)},
    "sync_batch_norm": {"axes": ("half",)},
    "scaled_mean": {"axes": ("half",), "global_count": 2},
    "random": {"axes": ("half",)},
}


def _local_variant(name: str) -> Callable[..., Any]:
    def call(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        shape = list(args[0].shape) if args else []
        variant_args = dict(_LOCAL_ARGS[name])
        if name == "vocab_parallel_embedding":
            variant_args["size"] = 2 * shape[0]
        elif name == "cross_entropy":
            variant_args["num_classes"] = 2 * shape[1 if len(shape) > 1 else 0]
        elif name == "sync_batch_norm":
            shape[0] *= 2
        function, full, keywords = bind_variant(
            name, op, args, kwargs, variant_args, first_operand_shape=shape
        )
        with axes.bound(axes.fake({"half": 2, "other": 2})):
            return function(*full, **keywords)

    return call
