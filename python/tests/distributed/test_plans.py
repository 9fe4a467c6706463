"""Planner-made plans as users meet them: names, checkpoints, dropout, quiet runs."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from shardwright import api
from shardwright.config import Pin
from shardwright.planfile import Plan
from tests.support import chain
from tests.support.chain import Case
from tests.support.ranks import run_ranks

MODELS = ("mlp", "gpt2", "resnet", "odd")


def _parallel(plan: Plan, name: str, batch: int | None = None) -> Any:
    return api.parallelize(chain.make(name, batch)[0], plan)


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    from shardwright.execute.parameters import whole_tensor

    return whole_tensor(tensor.detach())


# --- state_dict and checkpoints -----------------------------------------------


def test_names_are_the_models_and_checkpoints_move_between_plans(
    tmp_path: Path,
) -> None:
    """Saved under one plan, loaded under another: other storage, other mesh."""
    moves = []
    for name in MODELS:
        graph = chain.graph_of(name, None)
        pins = chain.storage_pins(json.loads(graph), 4)
        first = chain.plan_with(graph, (4,), pins)
        second = chain.plan_with(graph, (4,), ())
        moves.append((name, first.text, second.text))
    moves.append(
        (
            "mlp",
            chain.plan(Case("mlp", (4,), "tensor")).text,
            chain.plan(Case("mlp", (2, 2), "tensor")).text,
        )
    )
    for _, first_text, second_text in moves:
        assert _storage(first_text) != _storage(second_text)
    run_ranks(_move_all, 4, moves, str(tmp_path))


def _storage(text: str) -> list[Any]:
    data = Plan.from_text(text).data
    return [data["mesh"], data["parameters"]]


def _move_all(rank: int, moves: list[tuple[str, str, str]], folder: str) -> None:
    for number, (name, first, second) in enumerate(moves):
        _move(name, Plan.from_text(first), Plan.from_text(second), f"{folder}/{number}")


def _move(name: str, first: Plan, second: Plan, folder: str) -> None:
    import torch.distributed.checkpoint as dcp

    original = chain.make(name)[0]
    source = _parallel(first, name)
    assert list(source.state_dict()) == list(original.state_dict())
    assert [n for n, _ in source.named_parameters()] == [
        n for n, _ in original.named_parameters()
    ]
    batch = chain.make(name)[1]
    chain.loss_of(source, batch).backward()
    torch.optim.SGD(source.parameters(), lr=0.1).step()  # not the initial values
    dcp.save(source.state_dict(), checkpoint_id=folder)
    target = _parallel(second, name)
    state = target.state_dict()
    dcp.load(state, checkpoint_id=folder)
    target.load_state_dict(state)
    assert list(target.state_dict()) == list(original.state_dict())
    moved, initial = target.state_dict(), original.state_dict()
    for key, value in source.state_dict().items():
        assert torch.equal(_whole(value), _whole(moved[key])), key
    assert any(
        not torch.equal(_whole(moved[key]), initial[key])
        for key, _ in original.named_parameters()
    )
    dist.barrier()


# --- dropout ---------------------------------------------------------------------


def test_dropout_is_bit_equal_with_and_without_recompute() -> None:
    """Data parallel, so that masks differ between the ranks."""
    graph = chain.graph_of("gpt2_dropout", 4)
    pins = chain.data_pins(json.loads(graph))
    texts = []
    for again in ("true", "false"):
        region = Pin("recompute", "transformer.h.*", again)
        texts.append(chain.plan_with(graph, (4,), (*pins, region)).text)
    kept, again = (_recomputed(text) for text in reversed(texts))
    assert not kept
    assert len(again) == 2
    different = run_ranks(_bit_equal, 4, texts)
    assert different == [[]] * 4


def _recomputed(text: str) -> list[str]:
    regions = Plan.from_text(text).data["regions"]
    return [r["name"] for r in regions if r["recompute"] and ".h." in r["name"]]


def _bit_equal(rank: int, texts: list[str]) -> list[str]:
    """Names of what differs in two steps; the draws of the steps do differ."""
    seen = []
    for text in texts:
        model, batch = chain.make("gpt2_dropout", 4)
        parallel = api.parallelize(model, Plan.from_text(text))
        steps: list[dict[str, torch.Tensor]] = []
        for _ in range(2):
            loss = chain.loss_of(parallel, batch)
            loss.backward()
            gradients = {
                n: _whole(p.grad).clone()
                for n, p in parallel.named_parameters()
                if p.grad is not None
            }
            steps.append({"loss": loss.detach(), **gradients})
            parallel.zero_grad()
        assert not torch.equal(steps[0]["loss"], steps[1]["loss"])
        seen.append(steps)
    first, second = seen
    return [
        name
        for a, b in zip(first, second, strict=True)
        for name in a
        if not torch.equal(a[name], b[name])
    ]


# --- quiet -----------------------------------------------------------------------


def test_a_run_prints_nothing_of_its_libraries() -> None:
    """Neither the profiler's notes nor DTensor's warnings on two axes."""
    graph = chain.graph_of("mlp", None)
    pins = (Pin("storage", "inner.weight", "[a:b, -]"),)
    plan = chain.plan_with(graph, (2, 2), pins)
    assert run_ranks(_noise, 4, plan.text) == [""] * 4


def _noise(rank: int, text: str) -> str:
    """What a measured and compared run writes to this process's stderr."""
    import logging
    import os
    import tempfile

    from shardwright.execute.run import RunOptions, run

    plan = Plan.from_text(text)
    model, batch = chain.make("mlp")
    captured = api.capture_for(plan, model)
    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger("torch.distributed").addHandler(handler)
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            with contextlib.redirect_stderr(logged):
                run(
                    lambda: chain.make("mlp")[0],
                    batch,
                    captured,
                    plan.data,
                    chain.loss_of,
                    RunOptions(steps=2, compare=True),
                )
        finally:
            os.dup2(kept, 2)
        file.seek(0)
        return logged.getvalue() + file.read().decode()
