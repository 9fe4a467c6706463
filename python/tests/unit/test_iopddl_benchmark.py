"""benchmarks/iopddl.py: its own reader, its sums, its variants, its verdicts."""

from __future__ import annotations

import importlib.util
import itertools
import json
import lzma
import os
import random
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = os.environ.get(
    "SHARDWRIGHT_PROGRAM", str(Path(sys.prefix) / "bin" / "shardwright")
)


def load() -> ModuleType:
    path = ROOT / "benchmarks" / "iopddl.py"
    spec = importlib.util.spec_from_file_location("iopddl", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["iopddl"] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


iopddl = load()


def make_instance(seed: int) -> Any:
    """Five nodes with up to three choices, a forbidden pair now and then."""
    rng = random.Random(seed)
    counts = [rng.randint(1, 3) for _ in range(5)]
    intervals = [(lo := rng.randrange(6), lo + rng.randrange(5)) for _ in counts]
    ends = [pair for pair in itertools.combinations(range(5), 2) if rng.random() < 0.6]
    return iopddl.Instance(
        name=f"random {seed}",
        intervals=intervals,
        costs=[[rng.randrange(50) for _ in range(count)] for count in counts],
        usages=[[rng.randrange(1, 20) for _ in range(count)] for count in counts],
        ends=ends,
        tables=[
            [
                10**18 if rng.random() < 0.1 else rng.randrange(50)
                for _ in range(counts[a] * counts[b])
            ]
            for a, b in ends
        ],
        limit=rng.randrange(15, 45),
    )


def optimum(instance: Any) -> int | None:
    best: int | None = None
    for choice in itertools.product(*(range(len(costs)) for costs in instance.costs)):
        counted = iopddl.count(instance, choice)
        if counted.feasible(instance.limit) and (best is None or counted.cost < best):
            best = counted.cost
    return best


def test_counts_by_hand() -> None:
    instance = iopddl.Instance(
        name="hand",
        intervals=[(0, 3), (2, 5), (4, 4)],
        costs=[[1, 2], [10], [100]],
        usages=[[5, 6], [7], [50]],
        ends=[(0, 1), (1, 2)],
        tables=[[1000, 10**18], [10000]],
        limit=12,
    )
    # Half-open intervals: the third node is never alive.
    assert iopddl.count(instance, [0, 0, 0]) == iopddl.Counted(11111, 12)
    assert iopddl.count(instance, [1, 0, 0]) == iopddl.Counted(None, 13)
    for choice in ([0, 0], [2, 0, 0]):
        with pytest.raises(ValueError, match="expected"):
            iopddl.count(instance, choice)


def test_variants_keep_the_optimum() -> None:
    feasible = 0
    for seed in range(40):
        instance = make_instance(seed)
        variant = iopddl.permuted(instance, seed + 1)
        before, after = optimum(instance), optimum(variant.instance)
        assert (before is None) == (after is None)
        if before is not None:
            feasible += 1
            assert after == 3 * before + variant.added
        choices = itertools.product(*(range(len(c)) for c in variant.instance.costs))
        for choice in itertools.islice(choices, 20):
            new = iopddl.count(variant.instance, choice)
            old = iopddl.count(instance, variant.original_choice(choice))
            assert new.peak == old.peak
            assert (new.cost is None) == (old.cost is None)
            assert old.cost is None or new.cost == 3 * old.cost + variant.added
    assert feasible > 10


def test_files_are_read_as_written(tmp_path: Path) -> None:
    instance = make_instance(3)
    iopddl.write_instance(instance, tmp_path / "plain.json")
    assert iopddl.read_instance(tmp_path / "plain.json") == instance
    packed = tmp_path / "packed.json.xz"
    packed.write_bytes(lzma.compress((tmp_path / "plain.json").read_bytes()))
    assert iopddl.read_instance(packed) == instance


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Instances X and Y where the benchmark looks for files."""
    for name, seed in (("X", 1), ("Y", 2)):
        plain = tmp_path / "plain.json"
        iopddl.write_instance(make_instance(seed), plain)
        path = tmp_path / f"asplos-2025-iopddl-{name}.json.xz"
        path.write_bytes(lzma.compress(plain.read_bytes()))
    return tmp_path


def test_runs_the_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--folder", str(folder), "--program", PROGRAM, "--time-limit", "20"]
    assert iopddl.main([*arguments, "--permute", "7", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert [result["instance"] for result in results] == ["X", "X/7", "Y", "Y/7"]
    assert [r["cost"] for r in results[::2]] == [
        optimum(make_instance(1)),
        optimum(make_instance(2)),
    ]
    assert iopddl.main([*arguments, "Y"]) == 0
    assert "X" not in capsys.readouterr().out.split()
    with pytest.raises(SystemExit, match="no instance Z"):
        iopddl.main([*arguments, "Z"])


def fake_program(folder: Path, answer: dict[str, Any]) -> str:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\n")
    path.chmod(0o755)
    return str(path)


def test_false_answers_are_found(folder: Path) -> None:
    instance = replace(make_instance(1), limit=1000)
    path = folder / "roomy.json"
    iopddl.write_instance(instance, path)
    arguments = (path, instance, 20.0, 0.0)
    true = iopddl.run(PROGRAM, *arguments)
    assert true.problems == []
    assert true.status == "optimal"
    peak = iopddl.count(instance, true.choice).peak
    answer = {
        "status": "optimal",
        "cost": true.cost,
        "bound": true.bound,
        "peak": peak,
        "choice": true.choice,
    }
    assert iopddl.run(fake_program(folder, answer), *arguments).problems == []
    for key in ("cost", "bound", "peak"):
        wrong = {**answer, key: answer[key] + 1}
        assert iopddl.run(fake_program(folder, wrong), *arguments).problems != []


def test_variants_that_disagree_are_found() -> None:
    instance = replace(make_instance(1), limit=1000)
    variant = iopddl.permuted(instance, 5)
    best = optimum(instance)
    assert best is not None
    choices = itertools.product(*(range(len(c)) for c in variant.instance.costs))
    mapped = 3 * best + variant.added
    choice = next(
        choice
        for choice in choices
        if iopddl.count(variant.instance, choice).cost == mapped
    )
    first = iopddl.Outcome("optimal", best, best, 0.1, 0.1, [], [])
    second = iopddl.Outcome("optimal", mapped, mapped, 0.1, 0.1, list(choice), [])
    assert iopddl.check_variant(variant, instance, first, second) == []
    worse = replace(first, cost=best + 1, bound=best + 1)
    assert iopddl.check_variant(variant, instance, worse, second) != []
    lost = replace(second, cost=None, bound=None, status="infeasible", choice=[])
    assert iopddl.check_variant(variant, instance, first, lost) != []
