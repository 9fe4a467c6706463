"""The solver's answers against those of a MILP solver (HiGHS) on problems too
large for brute force, and counted again here from the problem as written."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import highspy
import pytest

ROOT = Path(__file__).resolve().parents[3]
# Built by `cmake --preset dev && cmake --build --preset dev`.
PROGRAM = ROOT / "build" / "dev" / "src" / "shardwright" / "solver" / "solver_slow_test"
LEAST_PROBLEMS = 300


@dataclass(frozen=True)
class Opinion:
    """What HiGHS says: no cost is below `bound`, and one is `cost` (infinite:
    none was found). Both are infinite where nothing is feasible."""

    bound: float
    cost: float


def _ask_highs(path: Path) -> Opinion:
    highs = highspy.Highs()
    highs.setOptionValue("output_flag", False)
    highs.setOptionValue("threads", 1)
    highs.setOptionValue("time_limit", 10.0)
    highs.setOptionValue("mip_rel_gap", 0.0)
    highs.setOptionValue("mip_abs_gap", 0.1)  # costs are whole numbers
    assert highs.readModel(str(path)) == highspy.HighsStatus.kOk, path
    highs.run()
    status = highs.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Opinion(math.inf, math.inf)
    info = highs.getInfo()
    value = info.objective_function_value
    if status == highspy.HighsModelStatus.kOptimal:
        assert abs(value - round(value)) < 1e-3, (path, value)
        return Opinion(round(value), round(value))
    assert status == highspy.HighsModelStatus.kTimeLimit, (path, status)
    return Opinion(info.mip_dual_bound - 1e-3, value + 1e-3)


def _cost_and_peak(problem: dict[str, Any], choice: list[int]) -> tuple[int, int]:
    taken = [
        node["choices"][k] for node, k in zip(problem["nodes"], choice, strict=True)
    ]
    cost = sum(item["cost"] for item in taken)  # None (infinite) cannot be added
    for edge in problem["edges"]:
        a, b = edge["nodes"]
        row = edge["row_class"][choice[a]]
        cost += edge["costs"][row][edge["col_class"][choice[b]]]
    alive = [0] * problem["positions"]
    for item in taken:
        for low, high, size in item["intervals"]:
            for position in range(low, high):
                alive[position] += size
    return cost, max(alive)


def _answers(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    assert PROGRAM.exists(), f"{PROGRAM} is missing. Try: cmake --build --preset dev"
    done = subprocess.run(
        [str(PROGRAM), "--gtest_filter=SecondOpinionTest.*"],
        env={**os.environ, "SHARDWRIGHT_SECOND_OPINION": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout
    for path in sorted(folder.glob("*.json"), key=lambda path: int(path.stem)):
        yield path.with_suffix(".mps"), json.loads(path.read_text())


@pytest.mark.slow
def test_highs_agrees(tmp_path: Path) -> None:
    optimal = infeasible = forbidding = binding = total = 0
    for model, answer in _answers(tmp_path):
        problem = answer["problem"]
        opinion = _ask_highs(model)
        total += 1
        forbidding += any(
            choice["cost"] is None
            for node in problem["nodes"]
            for choice in node["choices"]
        )
        if answer["status"] == "infeasible":
            assert opinion.cost == math.inf, model
            infeasible += 1
            continue
        # Proven by either, contradicted by none.
        assert answer["bound"] <= opinion.cost, model
        if not answer["choice"]:
            continue
        assert opinion.bound <= answer["cost"], model
        cost, peak = _cost_and_peak(problem, answer["choice"])
        assert cost == answer["cost"], model
        assert peak == answer["peak"] <= problem["limit"], model
        if answer["status"] == "optimal":
            assert answer["bound"] == cost, model
            optimal += 1
        binding += bool(answer["free_cost"] < cost)
    # The problems are what they are meant to be.
    assert total >= LEAST_PROBLEMS
    # About three in five are closed by the ticks given.
    assert optimal + infeasible > total // 2
    assert infeasible > 10
    assert forbidding > total // 4
    assert binding > total // 2
