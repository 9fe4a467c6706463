"""One op's profile record: two runs, merged into expressions.

Record (JSON): see the fields below. A storage is named n<j> (new, sizes[j]),
i<k> (of operand k) or g<m> (of result m's incoming gradient).

    sizes            bytes of each new storage
    results          storage of each result
    saved            storages autograd keeps, in order, with multiplicity
    forward          ["alloc", j] ["free", j] ["transient", bytes]
    backward         the same, and ["release", index in saved],
                     ["drop_grad", result]
    gradients        storage of each operand's gradient, or null
    gradients_in_place  whether a later gradient of the same tensor may be
                     added into it (if nothing else refers to its storage);
                     else their sum is a third tensor
    layouts          {"results": [...], "gradients": [...]}: how each result,
                     and the gradient it is given, lies in memory: null (as its
                     dims are named, nothing between) or {"order", "dense"}
    kernels_forward, kernels_backward
    at_one           records of shards one element long in some dims, see
                     small_shards.py
    variants         name -> record of the special implementation
    refused_variants name -> why it cannot run this op (only at the top level)
    scalable         false: numbers stand at the sizes of the whole graph
    reason           why not (only then)

A new storage without "free" lives as long as a result, saved tensor or
gradient refers to it; a transient is bytes above the level at its place.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from shardwright.errors import InternalError, InvalidGraphError
from shardwright.profile.expressions import NotProportional, Scaling, constant
from shardwright.profile.kernels import Kernel
from shardwright.profile.layout import Layout, layout_json, memory_order
from shardwright.profile.opaque.scratch import Alternative
from shardwright.profile.running import Event, Run, Runner, Stored

__all__ = ["FactorMap", "OpCall", "make_record", "run_op"]

Shapes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class FactorMap:
    """How the dims of an op depend on its factors (one entry per dim:
    factor or -1, times)."""

    sizes: tuple[int, ...]
    operands: tuple[tuple[tuple[int, int], ...], ...]
    results: tuple[tuple[tuple[int, int], ...], ...]
    attrs: Mapping[str, tuple[int, int]]
    variants: tuple[str, ...]

    @staticmethod
    def of(json: Mapping[str, Any]) -> "FactorMap":
        def dims(entries: Any) -> tuple[tuple[tuple[int, int], ...], ...]:
            return tuple(
                tuple((dim["factor"], dim["times"]) for dim in entry)
                for entry in entries
            )

        return FactorMap(
            tuple(factor["size"] for factor in json["factors"]),
            dims(json.get("operands", ())),
            dims(json.get("results", ())),
            {
                name: (dim["factor"], dim["times"])
                for name, dim in json.get("attr_factors", {}).items()
            },
            tuple(json.get("variants", ())),
        )

    def shape(self, dims: Sequence[tuple[int, int]], scaling: Scaling) -> list[int]:
        """Size of each dim with the factors scaled."""
        return [self._size(factor, times, scaling) for factor, times in dims]

    def attr(self, name: str, scaling: Scaling) -> int:
        return self._size(*self.attrs[name], scaling)

    @staticmethod
    def _size(factor: int, times: int, scaling: Scaling) -> int:
        return (scaling.scaled(factor) if factor >= 0 else 1) * times


@dataclass(frozen=True)
class OpCall:
    """An op ready to run: `call(operands, changed attributes)` -> results."""

    key: str  # for messages
    name: str  # of the op, "linear"
    call: Callable[[Sequence[Tensor], Mapping[str, Any]], Any]
    operands: tuple[Layout, ...]
    shape_args: tuple[str, ...]
    stored: tuple[Stored | None, ...] = ()  # of operands, from the left


def make_record(
    runner: Runner,
    op: OpCall,
    factor_map: FactorMap,
    gradients: Sequence[Layout | None],
) -> tuple[dict[str, Any], Run]:
    """The record of `op`, and the run at the graph's own sizes."""
    base = run_op(runner, op, gradients)
    if not any(size > 1 for size in factor_map.sizes):
        return _record(base, gradients), base
    scaling = Scaling.of(factor_map.sizes)
    try:
        scaled = _scaled_run(runner, op, factor_map, scaling, base, gradients)
        return _record(base, gradients, scaled, scaling), base
    except NotProportional as reason:
        return _record(base, gradients) | {
            "scalable": False,
            "reason": str(reason),
        }, base


def run_op(runner: Runner, op: OpCall, gradients: Sequence[Layout | None]) -> Run:
    """One run at the op's own sizes."""
    return _run(runner, op, op.operands, {}, gradients)


def _run(
    runner: Runner,
    op: OpCall,
    operands: Sequence[Layout],
    changed: Mapping[str, Any],
    gradients: Sequence[Layout | None],
) -> Run:
    try:
        return runner.run(
            lambda tensors: op.call(tensors, changed),
            operands,
            gradients,
            name=op.name,
            stored=op.stored,
        )
    except Exception as error:
        shapes = [list(operand.shape) for operand in operands]
        raise InternalError(
            f"[profile] {op.key} cannot be profiled at shapes {shapes}: "
            f"{type(error).__name__}: {error}"
        ) from error


