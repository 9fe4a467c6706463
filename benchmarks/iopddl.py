"""Answers and times on the problems of the ASPLOS 2025 contest (google/iopddl).

    .venv/bin/python benchmarks/iopddl.py               all instances found
    .venv/bin/python benchmarks/iopddl.py A G --json    two of them, as JSON
    .venv/bin/python benchmarks/iopddl.py G --permute 1

Runs the program `shardwright` on each instance in a process of its own, with
the contest's time limit, and counts every answer again with the reader and the
sums of this file, which share nothing with the program.

--permute writes a variant of each instance: nodes, choices and edges in another
order, time reversed and stretched, costs times three, a constant added to all
choices of one node. Both are solved; the variant's answer is taken back and
must cost what the program said, and the two intervals from bound to cost must
agree.

Published numbers: the contest's time limit, the best cost of a contestant, the
best cost and the best bound known.
"""

import argparse
import json
import lzma
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

INFINITE = 10**18  # costs from here on forbid a choice or a pair
SCALE = 3  # of the costs of a variant
PATTERN = "asplos-2025-iopddl-{}.json.xz"


@dataclass(frozen=True)
class Published:
    limit_s: float
    contest_best: int
    best_cost: int
    best_bound: int


PUBLISHED = {
    "A": Published(60, 6548641531, 6548553659, 6548553659),
    "B": Published(60, 532843, 532843, 532843),
    "C": Published(60, 84102445260, 84102392584, 84102392584),
    "G": Published(120, 217039, 217039, 217039),
    "L": Published(180, 1970993742, 1970993742, 1963371967),
    "M": Published(180, 49928460991, 49928157500, 49429153686),
    "P": Published(240, 662197407330, 651833115436, 651833115436),
    "V": Published(300, 1632051, 1617084, 1617084),
}


@dataclass(frozen=True)
class Instance:
    """Lists as in the file; a table has a row per choice of the edge's first node."""

    name: str
    intervals: list[tuple[int, int]]
    costs: list[list[int]]
    usages: list[list[int]]
    ends: list[tuple[int, int]]
    tables: list[list[int]]
    limit: int


@dataclass(frozen=True)
class Counted:
    cost: int | None  # None: a choice or a pair that is forbidden
    peak: int

    def feasible(self, limit: int) -> bool:
        return self.cost is not None and self.peak <= limit


def read_instance(path: Path) -> Instance:
    """Reads a file of the benchmark, plain or xz."""
    stored = path.read_bytes()
    text = lzma.decompress(stored) if path.suffix == ".xz" else stored
    problem = json.loads(text)["problem"]
    nodes, edges = problem["nodes"], problem["edges"]
    return Instance(
        name=problem["name"],
        intervals=[(lo, hi) for lo, hi in nodes["intervals"]],
        costs=nodes["costs"],
        usages=nodes["usages"],
        ends=[(a, b) for a, b in edges["nodes"]],
        tables=edges["costs"],
        limit=problem["usage_limit"],
    )


def write_instance(instance: Instance, path: Path) -> None:
    """Writes a plain file of the benchmark."""
    nodes = {
        "intervals": instance.intervals,
        "costs": instance.costs,
        "usages": instance.usages,
    }
    edges = {"nodes": instance.ends, "costs": instance.tables}
    problem = {
        "name": instance.name,
        "nodes": nodes,
        "edges": edges,
        "usage_limit": instance.limit,
    }
    path.write_text(json.dumps({"problem": problem}))


def count(instance: Instance, choice: Sequence[int]) -> Counted:
    """Cost and peak of one choice per node."""
    if len(choice) != len(instance.costs):
        raise ValueError(f"expected {len(instance.costs)} choices, got {len(choice)}")
    parts = []
    change: dict[int, int] = {}
    for (lo, hi), costs, usages, k in zip(
        instance.intervals, instance.costs, instance.usages, choice, strict=True
    ):
        if not 0 <= k < len(costs):
            raise ValueError(f"expected a choice below {len(costs)}, got {k}")
        parts.append(costs[k])
        if lo < hi:
            change[lo] = change.get(lo, 0) + usages[k]
            change[hi] = change.get(hi, 0) - usages[k]
    for (a, b), table in zip(instance.ends, instance.tables, strict=True):
        parts.append(table[choice[a] * len(instance.costs[b]) + choice[b]])
    alive = accumulate(change[position] for position in sorted(change))
    forbidden = any(part >= INFINITE for part in parts)
    return Counted(None if forbidden else sum(parts), max(alive, default=0))


@dataclass(frozen=True)
class Variant:
    """An instance in disguise: its optimum is SCALE times the old one plus `added`."""

    instance: Instance
    node_of: list[int]  # of the old instance, by node of the new one
    choice_of: list[list[int]]  # likewise, per node of the new one
    added: int

    def original_choice(self, choice: Sequence[int]) -> list[int]:
        out = [0] * len(self.node_of)
        for new, k in enumerate(choice):
            out[self.node_of[new]] = self.choice_of[new][k]
        return out


