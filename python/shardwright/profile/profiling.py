"""make_records: a record for every op of a captured graph.

Ops are visited from last to first, because a record depends on the layout of
the incoming gradients, and that is what the readers' records gave. Equal ops
(same op, attributes, operand layouts, gradient layouts, factors) share one
record; a deep model has about a hundred.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Protocol

import torch
from torch import Tensor, fx
from torch._ops import OpOverload
from torch.utils._pytree import tree_map_only

from shardwright.errors import InternalError, InvalidGraphError
from shardwright.profile.layout import Layout
from shardwright.profile.opaque import default_threads
from shardwright.profile.records import FactorMap, OpCall, make_record
from shardwright.profile.running import Run, Runner, Stored
from shardwright.profile.small_shards import records_at_one

__all__ = ["CapturedGraph", "Progress", "VariantFunction", "make_records"]

# (op, args, kwargs) -> the op's results, on one rank: the special
# implementation called with local (fake) tensors and without process groups.
# `args` and `kwargs` are those of the op, all explicit.
VariantFunction = Callable[[OpOverload, tuple[Any, ...], dict[str, Any]], Any]
Progress = Callable[[int, int], None]


class CapturedGraph(Protocol):
    """What profiling needs of a capture: every node with a tensor value has
    meta["tensor"] with shape, stride, dtype and requires_grad."""

    @property
    def graph(self) -> dict[str, Any]: ...
    @property
    def op_nodes(self) -> dict[str, fx.Node]: ...
    @property
    def value_nodes(self) -> dict[str, fx.Node]: ...
    @property
    def autocast(self) -> Any: ...


def make_records(
    captured: CapturedGraph,
    factor_maps: Sequence[Mapping[str, Any]],
    variant_functions: Mapping[str, VariantFunction] | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Fills graph["records"] and each op's "record" with what a CPU would do.

    `factor_maps`: one per op, in order. `variant_functions` by variant name;
    every variant a factor map names must be there. `threads`: CPU threads of a
    run (scratch memory of attention grows with them), default: this process's.
    Runs nothing; about 30 ms per different op. Raises InvalidGraphError when
    maps and graph do not fit.
    """
    ops = captured.graph["ops"]
    if len(factor_maps) != len(ops):
        raise InvalidGraphError(
            f"[profile] factor maps do not fit the graph: expected {len(ops)}, got "
            f"{len(factor_maps)}"
        )
    profiler = _Profiler(captured, variant_functions or {}, threads)
    for done, index in enumerate(reversed(range(len(ops))), start=1):
        profiler.visit(ops[index], factor_maps[index])
        if progress is not None:
            progress(done, len(ops))
    captured.graph["records"] = profiler.records


