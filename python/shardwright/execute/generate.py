"""From a plan to one rank's local program, an fx.GraphModule that can be read.

The plan is a whole program and this file emits exactly its steps, one line
each: a `convert` call, or a captured ATen op (or the variant the plan names)
on local tensors. The only arithmetic is local shapes: full-shape arguments
become the shape of this rank's part. Recomputed regions become modules of
their own, called through `runtime.recompute`.

Checked on the way, because a wrong program would train wrongly: every buffer
exists when read and lies as the reader expects, every conversion step applies
to the spec before it and the last one gives the promised spec, both ways.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, fx, nn

from shardwright.errors import InvalidPlanError
from shardwright.execute.specs import Spec, apply_step, local_shape, parse
from shardwright.runtime.convert import convert, regather
from shardwright.runtime.regions import effect, recompute
from shardwright.runtime.variants import FUNCTIONS, bind_variant

__all__ = [
    "CapturedProgram",
    "LocalProgram",
    "OutputBuffer",
    "generate",
    "wide",
    "widened",
]

_SCHEMA_VERSION = 1


class CapturedProgram(Protocol):
    """What execution needs of a capture (`shardwright.capture.Captured`)."""

    @property
    def graph(self) -> dict[str, Any]: ...
    @property
    def module(self) -> fx.GraphModule: ...
    @property
    def op_nodes(self) -> dict[str, fx.Node]: ...
    @property
    def value_nodes(self) -> dict[str, fx.Node]: ...
    def bind(self, batch: Any, *, check_shapes: bool = True) -> list[Tensor]: ...
    def unflatten(self, outputs: Sequence[Tensor]) -> Any: ...


@dataclass(frozen=True)
class OutputBuffer:
    """One result of the local program: of which value, in which layout."""

    value: str
    spec: Spec


@dataclass(frozen=True)
class LocalProgram:
    """`module(step, *tensors) -> (loss, *outputs)` on local tensors.

    `values` names the graph value of each tensor argument, `outputs` describes
    the results after the loss, `notes` says per node name what the plan meant.
    """

    module: fx.GraphModule
    values: tuple[str, ...]
    outputs: tuple[OutputBuffer, ...]
    notes: dict[str, str]


def generate(
    captured: CapturedProgram,
    plan: Mapping[str, Any],
    coordinates: Mapping[str, int],
    *,
    widen: bool = False,
) -> LocalProgram:
    """The program of the rank at `coordinates` (axis name -> index).

    `widen` turns casts to a floating dtype into casts to float64 (complex ones to
    complex128), for checks in float64.
    Raises InvalidPlanError when plan and graph do not fit. O(steps).
    """
    return _Generator(captured, plan, coordinates, widen).run()


def widened(value: Any) -> Any:
    """An argument with floating and complex dtypes as the widest of their kind,
    nested lists included."""
    if isinstance(value, torch.dtype):
        return wide(value)
    if isinstance(value, list | tuple):
        return type(value)(widened(item) for item in value)
    return value


def wide(dtype: torch.dtype) -> torch.dtype:
    """float64 for floating dtypes, complex128 for complex ones, others as they are."""
    if dtype.is_complex:
        return torch.complex128
    return torch.float64 if dtype.is_floating_point else dtype


class _Frame:
    """A graph under construction and where each buffer is in it."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.nodes: dict[str, fx.Node] = {}

    def placeholder(self, buffer: str) -> None:
        name = _identifier(buffer)
        self.nodes[buffer] = self.graph.create_node("placeholder", name, name=name)

    def call(self, name: str, target: Any, args: Any, kwargs: Any = None) -> fx.Node:
        return self.graph.create_node(
            "call_function", target, tuple(args), dict(kwargs or {}), name=name
        )