def _scaled(cost: int, added: int = 0) -> int:
    return cost if cost >= INFINITE else SCALE * cost + added


def _new_times(instance: Instance, rng: random.Random) -> dict[int, int]:
    """Every time in use to a new one, the other way round and further apart."""
    used = sorted({time for interval in instance.intervals for time in interval})
    steps = accumulate(rng.randint(1, 3) for _ in used)
    return dict(zip(reversed(used), steps, strict=True))


def permuted(instance: Instance, seed: int) -> Variant:
    """The variant of a seed."""
    rng = random.Random(seed)
    node_of = list(range(len(instance.costs)))
    rng.shuffle(node_of)
    new_of = {old: new for new, old in enumerate(node_of)}
    choice_of = [list(range(len(instance.costs[old]))) for old in node_of]
    for order in choice_of:
        rng.shuffle(order)
    added_at = rng.randrange(len(node_of))
    added = rng.randint(1, 1000)
    times = _new_times(instance, rng)
    edges = list(range(len(instance.ends)))
    rng.shuffle(edges)
    ends, tables = [], []
    for edge in edges:
        a, b = instance.ends[edge]
        if rng.random() < 0.5:
            first, second = new_of[b], new_of[a]
        else:
            first, second = new_of[a], new_of[b]
        table, width = instance.tables[edge], len(instance.costs[b])
        swapped = first != new_of[a]
        ends.append((first, second))
        tables.append(
            [
                _scaled(table[m * width + k] if swapped else table[k * width + m])
                for k in choice_of[first]
                for m in choice_of[second]
            ]
        )
    variant = Instance(
        name=f"{instance.name}, permuted by {seed}",
        # What was [lo, hi) is alive from the new time of hi on.
        intervals=[
            (times[hi], times[lo])
            for lo, hi in (instance.intervals[old] for old in node_of)
        ],
        costs=[
            [
                _scaled(instance.costs[old][k], added if new == added_at else 0)
                for k in choice_of[new]
            ]
            for new, old in enumerate(node_of)
        ],
        usages=[
            [instance.usages[old][k] for k in choice_of[new]]
            for new, old in enumerate(node_of)
        ],
        ends=ends,
        tables=tables,
        limit=instance.limit,
    )
    return Variant(variant, node_of, choice_of, added)


@dataclass(frozen=True)
class Outcome:
    """What the program said, and what of it is true."""

    status: str
    cost: int | None
    bound: int | None
    seconds_to_cost: float | None
    seconds: float  # of the whole process
    choice: list[int]
    problems: list[str]  # empty when everything holds


def _disagreements(instance: Instance, answer: dict[str, Any]) -> list[str]:
    if "choice" not in answer:
        return []
    counted = count(instance, answer["choice"])
    out = []
    if not counted.feasible(instance.limit):
        out.append(f"not feasible: peak {counted.peak}, limit {instance.limit}")
    if counted.cost != answer["cost"]:
        out.append(f"cost {answer['cost']} is {counted.cost}")
    if counted.peak != answer["peak"]:
        out.append(f"peak {answer['peak']} is {counted.peak}")
    if answer["bound"] is not None and answer["bound"] > answer["cost"]:
        out.append(f"bound {answer['bound']} is above the cost")
    return out


def run(
    program: str, path: Path, instance: Instance, limit_s: float, gap: float
) -> Outcome:
    """Solves a file in a process of its own and counts the answer again."""
    command = [
        *(program, "solve", str(path), "--json", "--quiet"),
        *("--time-limit", str(limit_s), "--gap", str(gap)),
    ]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in {0, 3}:
        problem = done.stderr.strip() or f"exit code {done.returncode}"
        return Outcome("failed", None, None, None, seconds, [], [problem])
    answer = json.loads(done.stdout)
    problems = _disagreements(instance, answer)
    if seconds > limit_s + 1:
        problems.append(f"{seconds - limit_s:.1f} s over the time limit")
    return Outcome(
        status=answer["status"],
        cost=answer.get("cost"),
        bound=answer.get("bound"),
        seconds_to_cost=answer.get("found_seconds"),
        seconds=seconds,
        choice=answer.get("choice", []),
        problems=problems,
    )


def _interval(outcome: Outcome) -> tuple[int | None, int | None]:
    """The least and the greatest that the optimum can be; None: not known."""
    if outcome.status == "infeasible":
        return INFINITE, None
    return outcome.bound, outcome.cost


def check_variant(
    variant: Variant, original: Instance, first: Outcome, second: Outcome
) -> list[str]:
    """What of the variant's outcome does not fit the original's."""
    out = list(second.problems)
    if second.cost is not None:
        back = count(original, variant.original_choice(second.choice))
        if back.cost is None or SCALE * back.cost + variant.added != second.cost:
            out.append(f"taken back, cost {second.cost} is {back.cost}")
        if back.peak > original.limit:
            out.append("taken back, the choice breaks the limit")
    (low, high), (low_2, high_2) = _interval(first), _interval(second)
    if low is not None and high_2 is not None and _mapped(variant, low) > high_2:
        out.append(f"the variant's cost {high_2} is below the bound {low}")
    if high is not None and low_2 is not None and low_2 > _mapped(variant, high):
        out.append(f"the variant's bound {low_2} is above the cost {high}")
    if (
        first.cost is not None
        and first.cost == first.bound
        and second.cost is not None
        and second.cost == second.bound
        and second.cost != _mapped(variant, first.cost)
    ):
        out.append(f"the optimum {first.cost} became {second.cost}")
    return out


