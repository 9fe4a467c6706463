"""Plans written by hand, in the notation of ports.

    plan = HandPlan(captured, mesh={"a": 2, "b": 2})
    plan.storage["fc.weight"] = "[b, -]"
    plan.op("fc:linear:0", operands=["S0,R", "D,S0", "D,S0"], results=["S0,S1"])
    plan.build()

A port names one symbol per mesh axis: R, D (replicated, gradient partial), P,
S<dim>. Ops that are not mentioned run replicated. Conversions between ports are
put in by a simple rule (ungather from the last axis to the first, then split),
not by a search: good enough to be right, not meant to be fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from shardwright.execute.specs import apply_step, local_shape, parse

_FORWARD = {"R": "R", "D": "R", "P": "P"}
_GRADIENT = {"R": "R", "D": "P", "P": "R"}
_BYTES = {
    "float32": 4, "float64": 8, "complex64": 8, "int32": 4, "int64": 8, "bool": 1,
    "bfloat16": 2,
}  # fmt: skip


@dataclass
class _Op:
    operands: list[str]
    results: list[str]
    variant: str | None
    variant_args: dict[str, Any]
    local_attrs: dict[str, Any]
    collectives_forward: list[dict[str, Any]]


@dataclass
class HandPlan:
    captured: Any
    mesh: dict[str, int]
    storage: dict[str, str] = field(default_factory=dict)  # port text, R/S only
    regather: set[str] = field(default_factory=set)
    regions: list[tuple[str, str]] = field(default_factory=list)  # first, last op
    output_ports: dict[str, str] = field(default_factory=dict)
    ops: dict[str, _Op] = field(default_factory=dict)

    def op(
        self,
        key: str,
        operands: list[str],
        results: list[str],
        variant: str | None = None,
        variant_args: dict[str, Any] | None = None,
        local_attrs: dict[str, Any] | None = None,
    ) -> None:
        self.ops[key] = _Op(
            operands, results, variant, variant_args or {}, local_attrs or {}, []
        )

    def build(self) -> dict[str, Any]:
        return _Builder(self).build()


class _Builder:
    def __init__(self, hand: HandPlan) -> None:
        self.hand = hand
        self.graph = hand.captured.graph
        self.values = self.graph["values"]
        self.axes = list(hand.mesh)
        self.ports: dict[str, list[str]] = {}  # value name -> port it is made in
        self.copies: dict[tuple[str, str, int], str] = {}
        self.steps: list[dict[str, Any]] = []
        self.region = -1

    def build(self) -> dict[str, Any]:
        unknown = set(self.hand.ops) - {op["key"] for op in self.graph["ops"]}
        assert not unknown, f"no such ops: {unknown}"
        for value in self.values:
            if value["kind"] != "activation":
                text = self.hand.storage.get(value["name"], self.whole())
                self.ports[value["name"]] = text.split(",")
        starts = {first: i for i, (first, _) in enumerate(self.hand.regions)}
        ends = {last: i for i, (_, last) in enumerate(self.hand.regions)}
        for op in self.graph["ops"]:
            if op["key"] in starts:
                self.region = starts[op["key"]]
            self.add_op(op)
            if op["key"] in ends:
                self.region = -1
        loss = self.values[self.graph["loss"]]["name"]
        loss_buffer = self.read(loss, self.whole())
        outputs = []
        for number in self.graph["outputs"]:
            name = self.values[number]["name"]
            default = self.whole() if name == loss else ",".join(self.ports[name])
            port = self.hand.output_ports.get(name, default)
            buffer = self.read(name, port)
            outputs.append(
                {"value": name, "buffer": buffer, "spec": self.spec(name, port)}
            )
        return {
            "schema": "shardwright.plan",
            "version": 1,
            "graph_name": self.graph["name"],
            "batch": self.graph["batch"],
            "mesh": {
                "axes": [{"name": n, "size": s} for n, s in self.hand.mesh.items()]
            },
            "parameters": [
                {
                    "name": v["name"],
                    "storage": self.spec(v["name"], ",".join(self.ports[v["name"]])),
                }
                for v in self.values
                if v["kind"] == "parameter"
            ],
            "steps": self.steps,
            "regions": [
                {"id": i, "recompute": True, "name": first}
                for i, (first, _) in enumerate(self.hand.regions)
            ],
            "outputs": outputs,
            "loss": loss_buffer,
        }

    def whole(self) -> str:
        return ",".join("R" for _ in self.axes)

    def value(self, name: str) -> dict[str, Any]:
        return next(v for v in self.values if v["name"] == name)

    def spec(self, name: str, port: str, gradient: bool = False) -> str:
        rank = len(self.value(name)["shape"])
        dims: list[list[str]] = [[] for _ in range(rank)]
        partial = []
        for axis, symbol in zip(self.axes, port.split(","), strict=True):
            if symbol.startswith("S"):
                dims[int(symbol[1:])].append(axis)
            elif (_GRADIENT if gradient else _FORWARD)[symbol] == "P":
                partial.append(axis)
        text = "[" + ", ".join(":".join(d) or "-" for d in dims) + "]"
        return text + (f" partial{{{', '.join(partial)}}}" if partial else "")

    def add_op(self, op: dict[str, Any]) -> None:
        hand = self.hand.ops.get(op["key"])
        names = [self.values[i]["name"] for i in op["operands"]]
        results = [self.values[i]["name"] for i in op["results"]]
        ports = hand.operands if hand else [self.whole()] * len(names)
        result_ports = hand.results if hand else [self.whole()] * len(results)
        buffers = [self.read(n, p) for n, p in zip(names, ports, strict=True)]
        for name, port in zip(results, result_ports, strict=True):
            self.ports[name] = port.split(",")
        self.steps.append(
            {
                "kind": "op",
                "op": op["key"],
                "in": buffers,
                "out": results,
                "in_specs": [
                    self.spec(n, p) for n, p in zip(names, ports, strict=True)
                ],
                "out_specs": [
                    self.spec(n, p) for n, p in zip(results, result_ports, strict=True)
                ],
                "variant": hand.variant if hand else None,
                "variant_args": hand.variant_args if hand else {},
                "local_attrs": hand.local_attrs if hand else {},
                "strategy": " x ".join(ports) if hand else "replicated",
                "region": self.region,
            }
        )

    def read(self, name: str, port: str) -> str:
        """The buffer of a value in a port, converted when it must be."""
        made = ",".join(self.ports[name])
        # A copy made in a recomputed region serves that region only.
        key = (name, port, self.region)
        if port == made:
            return name
        if key in self.copies:
            return self.copies[key]
        buffer = f"{name}@{port}"
        if any(s.get("out") == buffer for s in self.steps):
            buffer += f";{self.region + 1}"
        value = self.value(name)
        backward: list[dict[str, Any]] = []
        if value["requires_grad"]:
            start = self.spec(name, port, gradient=True)
            end = self.spec(name, made, gradient=True)
            backward = self.path(value, start, end)
        forward_ends = (self.spec(name, made), self.spec(name, port))
        self.steps.append(
            {
                "kind": "convert",
                "value": name,
                "in": name,
                "out": buffer,
                "shape": value["shape"],
                "dtype": value["dtype"],
                "from": forward_ends[0],
                "to": forward_ends[1],
                "from_grad": self.spec(name, made, gradient=True),
                "to_grad": self.spec(name, port, gradient=True),
                "forward": self.path(value, *forward_ends),
                "backward": backward,
                "regather": name in self.hand.regather,
                "region": self.region,
            }
        )
        self.copies[key] = buffer
        return buffer

    def path(self, value: dict[str, Any], start: str, end: str) -> list[dict[str, Any]]:
        """Steps from one spec to another, axis by axis."""
        spec, target, steps = parse(start), parse(end), []

        def symbol(of: Any, axis: str) -> str | int:
            if axis in of.partial:
                return "P"
            return next((d for d, axes in enumerate(of.dims) if axis in axes), "R")

        def add(**step: Any) -> None:
            nonlocal spec
            before = spec
            spec = apply_step(spec, step)
            counted = spec if step["kind"] == "all_gather" else before
            zeros = dict.fromkeys(self.axes, 0)
            shape = local_shape(value["shape"], counted, self.hand.mesh, zeros)
            num_bytes = _BYTES[value["dtype"]]
            for size in shape:
                num_bytes *= size
            local = step["kind"] in ("slice", "make_partial")
            steps.append(
                {**step, "after": str(spec), "bytes": 0 if local else num_bytes}
            )

        for axis in reversed(self.axes):
            here, there = symbol(spec, axis), symbol(target, axis)
            if here == there:
                continue
            if isinstance(here, int) and isinstance(there, int):
                add(kind="all_to_all", axis=axis, dim=here, to_dim=there)
            elif isinstance(here, int):
                add(kind="all_gather", axis=axis, dim=here)
            elif here == "P" and isinstance(there, int):
                add(kind="reduce_scatter", axis=axis, dim=there)
            elif here == "P":
                add(kind="all_reduce", axis=axis)
        for axis in self.axes:
            here, there = symbol(spec, axis), symbol(target, axis)
            if here != there and isinstance(there, int):
                add(kind="slice", axis=axis, dim=there)
            elif here != there:
                add(kind="make_partial", axis=axis)
        assert spec == target, (start, end, str(spec))
        return steps


def collectives_of(plan: dict[str, Any]) -> dict[tuple[str, str, int], int]:
    """How often each (kind, axis, bytes) of the conversions is issued per step.

    Forward and backward once, forward again where gathered again or recomputed.
    Internal collectives of variants are not counted.
    """
    recomputed = {r["id"] for r in plan["regions"] if r["recompute"]}
    counts: dict[tuple[str, str, int], int] = {}
    for step in plan["steps"]:
        if step["kind"] != "convert":
            continue
        again = step["region"] in recomputed or step["regather"]
        for way, times in (("forward", 2 if again else 1), ("backward", 1)):
            for item in step[way]:
                if item["kind"] not in ("slice", "make_partial"):
                    key = (item["kind"], item["axis"], item["bytes"])
                    counts[key] = counts.get(key, 0) + times
    return counts