class _Generator:
    def __init__(
        self,
        captured: CapturedProgram,
        plan: Mapping[str, Any],
        coordinates: Mapping[str, int],
        widen: bool,
    ) -> None:
        self._check_version(plan)
        self.captured, self.plan, self.widen = captured, plan, widen
        self.coordinates = dict(coordinates)
        self.sizes = {a["name"]: a["size"] for a in plan["mesh"]["axes"]}
        self.values = {v["name"]: v for v in captured.graph["values"]}
        self.value_list = captured.graph["values"]
        self.ops = {op["key"]: op for op in captured.graph["ops"]}
        self.storage = {p["name"]: parse(p["storage"]) for p in plan["parameters"]}
        self.specs: dict[str, Spec] = {}  # of every buffer made so far
        self.gathered: set[str] = set()  # buffers that are gathered again
        self.viewed: set[str] = set()  # ... as views that ops made of them
        self.notes: dict[str, str] = {}
        self.root = nn.Module()

    # --- the whole ---------------------------------------------------------

    def run(self) -> LocalProgram:
        steps = self.plan["steps"]
        frame = _Frame()
        frame.placeholder("step")
        read = {b for s in steps for b in _reads(s)} | set(self._results())
        leaves = [
            v["name"]
            for v in self.value_list
            if v["kind"] != "activation" and v["name"] in read
        ]
        for name in leaves:
            frame.placeholder(name)
            self.specs[name] = self._leaf_spec(name)
        recomputed = {r["id"]: r["recompute"] for r in self.plan["regions"]}
        for region, start, stop in _runs(steps):
            if recomputed.get(region, False):
                self._emit_region(frame, region, start, stop)
            else:
                for step in steps[start:stop]:
                    self._emit(frame, step, recomputed=False)
        results = [self._node(frame, buffer) for buffer in self._results()]
        frame.graph.output(tuple(results))
        frame.graph.lint()
        outputs = tuple(
            OutputBuffer(o["value"], self._expect_spec(o["buffer"], o["spec"]))
            for o in self.plan["outputs"]
        )
        loss = self.specs[self.plan["loss"]]
        if loss.partial or loss.dims:
            raise InvalidPlanError(
                f"[execute] loss is not whole: expected [] on every rank, got {loss}."
            )
        module = fx.GraphModule(self.root, frame.graph, "LocalProgram")
        return LocalProgram(module, tuple(leaves), outputs, self.notes)

    def _results(self) -> list[str]:
        return [self.plan["loss"], *(o["buffer"] for o in self.plan["outputs"])]

    def _leaf_spec(self, name: str) -> Spec:
        value = self.values[name]
        whole = Spec(((),) * len(value["shape"]))
        if value["kind"] == "parameter":
            return self.storage.get(name, whole)
        return whole

    # --- regions -----------------------------------------------------------

    def _emit_region(self, frame: _Frame, region: int, start: int, stop: int) -> None:
        """Steps [start, stop) as a module of its own, run again in backward."""
        steps = self.plan["steps"]
        inside, later = steps[start:stop], steps[stop:]
        made = [b for s in inside for b in _writes(s)]
        inputs = _unique(b for s in inside for b in _reads(s) if b not in set(made))
        state = [b for b in inputs if self._is_buffer(b)]
        others = ["step", *(b for b in inputs if b not in state)]
        wanted = {b for s in later for b in _reads(s)} | set(self._results())
        outputs = [b for b in made if b in wanted]
        body = _Frame()
        for buffer in [*state, *others]:
            body.placeholder(buffer)
        for step in inside:
            self._emit(body, step, recomputed=True)
        results = tuple(self._node(body, b) for b in outputs)
        body.graph.output(results if len(results) != 1 else results[0])
        body.graph.lint()
        name = f"region_{region}"
        self.root.add_module(name, fx.GraphModule(nn.Module(), body.graph, name))
        module = frame.graph.create_node("get_attr", name, name=name)
        held = tuple(self._node(frame, b) for b in state)
        arguments = [module, held, *(self._node(frame, b) for b in others)]
        call = frame.call(f"{name}_out", recompute, arguments)
        self._notes_region(region, call)
        if len(outputs) == 1:
            frame.nodes[outputs[0]] = call
            return
        for index, buffer in enumerate(outputs):
            frame.nodes[buffer] = frame.call(
                _identifier(buffer), operator.getitem, (call, index)
            )

    def _is_buffer(self, name: str) -> bool:
        return name in self.values and self.values[name]["kind"] == "buffer"

    def _notes_region(self, region: int, call: fx.Node) -> None:
        names = {r["id"]: r.get("name", "") for r in self.plan["regions"]}
        self.notes[call.name] = f"recomputed in backward: {names[region]}"

    # --- steps -------------------------------------------------------------

    def _emit(self, frame: _Frame, step: Mapping[str, Any], recomputed: bool) -> None:
        if step["kind"] == "convert":
            self._emit_convert(frame, step, recomputed)
        elif step["kind"] == "op":
            self._emit_op(frame, step, recomputed)
        else:
            raise InvalidPlanError(
                "[execute] unknown step kind: expected convert or op, got "
                f"'{step['kind']}'. Try: a shardwright of the plan's version."
            )

    def _emit_convert(
        self, frame: _Frame, step: Mapping[str, Any], recomputed: bool
    ) -> None:
        source = self._node(frame, step["in"])
        self._expect_spec(step["in"], step["from"])
        forward = self._steps(step, "forward", step["from"], step["to"])
        # Backward leads from the gradient the copy is given to the source's own.
        backward: tuple[tuple[str | int, ...], ...] = ()
        if self.values[step["value"]]["requires_grad"]:
            start, end = step["to_grad"], step["from_grad"]
            backward = self._steps(step, "backward", start, end)
        keywords: dict[str, Any] = {}
        if backward:
            keywords["backward"] = backward
        for name in ("order", "grad_order"):
            if step.get(name):
                keywords[name] = tuple(step[name])
        # Inside a recomputed region the region itself gathers again.
        if not recomputed and forward and step.get("regather"):
            keywords["regather"] = True
        if step["in"] in self.viewed and not forward:
            self.viewed.add(step["out"])
        passes_on = step["in"] in self.gathered and not (
            forward and step["in"] in self.viewed
        )
        if keywords.get("regather") or passes_on:
            self.gathered.add(step["out"])
        arguments = (source, forward) if forward or keywords else (source,)
        node = frame.call(_identifier(step["out"]), convert, arguments, keywords)
        self._define(frame, step["out"], parse(step["to"]), node)
        self.notes[node.name] = f"{step['from']} -> {step['to']}"

    def _steps(
        self, step: Mapping[str, Any], way: str, start: str, end: str
    ) -> tuple[tuple[str | int, ...], ...]:
        """Runtime steps of one way, with the sizes this rank needs."""
        spec, result = parse(start), []
        for item in step[way]:
            spec = apply_step(spec, item)
            if "after" in item and parse(item["after"]) != spec:
                raise _differs(step["out"], item["after"], spec)
            shape = local_shape(step["shape"], spec, self.sizes, self.coordinates)
            result.append(_runtime_step(item, shape))
        if spec != parse(end):
            raise _differs(step["out"], end, spec)
        return tuple(result)

    def _emit_op(
        self, frame: _Frame, step: Mapping[str, Any], recomputed: bool
    ) -> None:
        op = self.ops.get(step["op"])
        source = self.captured.op_nodes.get(step["op"])
        if op is None or source is None:
            raise InvalidPlanError(
                f"[execute] plan names an unknown op: got '{step['op']}'. Try: plan "
                "again from this model."
            )
        for buffer, text in zip(step["in"], step["in_specs"], strict=True):
            self._expect_spec(buffer, text)
        arguments = self._arguments(frame, op, source, step)
        target, args, kwargs = _split_arguments(source.target, arguments)
        target, args, kwargs = self._variant(frame, op, step, target, args, kwargs)
        if op["effect"] and recomputed and step.get("variant") is None:
            target, args = effect, (target, self._buffers_of(op, source), *args)
        if any(buffer in self.gathered for buffer in step["in"]):
            if recomputed:
                # The region holds its inputs: the copy would not be dropped.
                raise InvalidPlanError(
                    "[execute] a copy that is gathered again is read in a recomputed "
                    f"region: expected one or the other ({op['key']}). Try: plan again."
                )
            named = getattr(target, "__name__", "")
            handed = named if FUNCTIONS.get(named) is target else target
            target, args = regather, (handed, *args)
            if any(r.alias_info for r in source.target._schema.returns):  # type: ignore[union-attr]
                self.gathered.update(step["out"])
                self.viewed.update(step["out"])
        name = _identifier(step["out"][0] if step["out"] else step["op"])
        results = step["out"]
        returns = len(source.target._schema.returns)  # type: ignore[union-attr]
        single = returns == 1 and not _is_list_return(source.target)
        node = frame.call(name if single else f"{name}_all", target, args, kwargs)
        self.notes[node.name] = step.get("strategy") or "replicated"
        for index, (buffer, text) in enumerate(
            zip(results, step["out_specs"], strict=True)
        ):
            result = node
            if not single:
                result = frame.call(
                    _identifier(buffer), operator.getitem, (node, index)
                )
            self._define(frame, buffer, parse(text), result)

    def _arguments(
        self,
        frame: _Frame,
        op: Mapping[str, Any],
        source: fx.Node,
        step: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Schema name -> argument: buffers for tensors, local sizes for shapes."""
        schema = source.target._schema  # type: ignore[union-attr]
        names = [argument.name for argument in schema.arguments]
        bound = dict(zip(names, source.args, strict=False)) | dict(source.kwargs)
        buffers = dict(zip(op["operand_args"], step["in"], strict=True))

        def take(name: str, value: Any) -> Any:
            if isinstance(value, fx.Node):
                if name not in buffers:
                    raise InvalidPlanError(
                        f"[execute] step lacks operand {name} ({op['key']})."
                    )
                return self._node(frame, buffers.pop(name))
            if isinstance(value, list | tuple):
                return [take(f"{name}[{i}]", item) for i, item in enumerate(value)]
            return widened(value) if self.widen else value

        result = {name: take(name, bound[name]) for name in names if name in bound}
        if buffers:
            raise InvalidPlanError(
                f"[execute] step has operands the op does not take: got "
                f"{sorted(buffers)} ({op['key']})."
            )
        for name in op["shape_args"]:
            shape = self.value_list[op["results"][0]]["shape"]
            spec = parse(step["out_specs"][0])
            result[name] = local_shape(shape, spec, self.sizes, self.coordinates)
        result.update(step.get("local_attrs") or {})
        return result

    def _variant(
        self,
        frame: _Frame,
        op: Mapping[str, Any],
        step: Mapping[str, Any],
        target: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
        name, extra = step.get("variant"), step.get("variant_args") or {}
        if name is None and op["random"]:
            name, extra = "random", {"axes": []}
        if name is None:
            return target, args, kwargs
        operands = op["operands"]
        shape = self.value_list[operands[0]]["shape"] if operands else []
        return bind_variant(
            name,
            target,
            args,
            kwargs,
            extra,
            first_operand_shape=shape,
            key=op["key"],
            step=frame.nodes["step"],
        )

    def _buffers_of(self, op: Mapping[str, Any], source: fx.Node) -> tuple[int, ...]:
        """Positions of the arguments that an effect op changes."""
        names = [a.name for a in source.target._schema.arguments]  # type: ignore[union-attr]
        kinds = {
            name: self.value_list[value]["kind"]
            for name, value in zip(op["operand_args"], op["operands"], strict=True)
        }
        return tuple(i for i, n in enumerate(names) if kinds.get(n) == "buffer")

    # --- buffers -----------------------------------------------------------

    def _define(self, frame: _Frame, buffer: str, spec: Spec, node: fx.Node) -> None:
        frame.nodes[buffer], self.specs[buffer] = node, spec

    def _node(self, frame: _Frame, buffer: str) -> fx.Node:
        if buffer not in frame.nodes:
            raise _unmade(buffer)
        return frame.nodes[buffer]

    def _expect_spec(self, buffer: str, text: str) -> Spec:
        spec = parse(text)
        if buffer not in self.specs:
            raise _unmade(buffer)
        if self.specs[buffer] != spec:
            raise _differs(buffer, text, self.specs[buffer])
        return spec

    @staticmethod
    def _check_version(plan: Mapping[str, Any]) -> None:
        form = (plan.get("schema"), plan.get("version"))
        if form != ("shardwright.plan", _SCHEMA_VERSION):
            raise InvalidPlanError(
                "[execute] not a plan this version can run: expected "
                f"shardwright.plan version {_SCHEMA_VERSION}, got {form}. Try: plan "
                "again with this shardwright."
            )


# --- helpers -----------------------------------------------------------------


def _unmade(buffer: str) -> InvalidPlanError:
    return InvalidPlanError(
        f"[execute] buffer is read before it exists: got '{buffer}'. Try: plan again."
    )


def _differs(buffer: str, expected: str, got: Spec | None) -> InvalidPlanError:
    return InvalidPlanError(
        f"[execute] layouts do not connect: expected {expected}, got {got} (buffer "
        f"'{buffer}'). Try: plan again."
    )


def _reads(step: Mapping[str, Any]) -> list[str]:
    return [step["in"]] if step["kind"] == "convert" else list(step["in"])


def _writes(step: Mapping[str, Any]) -> list[str]:
    return [step["out"]] if step["kind"] == "convert" else list(step["out"])


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))


def _runs(steps: Sequence[Mapping[str, Any]]) -> Iterable[tuple[int, int, int]]:
    """(region, start, stop) of the maximal runs of equal region."""
    start, seen = 0, set()
    for stop in range(1, len(steps) + 1):
        if stop < len(steps) and steps[stop]["region"] == steps[start]["region"]:
            continue
        region = steps[start]["region"]
        if region >= 0 and region in seen:
            raise InvalidPlanError(
                f"[execute] region {region} is not contiguous: expected its steps "
                "in one run. Try: plan again."
            )
        seen.add(region)
        yield region, start, stop
        start = stop


def _runtime_step(item: Mapping[str, Any], shape: list[int]) -> tuple[str | int, ...]:
    """A plan's step as `runtime.convert` takes it; `shape` is local, after it."""
    kind, axis = item["kind"], item["axis"]
    if kind == "all_gather":
        return (kind, axis, item["dim"], shape[item["dim"]])
    if kind == "all_to_all":
        return (kind, axis, item["dim"], item["to_dim"], shape[item["dim"]])
    if kind in ("reduce_scatter", "slice"):
        return (kind, axis, item["dim"])
    return (kind, axis)


def _split_arguments(
    target: Any, arguments: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """(op, args, kwargs); a view becomes a reshape, which local strides may need."""
    if str(target) in ("aten.view.default", "aten._unsafe_view.default"):
        reshape = torch.ops.aten.reshape.default
        return reshape, (arguments["self"], arguments["size"]), {}
    keyword_only = {a.name for a in target._schema.arguments if a.kwarg_only}
    args, kwargs, gap = [], {}, False
    for argument in target._schema.arguments:
        name = argument.name
        if name not in arguments:
            gap = True
        elif name in keyword_only or gap:
            kwargs[name] = arguments[name]
        else:
            args.append(arguments[name])
    return target, tuple(args), kwargs


def _is_list_return(target: Any) -> bool:
    return str(target._schema.returns[0].type) == "List[Tensor]"


def _identifier(buffer: str) -> str:
    """A readable Python name: path, op and ordinal; ports after 'as'."""
    value, _, port = buffer.partition("@")
    value = value.removesuffix("#0")
    text = f"{value}_as_{port}" if port else value
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name and not name[0].isdigit() else f"value_{name}"
