"""Cases of the whole chain, and what is asked of the planner in each.

A case is a model, a mesh and a style: the planner's own choice ("free"), the
same just above the smallest limit that works ("tight") or in half the memory of
the free plan ("half"), or pins that force data
parallel ("data"), data parallel with sharded storage ("sharded") or Megatron's
pair of column and row split ("tensor").
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import Any

import models
import torch

from shardwright import api
from shardwright.config import Pin
from shardwright.errors import InfeasibleError
from shardwright.planfile import Plan

# First and second layer of each pair, as patterns of module paths.
_PAIRS = {
    "mlp": [("inner", "outer")],
    "gpt2": [("transformer.h.*.mlp.c_fc", "transformer.h.*.mlp.c_proj")],
    "bert": [("bert.*.intermediate.dense", "bert.encoder.layer.?.output.dense")],
    "vit": [("vit.*.fc1", "vit.*.fc2")],
    "resnet": [("layers.*.conv1", "layers.*.conv2")],
    "centred": [("layers.0", "layers.1")],
}
# Layers whose weight is [in, out].
_IN_OUT = {"gpt2"}
_ROW_OPS = re.compile(r":(linear|addmm|conv[123]d|embedding):")


@dataclass(frozen=True)
class Case:
    model: str
    mesh: tuple[int, ...]
    style: str = "free"
    batch: int | None = None  # None: the model's own
    recomputes: bool = False  # under a tight limit, something must be
    slack: float = 1.02  # the limit of "tight" over the smallest that works

    def __str__(self) -> str:
        mesh = "x".join(str(size) for size in self.mesh)
        batch = "" if self.batch is None else f"-batch{self.batch}"
        return f"{self.model}{batch}-{mesh}-{self.style}"

    @property
    def size(self) -> int:
        return int(torch.Size(self.mesh).numel())


def make(name: str, batch: int | None = None) -> tuple[torch.nn.Module, Any]:
    torch.manual_seed(7)
    if name == "gpt2_vocabulary":
        model, inputs = models.gpt2(
            layers=1, batch=4, length=8, width=16, vocabulary=50257
        )
    elif name == "gpt2_dropout":
        model, inputs = models.gpt2(dropout=0.1, batch=batch or 4)
    else:
        make_case: Any = models.CASES[name]
        model, inputs = make_case() if batch is None else make_case(batch=batch)
    return model, inputs


def loss_of(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    if isinstance(batch, dict):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, tuple) else model(batch)
    loss = output if isinstance(output, torch.Tensor) else output["loss"]
    assert isinstance(loss, torch.Tensor)
    return loss


@functools.cache
def graph_of(name: str, batch: int | None) -> str:
    return api.profile_graph(*make(name, batch)).graph_json


def plan(case: Case) -> Plan:
    graph = graph_of(case.model, case.batch)
    memory = None
    if case.style == "tight":
        memory = int(case.slack * smallest_limit(graph, case.mesh))
    if case.style == "half":
        free = plan_with(graph, case.mesh, ())
        assert free.peak_bytes is not None
        memory = free.peak_bytes // 2
    made = plan_with(graph, case.mesh, pins_of(case, json.loads(graph)), memory)
    if memory is not None:
        assert made.peak_bytes is not None
        assert made.peak_bytes <= memory
    return made


def plan_with(
    graph: str, mesh: tuple[int, ...], pins: tuple[Pin, ...], memory: int | None = None
) -> Plan:
    size = torch.Size(mesh).numel()
    return api.plan_graph(
        graph, cluster=f"{size} cpu", mesh=mesh, pins=pins, memory=memory
    )


def smallest_limit(graph: str, mesh: tuple[int, ...]) -> int:
    try:
        plan_with(graph, mesh, (), memory=1)
    except InfeasibleError as error:
        return int(str(error).split("--memory ")[1].split(" ", maxsplit=1)[0])
    raise AssertionError("a plan in one byte")


def pins_of(case: Case, graph: dict[str, Any]) -> tuple[Pin, ...]:
    match case.style:
        case "data":
            return data_pins(graph)
        case "sharded":
            return (*data_pins(graph), *storage_pins(graph, case.mesh[0]))
        case "tensor":
            return tensor_pins(case.model, "a" if len(case.mesh) == 1 else "b")
    return ()


def data_pins(graph: dict[str, Any]) -> tuple[Pin, ...]:
    """Rows of the batch over axis a, in all layers that have rows."""
    values = graph["values"]
    batch = next(v["shape"][0] for v in values if v["kind"] == "input")
    keys = [
        op["key"]
        for op in graph["ops"]
        if _ROW_OPS.search(op["key"])
        and values[op["results"][0]]["shape"][0] % batch == 0
    ]
    assert keys
    return tuple(Pin("placement", key, "[a, ...]") for key in keys)


def storage_pins(graph: dict[str, Any], ways: int) -> tuple[Pin, ...]:
    """Each parameter split over axis a on its first dim that is long enough."""
    pins = []
    for value in graph["values"]:
        shape = value["shape"]
        dims = [d for d, size in enumerate(shape) if size >= ways]
        if value["kind"] == "parameter" and dims:
            spec = ", ".join("a" if d == dims[0] else "-" for d in range(len(shape)))
            pins.append(Pin("storage", value["names"][0], f"[{spec}]"))
    return tuple(pins)


def tensor_pins(model: str, axis: str) -> tuple[Pin, ...]:
    """Columns of the first layer, rows of the second, weights stored so."""
    pins = []
    column, row = (1, 0) if model in _IN_OUT else (0, 1)
    for first, second in _PAIRS[model]:
        if model == "resnet":
            pins.append(Pin("placement", first, f"[-, {axis}, -, -]"))
            rest = ["-", "-"]
        else:
            for rank in (2, 3):  # a pin of another rank speaks of other tensors
                free = "-, " * (rank - 1)
                pins.append(Pin("placement", first, f"[{free}{axis}]"))
            rest = []
        for layer, dim in ((first, column), (second, row)):
            dims = ["-", "-"]
            dims[dim] = axis
            spec = ", ".join(dims + rest)
            pins.append(Pin("storage", f"{layer}.weight", f"[{spec}]"))
    return tuple(pins)


def strategies(plan_data: dict[str, Any], module: str) -> list[str]:
    """Strategies of the layer ops of a module."""
    return [
        step["strategy"]
        for step in plan_data["steps"]
        if step["kind"] == "op"
        and step["op"].startswith(f"{module}:")
        and _ROW_OPS.search(step["op"])
    ]