def _mapped(variant: Variant, value: int) -> int:
    return SCALE * value + variant.added


def _result(name: str, instance: Instance, outcome: Outcome) -> dict[str, Any]:
    published = PUBLISHED.get(name)
    cost, bound = outcome.cost, outcome.bound
    gap = None if cost is None or bound is None else (cost - bound) / max(abs(cost), 1)
    result: dict[str, Any] = {
        "instance": name,
        "nodes": len(instance.costs),
        "status": outcome.status,
        "cost": cost,
        "bound": bound,
        "gap": gap,
        "seconds_to_cost": outcome.seconds_to_cost,
        "seconds": outcome.seconds,
        "problems": outcome.problems,
    }
    if published is not None:
        result["contest_best"] = published.contest_best
        result["best_cost"] = published.best_cost
        result["best_bound"] = published.best_bound
        result["ratio"] = None if cost is None else cost / published.best_cost
    return result


COLUMNS = {
    "instance": "{}",
    "nodes": "{:,}",
    "cost": "{}",
    "bound": "{}",
    "gap": "{:.2e}",
    "seconds_to_cost": "{:.1f}",
    "seconds": "{:.1f}",
    "contest_best": "{}",
    "best_cost": "{}",
    "best_bound": "{}",
    "ratio": "{:.6f}",
}


def _cells(result: dict[str, Any]) -> list[str]:
    values = ((result.get(key), form) for key, form in COLUMNS.items())
    return ["-" if value is None else form.format(value) for value, form in values]


def measure(options: argparse.Namespace, path: Path, name: str) -> list[dict[str, Any]]:
    """One instance, and its variant if one is wanted."""
    limit_s = options.time_limit
    if limit_s is None:
        limit_s = PUBLISHED[name].limit_s if name in PUBLISHED else 60.0
    instance = read_instance(path)
    first = run(options.program, path, instance, limit_s, options.gap)
    results = [_result(name, instance, first)]
    if options.permute is None:
        return results
    variant = permuted(instance, options.permute)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "variant.json"
        write_instance(variant.instance, file)
        second = run(options.program, file, variant.instance, limit_s, options.gap)
    result = _result(f"{name}/{options.permute}", variant.instance, second)
    result["problems"] = check_variant(variant, instance, first, second)
    return [*results, result]


def _program() -> str:
    """Beside this Python, else on the PATH."""
    beside = Path(sys.prefix) / "bin" / "shardwright"
    return str(beside) if beside.exists() else shutil.which("shardwright") or ""


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    shared = os.environ.get("SHARDWRIGHT_SHARED", "shared")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help="instances (default: all found)")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path(shared) / "data" / "iopddl",
        help="where the files are (default: $SHARDWRIGHT_SHARED/data/iopddl)",
    )
    parser.add_argument("--program", default=_program(), help="shardwright to run")
    parser.add_argument("--permute", type=int, metavar="SEED")
    parser.add_argument("--time-limit", type=float, metavar="S")
    parser.add_argument("--gap", type=float, default=0.0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    if shutil.which(options.program) is None:
        parser.error(f"no program '{options.program}'. Try: --program PATH")
    return options


def _files(options: argparse.Namespace) -> dict[str, Path]:
    """By name; exits when a wanted one is not there."""
    before, after = PATTERN.split("{}")
    found = {
        path.name.removeprefix(before).removesuffix(after): path
        for path in sorted(options.folder.glob(PATTERN.format("*")))
    }
    missing = [name for name in options.names if name not in found]
    if missing or not found:
        sys.exit(
            f"no instance {', '.join(missing) or PATTERN.format('*')} in "
            f"{options.folder}. Try: --folder PATH"
        )
    return {name: found[name] for name in options.names or found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints one row per instance; 1 when an answer is wrong or late."""
    options = _options(arguments)
    progress = Console(stderr=True)
    results = []
    for name, path in _files(options).items():
        for result in measure(options, path, name):
            results.append(result)
            progress.print(" ".join(_cells(result)), highlight=False)
    if options.json:
        print(json.dumps(results, indent=2))
    else:
        table = Table(title=f"iopddl, gap {options.gap:g}")
        for column in COLUMNS:
            table.add_column(column.replace("_", " "), justify="right")
        for result in results:
            table.add_row(*_cells(result))
        Console(width=170).print(table)
    problems = [(r["instance"], text) for r in results for text in r["problems"]]
    for name, text in problems:
        progress.print(f"{name}: {text}", highlight=False)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
