"""Ranks that do not fit together: all stop with a message, none waits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import shardwright.api as sw
from shardwright.config import Pin
from shardwright.errors import InfeasibleError, InvalidPlanError
from shardwright.planfile import Plan
from tests.support.ranks import run_ranks

TARGET = """
import torch
from torch import nn

def good():
    return nn.Linear(8, 8), torch.randn(4, 8), lambda y: y.square().mean()
"""
# More than the start of the processes on a loaded machine, far less than a hang.
TIMEOUT_S = 120


def _loss(y: torch.Tensor) -> torch.Tensor:
    return y.square().mean()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plans whole.json and split.json on two devices, four.json on four."""
    made = tmp_path_factory.mktemp("ranks")
    (made / "target.py").write_text(TARGET)
    with torch.device("meta"):
        model, batch = nn.Linear(8, 8), torch.randn(4, 8)
    graph = sw.profile_graph(model, batch, loss=_loss).graph_json
    for name, num_devices, storage in (
        ("whole", 2, "[...]"),
        ("split", 2, "[a, ...]"),
        ("four", 4, "[...]"),
    ):
        pins = [Pin("storage", "*", storage)]
        sw.plan_graph(graph, cluster=f"{num_devices} cpu", pins=pins).save(
            made / f"{name}.json"
        )
    return made


def torchrun(folder: Path, plans: list[str]) -> subprocess.CompletedProcess[str]:
    """`shardwright run` on two ranks, each with its own plan file."""
    script = folder / "rank.sh"
    script.write_text(
        f"#!/bin/sh\nplans='{' '.join(plans)}'\nset -- $plans\nshift $RANK\n"
        f'exec {sys.executable} -m shardwright run target.py:good --plan "$1"\n'
    )
    script.chmod(0o755)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    return subprocess.run(
        [*command, "--no-python", str(script)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


@pytest.mark.parametrize(
    ("plans", "expected"),
    [
        (["whole.json", "split.json"], "ranks hold different plans"),
        (["whole.json", "absent.json"], "cannot read plan file absent.json"),
        (["four.json", "four.json"], "the plan's mesh has 4, torchrun started 2"),
    ],
)
def test_torchrun_stops_with_a_message(
    folder: Path, plans: list[str], expected: str
) -> None:
    done = torchrun(folder, plans)
    assert done.returncode != 0
    ours = [line for line in done.stderr.splitlines() if line.startswith("error: rank")]
    assert ours, done.stderr
    assert all(expected in line for line in ours), ours


def _different_plans(rank: int, whole: str, split: str) -> str:
    torch.manual_seed(0)
    plan = Plan.from_text(split if rank else whole)
    with pytest.raises(InvalidPlanError) as caught:
        sw.parallelize(nn.Linear(8, 8), plan, loss=_loss)
    return str(caught.value)


def _infeasible_everywhere(rank: int) -> str:
    with pytest.raises(InfeasibleError) as caught:
        sw.auto_parallelize(
            nn.Linear(8, 8), torch.randn(4, 8), memory=16, loss=_loss, mesh=[2]
        )
    return str(caught.value)


def _other_mesh_size(rank: int, four: str) -> str:
    with pytest.raises(InvalidPlanError) as caught:
        sw.parallelize(nn.Linear(8, 8), Plan.from_text(four), loss=_loss)
    return str(caught.value)


def _refusals(rank: int, whole: str, split: str, four: str) -> dict[str, Any]:
    return {
        "plans": _different_plans(rank, whole, split),
        "memory": _infeasible_everywhere(rank),
        "mesh": _other_mesh_size(rank, four),
    }


def test_every_rank_raises(folder: Path) -> None:
    texts = [(folder / f"{n}.json").read_text() for n in ("whole", "split", "four")]
    first, second = run_ranks(_refusals, 2, *texts)
    assert first == second
    assert "different plans" in first["plans"]
    assert "smallest that works" in first["memory"]
    assert "expected 4" in first["mesh"]
