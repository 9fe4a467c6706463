"""The whole chain on real processes: capture, profile, plan, run, compare.

For every case (see support/chain.py), on one process per rank: losses and first
gradients equal to one process in float32, losses, gradients and parameters in
float64, the collectives of the plan and no others, and the measured peak not
above the prediction and at most 10 % below it.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest

from shardwright.planfile import Plan
from tests.support import chain
from tests.support.chain import Case
from tests.support.ranks import run_ranks

# A lone MLP has no case that must recompute: it is one region, its only saved
# activations are one hidden layer, and running it again needs that layer while
# the gradients of both weights are there; sharding is what saves memory.
CASES = [
    Case("mlp", (4,)),
    Case("mlp", (4,), "tight"),
    Case("mlp", (4,), "data"),
    Case("mlp", (4,), "sharded"),
    Case("mlp", (4,), "tensor"),
    Case("mlp", (2, 2)),
    Case("mlp", (2, 2), "tensor"),
    Case("gpt2", (4,)),
    Case("gpt2", (4,), "tight", recomputes=True),
    Case("gpt2", (4,), "sharded", batch=4),
    Case("gpt2", (4,), "tensor"),
    Case("gpt2_vocabulary", (4,), "tight"),
    Case("bert", (4,), "tight", recomputes=True),
    Case("vit", (4,), "tight", recomputes=True),
    Case("vit", (4,), "tensor"),
    Case("resnet", (4,)),
    Case("resnet", (4,), "tight", recomputes=True),
    Case("resnet", (4,), "data"),
    Case("resnet", (4,), "sharded"),
    Case("resnet", (4,), "tensor"),
    Case("odd", (4,)),
    Case("odd", (4,), "tight"),
    Case("pixel_gate", (4,), "tight"),
    Case("mixture", (4,), "tight"),
    Case("unrolled", (4,), "sharded"),
    Case("centred", (4,), "tensor"),
    Case("biased", (4,), "tight"),
    # Two axes.
    Case("gpt2", (2, 2), "half"),
    Case("bert", (2, 2)),
    Case("vit", (2, 2), "tight"),
    Case("resnet", (2, 2), "tight", recomputes=True),
    Case("odd", (2, 2), "tight"),
    Case("centred", (2, 2), "tight"),
    # Three ranks: uneven rows and columns.
    Case("mlp", (3,)),
    Case("mlp", (3,), "sharded"),
    Case("gpt2", (3,), "tight", recomputes=True),
    Case("resnet", (3,), "tight", recomputes=True),
    # One rank: the plan of nothing to shard.
    Case("mlp", (1,)),
    Case("gpt2", (1,), "tight", recomputes=True),
    Case("resnet", (1,)),
    Case("resnet", (1,), "tight", recomputes=True),
]
SLOW = [
    Case("gpt2", (4,), "data", batch=4),
    Case("gpt2_vocabulary", (4,)),
    Case("bert", (4,)),
    Case("bert", (4,), "data", batch=4),
    Case("bert", (4,), "sharded", batch=4),
    Case("bert", (4,), "tensor"),
    Case("vit", (4,)),
    Case("vit", (4,), "data", batch=4),
    Case("vit", (4,), "sharded", batch=4),
    Case("resnet", (4,), "data", batch=8),
    Case("pixel_gate", (4,)),
    Case("mixture", (4,)),
    Case("unrolled", (4,)),
    Case("biased", (4,), "data"),
    Case("scan", (4,), "tight", recomputes=True),
    Case("gpt2", (3,), "sharded", batch=8),
    Case("resnet", (3,), "data", batch=8),
    Case("bert", (3,), "sharded", batch=6),
    Case("resnet", (3,), "tight", batch=8),
]


@functools.cache
def _plan(case: Case) -> Plan:
    return chain.plan(case)


@functools.cache
def _outcomes(slow: bool) -> dict[Case, list[str]]:
    """What went wrong in each case; the ranks are started once per mesh size."""
    outcomes: dict[Case, list[str]] = {}
    cases = SLOW if slow else CASES
    for size in sorted({case.size for case in cases}):
        work = []
        for case in cases:
            if case.size == size:
                try:
                    work.append((case, _plan(case).text))
                except Exception as error:
                    outcomes[case] = [f"no plan: {error}"]
        results = run_ranks(_run_all, size, work, timeout_s=420)
        outcomes |= dict(zip((case for case, _ in work), results[0], strict=True))
    return outcomes


def _run_all(rank: int, work: list[tuple[Case, str]]) -> list[list[str]]:
    captured: dict[Any, Any] = {}
    return [_run_one(case, Plan.from_text(text), captured) for case, text in work]


def _run_one(case: Case, plan: Plan, known: dict[Any, Any]) -> list[str]:
    from shardwright import api
    from shardwright.execute.run import RunOptions, run

    model, batch = chain.make(case.model, case.batch)
    key = (case.model, case.batch)
    if key not in known:
        known[key] = api.capture_for(plan, model)
    report = run(
        lambda: chain.make(case.model, case.batch)[0],
        batch,
        known[key],
        plan.data,
        chain.loss_of,
        RunOptions(steps=3, compare=True),
    )
    bad = [
        f"{check.name} {check.worst} ({check.where})"
        for check in report.checks
        if not check.passed
    ]
    if max(report.peak_bytes) < 0.9 * plan.peak_bytes:
        bad.append(f"predicted {plan.peak_bytes}, measured {report.peak_bytes}")
    return bad


@pytest.mark.parametrize("case", CASES, ids=str)
def test_equal_to_one_process(case: Case) -> None:
    _check(case, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("case", SLOW, ids=str)
def test_equal_to_one_process_slow(case: Case) -> None:
    _check(case, slow=True)


def _check(case: Case, *, slow: bool) -> None:
    outcome = _outcomes(slow)[case]
    assert not outcome
    if case.recomputes:
        assert any(region["recompute"] for region in _plan(case).data["regions"])


@pytest.mark.parametrize(
    ("model", "pair", "strategies"),
    [
        ("mlp", ("inner", "outer"), ("a -> out", "a -> in")),
        (
            "gpt2",
            ("transformer.h.0.mlp.c_fc", "transformer.h.0.mlp.c_proj"),
            ("a -> columns", "a -> inner"),
        ),
    ],
)
def test_pinned_tensor_parallel_is_the_pair(
    model: str, pair: tuple[str, str], strategies: tuple[str, str]
) -> None:
    data = _plan(Case(model, (4,), "tensor")).data
    for layer, strategy in zip(pair, strategies, strict=True):
        assert chain.strategies(data, layer) == [strategy]


def test_plans_are_derived_not_templates() -> None:
    """The Megatron pair comes out of factors and costs for a wide MLP."""
    import models
    import torch

    from shardwright import api

    model = models.Mlp(width=256, hidden=1024)
    batch = (torch.randn(16, 256), torch.randn(16, 256))
    plan = api.plan_graph(
        api.profile_graph(model, batch).graph_json, cluster="4 cpu", mesh=(4,)
    )
    assert chain.strategies(plan.data, "inner") == ["a -> out"]
    assert chain.strategies(plan.data, "outer") == ["a -> in"]
