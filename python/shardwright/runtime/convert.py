"""Layout conversions of a plan as one differentiable function.

A plan decides the forward steps and the backward steps apart (the cheapest way
back need not mirror the way forth), so both are arguments and nothing is
derived. A step is a plain tuple, readable in generated code:

    ("all_gather", axis, dim, size)      ("reduce_scatter", axis, dim)
    ("all_reduce", axis)                 ("slice", axis, dim)
    ("make_partial", axis)               ("all_to_all", axis, dim, to_dim, size)

`size` is the local size of `dim` after the step. Without forward steps the
result is a view of x. Memory of a list of steps: `x` lives throughout (its
owner holds it), of the intermediate results at most two at a time; per step
see `collectives`.

Steps work on the dims in `order` (on the way back: `grad_order`), from the slowest
in memory to the fastest, and their results lie so. It is the order of the captured
value, so that nothing is copied just to reorder and later ops find the layout they
were profiled with; an argument, because ranks must agree on it and a dim of local
size 1 does not tell its place. Default: as the dims are named.

Gathering again instead of saving: the result of `convert(..., regather=True)`
remembers how it was made; `regather(op, ...)` runs an op such that autograd
keeps, in place of every saved tensor that lies in such a storage, only the
recipe, and gathers again when the op's backward asks for it: once per call and
copy, however often the op saved it, and never if it did not. The second copy
lives from the first use in the op's backward to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, cast

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from . import axes as _axes
from . import collectives
from .recorder import phase
from .variants import FUNCTIONS

__all__ = ["Step", "convert", "regather", "run_steps"]

Step: TypeAlias = tuple[str | int, ...]

_STEPS: dict[str, Callable[..., Tensor]] = {
    "all_gather": collectives.all_gather,
    "reduce_scatter": collectives.reduce_scatter,
    "all_reduce": collectives.all_reduce,
    "all_to_all": collectives.all_to_all,
    "slice": collectives.slice_local,
    "make_partial": collectives.make_partial,
}


def run_steps(
    x: Tensor, steps: tuple[Step, ...], order: tuple[int, ...] | None = None
) -> Tensor:
    """Apply the steps one after the other, without autograd's knowledge."""
    if order is None or not steps:
        for kind, *arguments in steps:
            x = _STEPS[str(kind)](x, *arguments)
        return x
    place = {dim: position for position, dim in enumerate(order)}
    y = x.permute(order)
    for kind, axis, *rest in steps:
        y = _STEPS[str(kind)](y, axis, *_placed(str(kind), rest, place))
    # Detached, so that nobody but the result owns its storage.
    return y.permute([place[dim] for dim in range(x.dim())]).detach()


def _placed(
    kind: str, arguments: Sequence[str | int], place: dict[int, int]
) -> list[str | int]:
    """Arguments of a step behind its axis, dims at their places in memory."""
    num_dims = 2 if kind == "all_to_all" else 1
    dims = [place[int(dim)] for dim in arguments[:num_dims]]
    return [*dims, *arguments[num_dims:]]


class _Convert(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        forward: tuple[Step, ...],
        backward: tuple[Step, ...],
        order: tuple[int, ...] | None,
        grad_order: tuple[int, ...] | None,
    ) -> Tensor:
        ctx.axes, ctx.steps, ctx.order = _axes.current(), backward, grad_order
        out = run_steps(x, forward, order)
        # Steps may be local no-ops; autograd wants a tensor object of its own.
        return x.view_as(x) if out is x else out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        with _axes.bound(ctx.axes), phase("backward"):
            given = run_steps(gradient, ctx.steps, ctx.order)
        return given, None, None, None, None


def convert(
    x: Tensor,
    forward: tuple[Step, ...] = (),
    backward: tuple[Step, ...] = (),
    regather: bool = False,
    order: tuple[int, ...] | None = None,
    grad_order: tuple[int, ...] | None = None,
) -> Tensor:
    """x after the forward steps; its gradient takes the backward steps."""
    if x.requires_grad and torch.is_grad_enabled():
        steps = tuple(forward), tuple(backward)
        out: Tensor = cast(Any, _Convert).apply(x, *steps, order, grad_order)
    else:
        out = run_steps(x, tuple(forward), order)
    recipe: _Recipe | None = getattr(x, "_shardwright_recipe", None)
    if recipe is not None and (not forward or not recipe.viewed):
        # Made from a gathered copy: from its source instead.
        _remember(out, replace(recipe, steps=(*recipe.steps, *forward)))
    elif regather and forward:
        _remember(out, _Recipe(x.detach(), tuple(forward), _axes.current(), order))
    return out


def _remember(gathered: Tensor, recipe: _Recipe) -> None:
    gathered._shardwright_recipe = recipe  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _Recipe:
    """How the storage of a gathered tensor was made. `viewed`: the tensor is an
    op's view of it, so steps on the tensor's dims cannot go on from there."""

    source: Tensor
    steps: tuple[Step, ...]
    axes: _axes.Axes
    order: tuple[int, ...] | None = None
    viewed: bool = False

    def make(self) -> Tensor:
        with _axes.bound(self.axes), phase("backward"), torch.no_grad():
            return run_steps(self.source, self.steps, self.order)


@dataclass
class _Again:
    """The second copy of one gathered storage, for all that one call saved."""

    recipe: _Recipe
    saved: int = 0
    used: int = 0
    copy: Tensor | None = field(default=None, repr=False)

    def take(self) -> Tensor:
        """The copy; kept for the other saved tensors until the last is used."""
        copy = self.recipe.make() if self.copy is None else self.copy
        self.used += 1
        last = self.used == self.saved
        if last:  # a second backward through a retained graph starts anew
            self.used = 0
        self.copy = None if last else copy
        return copy


@dataclass(frozen=True)
class _Handle:
    """Stands for one saved view of a gathered storage."""

    again: _Again
    size: torch.Size
    stride: tuple[int, ...]
    offset: int


def regather(op: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Any:
    """op(*args, **kwargs), saving recipes instead of gathered tensors.

    `op`: an ATen op, or the name of a variant (`variants.FUNCTIONS`).
    """
    function = FUNCTIONS[op] if isinstance(op, str) else op
    recipes: dict[int, _Again] = {}
    for leaf in tree_leaves((args, kwargs)):
        recipe = getattr(leaf, "_shardwright_recipe", None)
        if recipe is not None:
            recipes[leaf.untyped_storage()._cdata] = _Again(recipe)

    def pack(saved: Tensor) -> Tensor | _Handle:
        again = recipes.get(saved.untyped_storage()._cdata)
        if again is None:
            return saved
        again.saved += 1
        return _Handle(again, saved.size(), saved.stride(), int(saved.storage_offset()))

    def unpack(handle: Tensor | _Handle) -> Tensor:
        if isinstance(handle, Tensor):
            return handle
        gathered = handle.again.take()
        return gathered.as_strided(handle.size, handle.stride, handle.offset)

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        results = function(*args, **kwargs)
    for leaf in tree_leaves(results):  # views of a gathered copy stay known
        again = recipes.get(leaf.untyped_storage()._cdata)
        if again is not None:
            _remember(leaf, replace(again.recipe, viewed=True))
    return results