def _scaled_run(
    runner: Runner,
    op: OpCall,
    factor_map: FactorMap,
    scaling: Scaling,
    base: Run,
    gradients: Sequence[Layout | None],
) -> Run:
    unscaled = Scaling(scaling.sizes, (1,) * len(scaling.sizes))
    for dims, layouts in (
        (factor_map.operands, op.operands),
        (factor_map.results, base.result_layouts),
    ):
        if [factor_map.shape(d, unscaled) for d in dims] != [
            list(layout.shape) for layout in layouts
        ]:
            raise InvalidGraphError(
                f"[profile] the rule of {op.key} does not fit its shapes: expected "
                f"{[list(layout.shape) for layout in layouts]}, got "
                f"{[factor_map.shape(d, unscaled) for d in dims]} from its factors"
            )
    shapes = [factor_map.shape(dims, scaling) for dims in factor_map.results]
    operands = [
        layout.resized(factor_map.shape(dims, scaling))
        for layout, dims in zip(op.operands, factor_map.operands, strict=True)
    ]
    scaled_gradients = [
        layout.resized(shape) if layout is not None else None
        for layout, shape in zip(gradients, shapes, strict=True)
    ]
    changed: dict[str, Any] = dict.fromkeys(op.shape_args, shapes[0])
    changed |= {name: factor_map.attr(name, scaling) for name in factor_map.attrs}
    try:
        run = _run(runner, op, operands, changed, scaled_gradients)
    except InternalError as error:
        raise NotProportional(str(error.__cause__)) from error
    if [list(layout.shape) for layout in run.result_layouts] != shapes:
        raise NotProportional(
            f"results {[list(layout.shape) for layout in run.result_layouts]} where "
            f"the rule says {shapes}"
        )
    return run


def _record(
    base: Run,
    gradients: Sequence[Layout | None],
    scaled: Run | None = None,
    scaling: Scaling | None = None,
) -> dict[str, Any]:
    """`base` as JSON, numbers as expressions where `scaled` is given."""

    def number(before: Sequence[int], after: Sequence[int]) -> Any:
        if scaling is None:
            return constant(*before)
        return scaling.expression(before, after)

    def same(what: str, before: Any, after: Any) -> Any:
        if before != after:
            raise NotProportional(f"{what} {before} became {after}")
        return before

    other = base if scaled is None else scaled
    same("number of storages", len(base.sizes), len(other.sizes))

    def scratch(before: Alternative, after: Alternative) -> Any:
        if scaling is None:
            return constant(before.value())
        return scaling.alternative(before, after)

    return {
        "sizes": [
            number((before,), (after,))
            for before, after in zip(base.sizes, other.sizes, strict=True)
        ],
        "results": same("results", base.results, other.results),
        "saved": same("saved tensors", base.saved, other.saved),
        "forward": _events(base.forward, other.forward, scratch),
        "backward": _events(base.backward, other.backward, scratch),
        "gradients": same("gradients", base.gradients, other.gradients),
        "gradients_in_place": base.gradients_in_place,
        "layouts": {
            "results": [layout_json(layout) for layout in base.result_layouts],
            "gradients": [
                layout_json(given, memory_order(layout))
                for given, layout in zip(gradients, base.result_layouts, strict=True)
            ],
        },
        "kernels_forward": _kernels(
            base.kernels_forward, other.kernels_forward, number
        ),
        "kernels_backward": _kernels(
            base.kernels_backward, other.kernels_backward, number
        ),
        "scalable": True,
    }


def _events(
    base: Sequence[Event], other: Sequence[Event], scratch: Callable[..., Any]
) -> list[list[Any]]:
    if [_shape_of(e) for e in base] != [_shape_of(e) for e in other]:
        raise NotProportional("another order of allocations")

    events = [
        [kind, scratch(value, after[1]) if kind == "transient" else value]
        for (kind, value), after in zip(base, other, strict=True)
    ]
    # An alternative that no shard can meet.
    return [event for event in events if event != ["transient", constant(0)]]


def _shape_of(event: Event) -> Event:
    return (event[0], None) if event[0] == "transient" else event


def _kernels(
    base: Sequence[Kernel], other: Sequence[Kernel], number: Callable[..., Any]
) -> list[dict[str, Any]]:
    if [kernel.name for kernel in base] != [kernel.name for kernel in other]:
        raise NotProportional("other kernels")
    return [
        {
            "name": before.name,
            "class": before.kind,
            "flops": number(before.flops, after.flops),
            "read": number(before.reads, after.reads),
            "write": number(before.writes, after.writes),
        }
        for before, after in zip(base, other, strict=True)
    ]
