"""`shardwright run`: train a target under a plan, measure, compare."""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from typing import Any

from shardwright import api
from shardwright.commands.options import CommandParser, seed, whole_above_0
from shardwright.commands.target import Target, load_target
from shardwright.errors import InvalidPlanError
from shardwright.planfile import Plan

__all__ = ["main"]

_EXAMPLES = """\
  torchrun --nproc-per-node 4 -m shardwright run train.py:step --plan plan.json
  shardwright run train.py:step --plan plan.json --steps 5 --compare
      (without torchrun: as many processes as the plan's mesh has, on this machine)
"""

_OPTIMIZERS = ("adamw", "adam", "sgd", "sgd-momentum")

# Allocated bytes may stay below the prediction by this part of it, and never
# exceed it.
_SLACK_BELOW = 0.10


def main(arguments: Sequence[str]) -> int:
    """Parses, runs on all ranks; 0 when every check passed, else 1."""
    parser = CommandParser(
        "run", "Train some steps under a plan; say what really happened.", _EXAMPLES
    )
    parser.add_argument("target", help="file.py:function")
    parser.add_argument("--plan", required=True, help="plan file")
    parser.add_argument("--steps", type=whole_above_0, default=3)
    parser.add_argument(
        "--compare", action="store_true", help="with one process, equal or exit code 1"
    )
    parser.add_argument("--seed", type=seed, default=0)
    parser.add_argument("--json", action="store_true", help="report as JSON")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    plan = Plan.load(options.plan)
    _check_optimizer(plan)
    load_target(options.target)  # a wrong target is found before processes start

    from shardwright.execute.launch import joined, launch, under_torchrun

    num_ranks = math.prod(axis["size"] for axis in plan.data["mesh"]["axes"])
    if under_torchrun():
        _check_world(num_ranks)
        with joined():
            return _on_rank(options, plan)
    codes = launch(_spawned, num_ranks, vars(options), plan.text)
    return int(max(codes))


def _spawned(rank: int, options: dict[str, Any], plan_text: str) -> int:
    return _on_rank(argparse.Namespace(**options), Plan.from_text(plan_text))


def _check_optimizer(plan: Plan) -> None:
    if plan.data["optimizer"] not in _OPTIMIZERS:
        raise InvalidPlanError(
            f"[cli] the plan's optimizer cannot be run: expected one of "
            f"{', '.join(_OPTIMIZERS)}, got '{plan.data['optimizer']}'. Try: plan again"
        )


def _check_world(num_ranks: int) -> None:
    """Before any rank waits for another."""
    world = os.environ["WORLD_SIZE"]
    if world != str(num_ranks):
        raise InvalidPlanError(
            f"[cli] wrong number of processes: the plan's mesh has {num_ranks}, "
            f"torchrun started {world}. Try: torchrun --nproc-per-node {num_ranks}, "
            "or plan for this number of devices"
        )


def _on_rank(options: argparse.Namespace, plan: Plan) -> int:
    import torch.distributed as dist

    from shardwright.capture import step_loss
    from shardwright.execute.run import RunOptions, check_same_plan, run

    check_same_plan(plan.data)  # before the minutes that capture may take
    target = load_target(options.target)
    step = target.build_real(options.seed)
    # From the real model: constants have values, devices are those of the run.
    captured = api.capture_for(plan, step.model, step.loss)
    report = run(
        lambda: _model_only(target, options.seed),
        step.batch,
        captured,
        plan.data,
        # The model's own loss, on one process, without any of our code.
        lambda model, batch: step_loss(model, batch, step.loss),
        RunOptions(
            steps=options.steps,
            optimizer=plan.data["optimizer"],
            compare=options.compare,
            seed=options.seed,
        ),
    )
    passed = report.passed and _memory_as_predicted(report)
    if dist.get_rank() == 0 and not options.quiet:
        _print_report(report, plan, options)
    return 0 if passed else 1


def _model_only(target: Target, seed: int) -> Any:
    return target.build_real(seed).model


def _memory_as_predicted(report: Any) -> bool:
    predicted = report.predicted_peak_bytes
    if not predicted or not any(report.peak_bytes):
        return True
    worst = max(report.peak_bytes)
    return bool((1 - _SLACK_BELOW) * predicted <= worst <= predicted)


def _print_report(report: Any, plan: Plan, options: argparse.Namespace) -> None:
    from shardwright.execute.report import report_lines

    if options.json:
        print(
            json.dumps(
                {
                    "losses": report.losses,
                    "peak_bytes": report.peak_bytes,
                    "predicted_peak_bytes": report.predicted_peak_bytes,
                    "checks": [vars(c) | {"passed": c.passed} for c in report.checks],
                    "passed": report.passed and _memory_as_predicted(report),
                },
                indent=1,
                default=float,
            )
        )
        return
    for line in report_lines(report):
        print(line)
    limit = plan.data["memory_limit_bytes"]
    if limit is not None:
        verdict = "ok  " if max(report.peak_bytes) <= limit else "FAIL"
        print(f"{verdict} memory limit: {max(report.peak_bytes)} of {limit} bytes")
    predicted = report.predicted_peak_bytes
    if predicted:
        worst = max(report.peak_bytes)
        verdict = "ok  " if _memory_as_predicted(report) else "FAIL"
        print(
            f"{verdict} prediction: {predicted} bytes, measured {worst} "
            f"({100 * (predicted / worst - 1):+.2f} %)"
        )