class _Profiler:
    def __init__(
        self,
        captured: CapturedGraph,
        variants: Mapping[str, VariantFunction],
        threads: int | None,
    ) -> None:
        self.records: list[dict[str, Any]] = []
        self._captured = captured
        self._variants = variants
        cast = captured.autocast
        self._runner = Runner(
            threads=default_threads() if threads is None else threads,
            autocast=(cast.device_type, cast.dtype) if cast is not None else None,
        )
        self._known: dict[Any, tuple[int, Run]] = {}
        # Parameters by the first op that reads them: the last in backward.
        self._first_reader: dict[int, str] = {}
        for op in captured.graph["ops"]:
            for value in op["operands"]:
                if captured.graph["values"][value]["kind"] == "parameter":
                    self._first_reader.setdefault(value, op["key"])
        loss = captured.graph["loss"]
        # Layout of the gradient that reached each value so far, and whether
        # the engine may add into it.
        self._pending: dict[int, tuple[Layout, bool]] = {
            loss: (self._layout(loss), True)
        }

    def visit(self, op: dict[str, Any], factor_map: Mapping[str, Any]) -> None:
        got = [self._pending.pop(result, None) for result in op["results"]]
        gradients = [pair[0] if pair else None for pair in got]
        node = self._captured.op_nodes[op["key"]]
        operands = tuple(self._layout(value) for value in op["operands"])
        stored = self._stored(op)
        key = (
            _frozen(_template(node)),
            operands,
            tuple(gradients),
            stored,
            str(factor_map),
        )
        if key not in self._known:
            record, run = self._make(op, node, operands, gradients, stored, factor_map)
            self._known[key] = (len(self.records), run)
            self.records.append(record)
        op["record"], run = self._known[key]
        # The engine hands gradients to producers in operand order reversed.
        for number, value in reversed(list(enumerate(op["operands"]))):
            layout, handle = run.gradient_layouts[number], run.gradients[number]
            if layout is None or handle is None:
                continue
            in_place = run.gradients_in_place[number]
            if handle.startswith("g"):  # handed on: as free as it came
                came = got[int(handle[1:])]
                in_place = in_place and came is not None and came[1]
            self._deliver(value, layout, in_place)

    def _stored(self, op: Mapping[str, Any]) -> tuple[Stored | None, ...]:
        """What is stored after the op's backward. Where it reads a parameter
        twice, the sum of both is as good as the first of them."""
        return tuple(
            Stored(*self._pending.get(value, (None, False)))
            if self._first_reader.get(value) == op["key"]
            and op["operands"].count(value) == 1
            else None
            for value in op["operands"]
        )

    def _make(
        self,
        op: dict[str, Any],
        node: fx.Node,
        operands: tuple[Layout, ...],
        gradients: Sequence[Layout | None],
        stored: tuple[Stored | None, ...],
        factor_json: Mapping[str, Any],
    ) -> tuple[dict[str, Any], Run]:
        factor_map = FactorMap.of(factor_json)
        shape_args = tuple(op["shape_args"])
        target, args, kwargs = _template(node)

        def call_as(function: VariantFunction) -> OpCall:
            def call(tensors: Sequence[Tensor], changed: Mapping[str, Any]) -> Any:
                full = _filled(target, args, kwargs, tensors, changed)
                return function(target, *full)

            name = target._schema.name.split("::")[1]
            return OpCall(op["key"], name, call, operands, shape_args, stored)

        def record_of(call: OpCall) -> tuple[dict[str, Any], Run]:
            record, run = make_record(self._runner, call, factor_map, gradients)
            if record["scalable"]:
                record["at_one"] = records_at_one(
                    self._runner, call, factor_map, gradients, run
                )
            return record, run

        record, run = record_of(call_as(_plain))
        record["variants"], record["refused_variants"] = {}, {}
        for name in factor_map.variants:
            call = call_as(self._variant(name, op))
            try:
                special, _ = record_of(call)
            except InternalError as error:
                # The implementation says what it does not do with a ValueError.
                if not isinstance(error.__cause__, ValueError):
                    raise
                record["refused_variants"][name] = str(error.__cause__)
            else:
                record["variants"][name] = special
        return record, run

    def _variant(self, name: str, op: Mapping[str, Any]) -> VariantFunction:
        if name not in self._variants:
            raise InvalidGraphError(
                f"[profile] no function for variant '{name}' of {op['key']}: expected "
                f"one of {sorted(self._variants)}"
            )
        return self._variants[name]

    def _deliver(self, value: int, layout: Layout, in_place: bool) -> None:
        """Sums a gradient into what reached the value before: into it, or out
        of place into a new one."""
        if value not in self._pending:
            self._pending[value] = (layout, in_place)
            return
        before, may_add = self._pending[value]
        if not may_add:
            total = _on_meta(before) + _on_meta(layout)
            self._pending[value] = (Layout.of(total), True)

    def _layout(self, value: int) -> Layout:
        name = self._captured.graph["values"][value]["name"]
        return Layout.of(self._captured.value_nodes[name].meta["tensor"])


class _Operand:
    """The place of operand `number` in an op's arguments."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _template(node: fx.Node) -> tuple[OpOverload, Any, Any]:
    """The op and its arguments, with operands numbered in schema order."""
    numbers = count()
    args, kwargs = tree_map_only(
        fx.Node, lambda _: _Operand(next(numbers)), (node.args, dict(node.kwargs))
    )
    return node.target, args, kwargs  # type: ignore[return-value]


def _filled(
    op: OpOverload,
    args: Any,
    kwargs: Any,
    tensors: Sequence[Tensor],
    changed: Mapping[str, Any],
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments with operands in place, changed attributes, on the CPU."""
    bound = dict(zip((a.name for a in op._schema.arguments), args, strict=False))
    bound |= kwargs
    bound = {name: _with_tensors(value, tensors) for name, value in bound.items()}
    for name, value in changed.items():
        entry, _, position = name.partition("[")
        if position:  # "sizes[0]": one entry of a list
            items = list(bound[entry])
            items[int(position.rstrip("]"))] = value
            bound[entry] = items
        else:
            bound[name] = value
    positional = [a.name for a in op._schema.arguments if not a.kwarg_only]
    return (
        tuple(bound[name] for name in positional),
        {name: bound[name] for name in kwargs},
    )


def _with_tensors(value: Any, tensors: Sequence[Tensor]) -> Any:
    if isinstance(value, _Operand):
        return tensors[value.number]
    if isinstance(value, list | tuple):
        return [_with_tensors(item, tensors) for item in value]
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _frozen(value: Any) -> Any:
    """A hashable form in which 1, 1.0 and True differ."""
    if isinstance(value, _Operand):
        return ("operand", value.number)
    if isinstance(value, list | tuple):
        return tuple(_frozen(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _frozen(item)) for name, item in value.items())
    return (type(value).__name__, str(value))


def _plain(op: OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return op(*args, **kwargs)


def _on_meta(layout: Layout) -> Tensor:
    return torch.empty_strided(
        layout.shape, layout.stride, dtype=layout.dtype, device="meta"
    )
