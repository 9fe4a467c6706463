"""The whole chain on four processes: capture, profile, plan, run, compare.

Each case is a model, a mesh, and what is asked of the planner: its own choice,
a tight limit, or pins that force data parallel, sharded storage or tensor
parallel. On real ranks then: losses and first gradients equal to one process in
float32, losses, gradients and parameters in float64, the collectives of the
plan and no others, and no byte more than predicted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import models
import pytest
import torch

from shardwright import api
from shardwright.config import Pin
from shardwright.errors import InfeasibleError
from shardwright.planfile import Plan
from tests.support.ranks import run_ranks

DATA_PARALLEL = (Pin("placement", "*linear:0", "[a, ...]"),)
STORAGE_SHARDED = (*DATA_PARALLEL, Pin("storage", "*.weight", "[a, -]"))
TENSOR_PARALLEL = (
    Pin("placement", "inner*", "[-, a]"),
    Pin("storage", "inner.weight", "[a, -]"),
    Pin("storage", "outer.weight", "[-, a]"),
)


@dataclass(frozen=True)
class Case:
    model: str
    mesh: tuple[int, ...]
    pins: tuple[Pin, ...] = ()
    tight: bool = False  # just above the smallest limit that works


CASES = [
    Case("mlp", (4,)),
    Case("mlp", (4,), DATA_PARALLEL),
    Case("mlp", (4,), STORAGE_SHARDED),
    Case("mlp", (4,), TENSOR_PARALLEL),
    Case("mlp", (2, 2)),
    Case("gpt2", (4,)),
    Case("gpt2", (4,), tight=True),
    Case("bert", (4,)),
    Case("vit", (4,)),
    Case("odd", (4,)),
]


def _make(name: str) -> tuple[torch.nn.Module, Any]:
    torch.manual_seed(7)
    return models.CASES[name]()


def _smallest_limit(graph: str, case: Case) -> int:
    with pytest.raises(InfeasibleError) as info:
        api.plan_graph(graph, cluster="4 cpu", mesh=case.mesh, memory=1)
    text = str(info.value)
    return int(text.split("--memory ")[1].split(" ", maxsplit=1)[0])


def _plan(case: Case) -> str:
    model, batch = _make(case.model)
    graph = api.profile_graph(model, batch).graph_json
    memory = int(1.02 * _smallest_limit(graph, case)) if case.tight else None
    plan = api.plan_graph(
        graph, cluster="4 cpu", mesh=case.mesh, pins=case.pins, memory=memory
    )
    if memory is not None:
        assert plan.peak_bytes <= memory
    return plan.text


def _run_all(rank: int, work: list[tuple[Case, str]]) -> list[list[str]]:
    from shardwright.execute.run import RunOptions, run

    failures = []
    for case, text in work:
        plan = Plan.from_text(text)
        model, batch = _make(case.model)
        captured = api.capture_for(plan, model)
        report = run(
            lambda name=case.model: _make(name)[0],
            batch,
            captured,
            plan.data,
            _loss,
            RunOptions(steps=3, compare=True),
        )
        bad = [
            f"{check.name} {check.worst} ({check.where})"
            for check in report.checks
            if not check.passed
        ]
        if max(report.peak_bytes) < 0.9 * plan.peak_bytes:
            bad.append(f"predicted {plan.peak_bytes}, measured {report.peak_bytes}")
        failures.append(bad)
    return failures


def _loss(model: torch.nn.Module, batch: Any) -> torch.Tensor:
    if isinstance(batch, dict):
        output = model(**batch)
    else:
        output = model(*batch) if isinstance(batch, tuple) else model(batch)
    if isinstance(output, torch.Tensor):
        return output
    return output["loss"]


def test_equal_to_one_process() -> None:
    work = [(case, _plan(case)) for case in CASES]
    results = run_ranks(_run_all, 4, work)
    failed = {
        f"{case}": bad for (case, _), bad in zip(work, results[0], strict=True) if bad
    }
    assert not failed


def test_tight_limit_recomputes() -> None:
    plan = Plan.from_text(_plan(Case("gpt2", (4,), tight=True)))
    assert any(region["recompute"] for region in plan.data["regions"])


def test_plans_are_derived_not_templates() -> None:
    """The Megatron pair comes out of factors and costs for a wide MLP."""
    model = models.Mlp(width=256, hidden=1024)
    batch = (torch.randn(16, 256), torch.randn(16, 256))
    plan = api.plan_graph(
        api.profile_graph(model, batch).graph_json, cluster="4 cpu", mesh=(4,)
    )
    strategies = {
        s["op"]: s["strategy"] for s in plan.data["steps"] if s["kind"] == "op"
    }
    assert strategies["inner:linear:0"] == "a -> out"
    assert strategies["outer:linear:0"] == "a -> in"
