"""Sharding specs of a plan as values: text, local shapes, steps, placements.

    parse("[a:b, -] partial{c}")  ->  Spec(dims=(("a", "b"), ()), partial={"c"})

Per tensor dim the axes that split it, major first; `partial` are the axes over
which the shards still have to be summed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from torch.distributed.tensor import Partial, Placement, Replicate, Shard

from shardwright.errors import InvalidPlanError
from shardwright.runtime.axes import chunk

__all__ = ["Spec", "apply_step", "local_shape", "parse", "placements"]

_FORM = re.compile(r"\[([^\]]*)\](?: partial\{([^}]*)\})?")


@dataclass(frozen=True)
class Spec:
    dims: tuple[tuple[str, ...], ...]
    partial: frozenset[str] = frozenset()

    def __str__(self) -> str:
        inner = ", ".join(":".join(axes) or "-" for axes in self.dims)
        tail = f" partial{{{', '.join(sorted(self.partial))}}}" if self.partial else ""
        return f"[{inner}]{tail}"


@lru_cache(maxsize=4096)
def parse(text: str) -> Spec:
    """Spec of its text form; InvalidPlanError when malformed."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise InvalidPlanError(
            "[execute] malformed sharding spec: expected '[a:b, -] partial{c}', "
            f"got '{text}'. Try: plan again."
        )
    inner, partial = match.group(1).strip(), match.group(2) or ""
    dims = [part.strip() for part in inner.split(",")] if inner else []
    return Spec(
        tuple(() if d == "-" else tuple(d.split(":")) for d in dims),
        frozenset(name.strip() for name in partial.split(",") if name.strip()),
    )


def local_shape(
    shape: Sequence[int],
    spec: Spec,
    sizes: Mapping[str, int],
    coordinates: Mapping[str, int],
) -> list[int]:
    """Shape of the part at `coordinates`: torch.chunk rule per axis, major first."""
    if len(shape) != len(spec.dims):
        raise InvalidPlanError(
            f"[execute] spec of wrong rank: expected {len(shape)} dims, got {spec}."
        )
    result = list(shape)
    for dim, axes in enumerate(spec.dims):
        for axis in axes:
            result[dim] = chunk(result[dim], sizes[axis], coordinates[axis])[1]
    return result


def apply_step(spec: Spec, step: Mapping[str, Any]) -> Spec:
    """The spec after one conversion step of a plan.

    Raises InvalidPlanError when the step does not apply: gathering an axis that
    is not the innermost of its dim, reducing one that is not partial, and so on.
    """
    kind, axis = step["kind"], step["axis"]
    dims, partial = [list(axes) for axes in spec.dims], set(spec.partial)

    def need(holds: bool) -> None:
        if not holds:
            raise InvalidPlanError(
                f"[execute] conversion step does not apply: expected {kind} over "
                f"'{axis}' to fit the spec, got {spec} ({dict(step)}). Try: plan "
                "again."
            )

    if kind in ("all_gather", "all_to_all"):
        need(bool(dims[step["dim"]]) and dims[step["dim"]][-1] == axis)
        dims[step["dim"]].pop()
    elif kind in ("reduce_scatter", "all_reduce"):
        need(axis in partial)
        partial.discard(axis)
    else:
        used = axis in partial or any(axis in axes for axes in dims)
        need(kind in ("slice", "make_partial") and not used)
    if kind in ("reduce_scatter", "slice"):
        dims[step["dim"]].append(axis)
    elif kind == "all_to_all":
        dims[step["to_dim"]].append(axis)
    elif kind == "make_partial":
        partial.add(axis)
    return Spec(tuple(tuple(axes) for axes in dims), frozenset(partial))


def placements(spec: Spec, axis_names: Sequence[str]) -> tuple[Placement, ...]:
    """DTensor placements, one per mesh axis in mesh order.

    Axes that share a dim must be in mesh order, as plain Shard means.
    """
    result: list[Placement] = [
        Partial() if name in spec.partial else Replicate() for name in axis_names
    ]
    for dim, axes in enumerate(spec.dims):
        order = [list(axis_names).index(axis) for axis in axes]
        if order != sorted(order):
            raise InvalidPlanError(
                "[execute] spec has no DTensor placements: expected the axes of "
                f"one dim in mesh order {tuple(axis_names)}, got {spec}."
            )
        for axis in order:
            result[axis] = Shard(dim)
    return tuple(result)
