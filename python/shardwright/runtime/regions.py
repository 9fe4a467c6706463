"""Recomputed regions: torch's non-reentrant checkpoint, with our bookkeeping.

The region runs without keeping what its backward needs; the first backward
that asks runs it again, up to the last tensor needed. Its inputs are held
until its backward is over. Generators are not touched: random ops of generated
code draw from a stateless seed (`random_ops`), so a second run is bit-equal.
Ops that change state (running statistics) must do so once: `effect`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from . import axes as _axes
from .recorder import current_phase, phase

__all__ = ["effect", "recompute", "recomputing"]


def recomputing() -> bool:
    """Whether the code runs as the second run of a region."""
    return current_phase() == "recompute"


def recompute(region: Callable[..., Any], state: tuple[Tensor, ...], *args: Any) -> Any:
    """region(*state, *args), run again at its backward instead of kept.

    `state` are buffers that the region changes: held as they are, while a
    change of one of the `args` before the second run is an error.
    """
    axes = _axes.current()

    @contextmanager
    def again() -> Iterator[None]:
        with _axes.bound(axes), phase("recompute"):
            yield

    def contexts() -> tuple[AbstractContextManager[Any], AbstractContextManager[Any]]:
        return nullcontext(), again()

    return checkpoint(
        partial(region, *state),
        *args,
        use_reentrant=False,
        preserve_rng_state=False,
        context_fn=contexts,
    )


def effect(
    op: Callable[..., Any], changed: tuple[int, ...], *args: Any, **kwargs: Any
) -> Any:
    """An op that changes its operands at positions `changed`, once.

    In a second run it works on copies of them (transient: their bytes).
    """
    if recomputing():
        args = tuple(
            a.clone() if i in changed and isinstance(a, Tensor) else a
            for i, a in enumerate(args)
        )
    return op(*args, **kwargs)
