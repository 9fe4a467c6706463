"""`shardwright solve` as installed: inputs, answers, checks, curves, progress."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# Another build of the program than the installed one can be tested too.
PROGRAM = os.environ.get(
    "SHARDWRIGHT_PROGRAM", str(Path(sys.prefix) / "bin" / "shardwright")
)

# A tensor of 4 bytes kept (8 ps) or recomputed (11 ps) around a big one.
TENSOR: dict[str, Any] = {
    "positions": 8,
    "limit": 15,
    "nodes": [
        {
            "name": "tensor",
            "choices": [
                {"cost": 8, "intervals": [[0, 7, 4]]},
                {"cost": 11, "intervals": [[0, 2, 4], [4, 7, 4]]},
            ],
        },
        {"name": "big", "choices": [{"cost": 0, "intervals": [[3, 4, 12]]}]},
    ],
    "edges": [],
}
# The cheaper choices of the first two nodes do not fit together.
CONTEST: dict[str, Any] = {
    "problem": {
        "name": "small",
        "nodes": {
            "intervals": [[0, 4], [2, 6], [5, 6]],
            "costs": [[1, 5], [2, 7], [3]],
            "usages": [[6, 1], [6, 2], [1]],
        },
        "edges": {"nodes": [[0, 1]], "costs": [[0, 1, 1, 0]]},
        "usage_limit": 8,
    }
}


def solve(
    *arguments: str, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, "solve", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture
def tensor(tmp_path: Path) -> str:
    path = tmp_path / "tensor.json"
    path.write_text(json.dumps(TENSOR))
    return str(path)


@pytest.fixture
def contest(tmp_path: Path) -> str:
    path = tmp_path / "contest.json"
    path.write_text(json.dumps(CONTEST))
    return str(path)


def wide_problem(num_nodes: int, choices: int) -> str:
    """A problem of the benchmark that takes a while: dense, with a tight limit."""
    rng = random.Random(1)
    edges = [(a, b) for a in range(num_nodes) for b in range(a)]
    size = range(choices)
    nodes = {
        "intervals": [[n, n + num_nodes // 2] for n in range(num_nodes)],
        "costs": [[rng.randrange(1000) for _ in size] for _ in range(num_nodes)],
        "usages": [[rng.randrange(1, 90) for _ in size] for _ in range(num_nodes)],
    }
    tables = [[rng.randrange(1000) for _ in range(choices**2)] for _ in edges]
    problem = {
        "name": "wide",
        "nodes": nodes,
        "edges": {"nodes": edges, "costs": tables},
        "usage_limit": 15 * num_nodes,
    }
    return json.dumps({"problem": problem})


def test_answer_says_where_memory_binds(tensor: str) -> None:
    answer = json.loads(solve(tensor, "--json").stdout)
    assert answer["profile"] == {"peak": 12, "within": 0.001, "ranges": [[3, 4]]}
    assert answer["choice"] == [1, 0]
    assert 0 <= answer["found_seconds"] <= answer["seconds"] < 60


def test_output_file_is_what_is_printed(tensor: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    assert solve(tensor, "--json", "-o", str(path)).stdout == ""
    written = json.loads(path.read_text())
    printed = json.loads(solve(tensor, "--json").stdout)
    assert list(written) == list(printed)
    timed = {"seconds", "found_seconds"}
    assert all(written[key] == printed[key] for key in set(written) - timed)
    assert json.loads(solve(tensor, "--format", "json").stdout)["cost"] == 11


def test_limit_replaces_that_of_the_file(tensor: str) -> None:
    assert json.loads(solve(tensor, "--limit", "16", "--json").stdout)["cost"] == 8
    done = solve(tensor, "--limit", "11", "--json")
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["status"]) == (3, "infeasible")
    assert answer["smallest_limit"] == answer["smallest_limit_bound"] == 12
    assert answer["binding_position"] == 3
    assert answer["alive"] == {
        "num_nodes": 1,
        "least_bytes": 12,
        "nodes": [{"node": 1, "name": "big", "least_bytes": 12}],
    }
    text = solve(tensor, "--limit", "11").stdout
    assert "node 1 big" in text
    assert "smallest feasible limit 12" in text


@pytest.mark.parametrize("pack", [str.encode, gzip.compress, lzma.compress])
def test_contest_files_give_bare_lists(tmp_path: Path, pack: Any) -> None:
    path = tmp_path / "contest"
    text = json.dumps(CONTEST)
    path.write_bytes(pack(text) if pack is str.encode else pack(text.encode()))
    done = solve(str(path), "--gap", "0", "--format", "contest", "--quiet")
    # Keeping both needs 12 bytes; the second small one costs 2 + 1 less.
    assert (done.returncode, done.stdout, done.stderr) == (0, "[1, 0, 0]\n", "")


def test_contest_format_without_a_solution(contest: str) -> None:
    done = solve(contest, "--limit", "1", "--format", "contest", "--quiet")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: [cli] no solution")


def test_standard_input() -> None:
    done = solve("-", "--json", given=json.dumps(TENSOR))
    assert json.loads(done.stdout)["cost"] == 11


def test_progress_is_a_table_on_standard_error(tensor: str) -> None:
    lines = solve(tensor).stderr.splitlines()
    assert lines[0].split() == ["time", "cost", "bound", "gap", "technique"]
    last = lines[-1].split()
    assert (last[1], last[2], float(last[3]), last[4]) == ("11", "11", 0, "optimal")
    assert solve(tensor, "--quiet").stderr == ""


def test_time_limit_counts_from_the_start_of_the_program() -> None:
    given = wide_problem(num_nodes=60, choices=12)
    start = time.monotonic()
    done = solve("-", "--time-limit", "2", "--gap", "0", "--json", given=given)
    seconds = time.monotonic() - start
    answer = json.loads(done.stdout)
    assert seconds < 3
    assert answer["seconds"] < 3
    assert answer["techniques"][-1] == "stopped by time"


def test_time_limit_holds_while_reading() -> None:
    read, write = os.pipe()
    with subprocess.Popen(
        [PROGRAM, "solve", "-", "--time-limit", "0.1"],
        stdin=read,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(read)
        os.write(write, b'{"positions": 8,' + b" " * 10000)
        time.sleep(0.5)
        os.write(write, b" " * 10)
        os.close(write)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert "reading took longer than the time limit" in errors


def check(problem: str, solution: Any) -> subprocess.CompletedProcess[str]:
    return solve(problem, "--check", "-", "--json", given=json.dumps(solution))


def test_check_accepts_answers_and_lists(tensor: str, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    solve(tensor, "--json", "-o", str(path))
    done = solve(tensor, "--check", str(path))
    assert done.returncode == 0
    assert "feasible\nclaim  cost 11 holds\n" in done.stdout
    done = check(tensor, [1, 0])
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["claims"]) == (0, True, [])
    assert (report["cost"], report["peak"], report["peak_position"]) == (11, 12, 3)


@pytest.mark.parametrize(
    ("solution", "feasible"),
    [
        ([0, 0], False),  # a peak of 16
        ({"choice": [1, 0], "cost": 10}, True),
        ({"choice": [1, 0], "bound": 12}, True),
        ({"choice": [1, 0], "peak": 11}, True),
    ],
)
def test_check_finds_what_is_wrong(tensor: str, solution: Any, feasible: bool) -> None:
    done = check(tensor, solution)
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["feasible"]) == (2, False, feasible)
    assert all(not claim["holds"] for claim in report["claims"])


@pytest.mark.parametrize(
    ("solution", "expected"),
    [
        ([1], "one choice per node: 2, got 1"),
        ([1, 1], "below 1, got 1 (node 1)"),
        ([-1, 0], "got -1 (node 0)"),
        ([1, 0.0], "(node 1)"),
        ("[1, 0]", "got string"),
        ({"status": "unknown"}, "without 'choice'"),
        ({"choice": [1, 0], "cost": None, "bound": "x"}, "'bound'"),
    ],
)
def test_check_refuses_other_files(tensor: str, solution: Any, expected: str) -> None:
    done = check(tensor, solution)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: [")
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr


def test_curve(tensor: str) -> None:
    done = solve(tensor, "--curve", "2", "--gap", "0", "--json")
    curve = json.loads(done.stdout)
    assert done.returncode == 0
    assert [point["limit"] for point in curve["points"]] == [12, 14, None]
    assert [point["cost"] for point in curve["points"]] == [11, 11, 8]
    lines = solve(tensor, "--curve", "--quiet", "--limit", "3", "--json")
    assert len(json.loads(lines.stdout)["points"]) == 5  # 12, 13, 14, 15, none
    table = solve(tensor, "--curve", "2")
    assert table.stdout.split()[:6] == [
        "limit",
        "cost",
        "bound",
        "gap",
        "seconds",
        "status",
    ]
    assert len(table.stdout.splitlines()) == 4
    assert "limit 14" in table.stderr


def test_mps_for_a_second_opinion(contest: str, tmp_path: Path) -> None:
    highspy = pytest.importorskip("highspy")
    path = tmp_path / "problem.mps"
    assert solve(contest, "--mps", str(path)).returncode == 0
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.readModel(str(path))
    solver.run()
    answer = json.loads(solve(contest, "--gap", "0", "--json").stdout)
    assert solver.getInfo().objective_function_value == pytest.approx(answer["cost"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--limit", "-1"), "at least 0"),
        (("--limit", "9223372036854775807"), "limit is out of range"),
        (("--curve", "0"), "at least 1"),
        (("--curve", "2", "--check", "x"), "--check"),
        (("--format", "xml"), "xml"),
        (("--check", "absent.json"), "absent.json"),
    ],
)
def test_wrong_usage_is_one_line(
    tensor: str, arguments: tuple[str, ...], expected: str
) -> None:
    done = solve(tensor, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: [")
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr
