"""`make demo`: a small GPT-2 planned under a tight limit, verified and trained on
four processes, and compared with one process.

1. Profiles one training step; nothing is run.
2. Shows that under the limit neither full replication nor any sharding without
   recompute fits (the latter by the planner's proof).
3. Plans, prints the plan.
4. Trains 5 AdamW steps on 4 gloo processes and on one; exits non-zero when
   losses, gradients, parameters, collectives or bytes are not as promised.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import shardwright.api as sw
from shardwright.commands.target import load_target
from shardwright.config import Pin
from shardwright.errors import InfeasibleError

_HERE = Path(__file__).parent
_TARGET = f"{_HERE / 'gpt2.py'}:small"
_LIMIT = 160 * 2**20
_WHERE = {"cluster": "4 cpu", "mesh": [4]}


def _show_that_it_is_tight(graph: str) -> None:
    everything_whole = (
        Pin("storage", "*", "[...]"),
        Pin("placement", "*", "[...]"),
    )
    replicated = sw.plan_graph(graph, pins=everything_whole, **_WHERE)  # type: ignore[arg-type]
    print(f"full replication needs {replicated.peak_bytes} bytes, limit {_LIMIT}")
    if replicated.peak_bytes <= _LIMIT:
        raise SystemExit("the limit is not tight: replication fits")
    try:
        sw.plan_graph(graph, memory=_LIMIT, recompute=False, **_WHERE)  # type: ignore[arg-type]
    except InfeasibleError as error:
        print(f"sharding without recompute: {error}\n")
        return
    raise SystemExit("the limit is not tight: sharding without recompute fits")


def main() -> int:
    """Runs the demo; 0 when everything is as promised."""
    step = load_target(_TARGET).build_meta()
    graph = sw.profile_graph(step.model, step.batch, progress=print).graph_json
    _show_that_it_is_tight(graph)
    plan = sw.plan_graph(graph, memory=_LIMIT, **_WHERE)  # type: ignore[arg-type]
    print(plan.summary(), flush=True)
    if not any(region["recompute"] for region in plan.data["regions"]):
        raise SystemExit("the plan recomputes nothing")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.json"
        plan.save(path)
        print("\ntraining 5 steps on 4 processes and on one", flush=True)
        command = [sys.executable, "-m", "shardwright", "run", _TARGET]
        command += ["--plan", str(path), "--steps", "5", "--compare"]
        code = subprocess.run(command, check=False).returncode
    print("demo: all as promised" if code == 0 else f"demo: FAILED ({code})")
    return code


if __name__ == "__main__":
    sys.exit(main())
