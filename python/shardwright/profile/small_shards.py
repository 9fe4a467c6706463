"""Records of shards that are one element long in some dim.

An op may copy an operand only because two of its dims do not lie one after the
other in memory (`matmul` on heads that were moved before the sequence). A
shard of one sample or one head has nothing to reorder: it reads a view, and
autograd then keeps the whole storage behind it, which can be several times
larger than the copy. Such shards have a record of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from shardwright.errors import InternalError
from shardwright.profile.expressions import Scaling
from shardwright.profile.layout import Layout
from shardwright.profile.records import FactorMap, OpCall, make_record, run_op
from shardwright.profile.running import Event, Run, Runner

__all__ = ["records_at_one"]

_COPIES = ("aten.clone", "aten.copy_", "aten._to_copy", "aten.contiguous")
_Structure = tuple[Any, ...]


def records_at_one(
    runner: Runner,
    op: OpCall,
    factor_map: FactorMap,
    gradients: Sequence[Layout | None],
    base: Run,
) -> list[dict[str, Any]]:
    """[{"factors": [...], "record": {...}}], most factors first: the first whose
    factors all have local size 1 replaces the op's record.

    Only where other storages are made, kept or aliased than in `base`, the run
    of the whole op; pairs only of factors that each make a difference. Costs a
    run for each factor, of ops that copy only.
    """
    if not _copies(base):
        return []
    usual = _structure(base)
    found: list[_AtOne] = []

    def try_at_one(*factors: int) -> None:
        small = _shrunk(op, factor_map, gradients, factors)
        try:
            structure = _structure(run_op(runner, small[0], small[2]))
        except InternalError:  # no shard of this size can run
            return
        matching = (one.structure for one in found if set(one.factors) < set(factors))
        if structure != next(matching, usual):
            record, _ = make_record(runner, *small)
            found.insert(0, _AtOne(factors, structure, record))

    for factor, size in enumerate(factor_map.sizes):
        if size > 1:
            try_at_one(factor)
    for first, second in combinations(sorted(one.factors[0] for one in found), 2):
        try_at_one(first, second)
    return [{"factors": list(one.factors), "record": one.record} for one in found]


@dataclass(frozen=True)
class _AtOne:
    factors: tuple[int, ...]
    structure: _Structure
    record: dict[str, Any]


def _copies(run: Run) -> bool:
    kernels = (*run.kernels_forward, *run.kernels_backward)
    return any(kernel.name in _COPIES for kernel in kernels)


def _shrunk(
    op: OpCall,
    factor_map: FactorMap,
    gradients: Sequence[Layout | None],
    factors: tuple[int, ...],
) -> tuple[OpCall, FactorMap, list[Layout | None]]:
    """The op, its factor map and gradients with these factors at 1."""
    sizes = tuple(
        1 if factor in factors else size for factor, size in enumerate(factor_map.sizes)
    )
    small_map = replace(factor_map, sizes=sizes)
    unscaled = Scaling(sizes, (1,) * len(sizes))
    shapes = [small_map.shape(dims, unscaled) for dims in factor_map.results]
    fixed: dict[str, Any] = dict.fromkeys(op.shape_args, shapes[0])
    fixed |= {name: small_map.attr(name, unscaled) for name in factor_map.attrs}
    small = replace(
        op,
        call=lambda tensors, changed: op.call(tensors, fixed | dict(changed)),
        operands=tuple(
            layout.resized(small_map.shape(dims, unscaled))
            for layout, dims in zip(op.operands, factor_map.operands, strict=True)
        ),
    )
    resized = [
        layout.resized(shape) if layout is not None else None
        for layout, shape in zip(gradients, shapes, strict=True)
    ]
    return small, small_map, resized


def _structure(run: Run) -> _Structure:
    """What is made, kept and aliased, sizes aside."""
    return (
        len(run.sizes),
        run.results,
        run.saved,
        run.gradients,
        run.gradients_in_place,
        _kinds(run.forward),
        _kinds(run.backward),
    )


def _kinds(events: Sequence[Event]) -> list[tuple[str, Any]]:
    return [(kind, value) for kind, value in events if kind != "transient"]
