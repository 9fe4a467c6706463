"""The program `shardwright` as installed: exit codes, output, hand-over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import shardwright

PROGRAM = Path(sys.prefix) / "bin" / "shardwright"
ROOT = Path(__file__).resolve().parents[3]


def run(
    *arguments: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(PROGRAM), *arguments],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_version() -> None:
    done = run("--version")
    assert (done.returncode, done.stdout) == (0, f"{shardwright.__version__}\n")


def test_help_lists_the_commands() -> None:
    done = run("--help")
    assert done.returncode == 0
    for command in ("profile", "plan", "explain", "verify", "convert", "solve"):
        assert f"\n  {command} " in done.stdout
    assert "Examples:" in done.stdout


@pytest.mark.parametrize("arguments", [(), ("nonsense",), ("doctor", "--nonsense")])
def test_wrong_usage_is_the_users_fault(arguments: tuple[str, ...]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr != ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("nonsense",), "there is no command 'nonsense': expected one of profile, "),
        (("nonsense", "x", "--y"), "there is no command 'nonsense'"),
        (("doctor", "--nonsense"), "Try: shardwright doctor --help"),
        (("solve",), "FILE is required"),
        (("solve", "p.json", "--gap", "-1"), "at least 0, got '-1'"),
        (("solve", "p.json", "--gap", "nan"), "at least 0, got 'nan'"),
        (("solve", "p.json", "--time-limit", "0"), "above 0, got '0'"),
        (("solve", "absent.json"), "absent.json"),
        (("verify", "graph.json"), "PLAN is required"),
        (("verify", ".", "."), "it is a folder"),
        (("convert", "[a]", "[-]", "--shape", "x", "--cluster", "4 cpu"), "--shape"),
        (("run", "x.py:f", "--plan"), "Try: shardwright run --help"),
        (("plan", "x.py:f"), "--cluster"),
    ],
)
def test_wrong_usage_is_one_line(arguments: tuple[str, ...], expected: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: [")
    assert done.stderr.count("\n") == 1
    assert expected in done.stderr


def test_doctor_as_json() -> None:
    report = json.loads(run("doctor", "--json").stdout)
    assert report["shardwright"] == shardwright.__version__
    assert Path(report["program"]) == PROGRAM.resolve()
    assert report["python"]["found"] == "beside the program"
    assert report["python"]["package"]["core"] == shardwright.__version__
    assert report["python"]["torch"]["supported"] is True


def test_doctor_help_has_examples() -> None:
    done = run("doctor", "--help")
    assert done.returncode == 0
    assert "shardwright doctor --json" in done.stdout


# A command that needs no Python: doctor imports torch, which takes seconds.
CONVERT = ("convert", "[a]", "[-]", "--shape", "8", "--cluster", "4 cpu")


def test_output_goes_to_the_file(tmp_path: Path) -> None:
    done = run(*CONVERT, "--json", "-o", "answer.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert (answer["from"], answer["to"]) == ("[a]", "[-]")


def test_quiet_prints_nothing() -> None:
    assert run(*CONVERT).stdout != ""
    done = run(*CONVERT, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    done = run(*CONVERT, "-o", str(tmp_path / "no" / "such" / "folder"))
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")


def test_chosen_python_must_exist() -> None:
    done = run("run", "model.py:make", SHARDWRIGHT_PYTHON="/no/such/python")
    assert done.returncode == 2
    assert "$SHARDWRIGHT_PYTHON" in done.stderr
    report = json.loads(
        run("doctor", "--json", SHARDWRIGHT_PYTHON="/no/such/python").stdout
    )
    assert "/no/such/python" in report["python"]["error"]


def test_arguments_are_handed_over_as_they_are(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "[%s]" "$@"\nexit 3\n')
    python.chmod(0o755)
    done = run("run", "a b", "--json", "-h", "", SHARDWRIGHT_PYTHON=str(python))
    assert done.stdout == "[-m][shardwright][run][a b][--json][-h][]"
    assert done.returncode == 3


def test_module_refuses_what_it_does_not_have() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "shardwright", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 2
    assert "'nonsense' is not available" in done.stderr


def test_convert_gathers_a_split_tensor() -> None:
    done = run(
        "convert", "[a, -]", "[-, -]", "--shape", "8,16", "--cluster", "4 cpu", "--json"
    )
    assert done.returncode == 0
    answer = json.loads(done.stdout)
    (step,) = answer["steps"]
    assert (step["kind"], step["axis"], step["dim"]) == ("all_gather", "a", 0)
    assert step["bytes"] == 8 * 16 * 4
    assert answer["time_s"] == step["time_s"] > 0


@pytest.mark.parametrize(
    ("source", "shape", "cluster"),
    [
        ("[z, -]", "8,16", "4 cpu"),
        ("[a, -]", "8", "4 cpu"),
        ("[a, -]", "8,16", "4 abacus"),
    ],
)
def test_convert_refuses_what_does_not_fit(
    source: str, shape: str, cluster: str
) -> None:
    done = run("convert", source, "[-, -]", "--shape", shape, "--cluster", cluster)
    assert done.returncode == 2
    assert done.stderr.startswith("error: [")


def write_problem(folder: Path, limit: int) -> str:
    """A tensor of 4 bytes kept (8 ps) or recomputed (11 ps) around a big one."""
    problem = {
        "positions": 8,
        "limit": limit,
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
    path = folder / f"limit{limit}.json"
    path.write_text(json.dumps(problem))
    return str(path)


@pytest.mark.parametrize(("limit", "cost", "choice"), [(16, 8, 0), (15, 11, 1)])
def test_solve_small_problem(
    tmp_path: Path, limit: int, cost: int, choice: int
) -> None:
    done = run("solve", write_problem(tmp_path, limit), "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 0
    assert answer["status"] == "optimal"
    assert answer["cost"] == answer["bound"] == cost
    assert answer["choice"] == [choice, 0]


@pytest.mark.parametrize("schema", ["graph", "plan"])
def test_solve_says_what_it_was_given(tmp_path: Path, schema: str) -> None:
    path = tmp_path / "file.json"
    path.write_text(json.dumps({"schema": f"shardwright.{schema}", "version": 1}))
    done = run("solve", str(path))
    assert done.returncode == 2
    assert f'a file of schema "shardwright.{schema}"' in done.stderr


def test_solve_infeasible_problem(tmp_path: Path) -> None:
    done = run("solve", write_problem(tmp_path, 11), "--json")
    answer = json.loads(done.stdout)
    assert done.returncode == 3
    assert answer["status"] == "infeasible"
    assert answer["smallest_limit"] == answer["smallest_limit_bound"] == 12


@pytest.mark.parametrize("text", [None, "{", '{"schema": "other", "version": 1}'])
def test_plan_refuses_a_bad_graph(tmp_path: Path, text: str | None) -> None:
    graph = tmp_path / "graph.json"
    if text is not None:
        graph.write_text(text)
    done = run("plan", str(graph), "--cluster", "4 cpu")
    assert done.returncode == 2
    assert done.stderr.startswith("error: [")
    assert done.stdout == ""


def test_plan_refuses_a_malformed_pin(tmp_path: Path) -> None:
    done = run("plan", str(tmp_path / "g.json"), "--cluster", "4 cpu", "--pin", "x")
    assert done.returncode == 2
    assert "TARGET=SPEC" in done.stderr


def test_plan_of_a_model_is_handed_to_python(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    python.chmod(0o755)
    arguments = ("plan", "model.py:make", "--cluster", "4 cpu")
    done = run(*arguments, SHARDWRIGHT_PYTHON=str(python))
    assert done.stdout == "[-m][shardwright][plan][model.py:make][--cluster][4 cpu]"


def test_convert_on_two_axes() -> None:
    done = run(
        *("convert", "[-, -] partial{tp}", "[dp, tp]", "--shape", "32,32"),
        *("--cluster", "2x2 cpu", "--mesh", "2x2", "--axes", "dp,tp", "--json"),
    )
    answer = json.loads(done.stdout)
    kinds = sorted(step["kind"] for step in answer["steps"])
    assert kinds == ["reduce_scatter", "slice"]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Graph and plan of the example MLP on four CPU devices."""
    folder = tmp_path_factory.mktemp("planned")
    graph, plan = folder / "graph.json", folder / "plan.json"
    target = f"{ROOT / 'examples' / 'mlp.py'}:mlp"
    done = run("profile", target, "-o", str(graph), "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    done = run("plan", str(graph), "--cluster", "4 cpu", "-o", str(plan), "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    return graph, plan


def test_verify_accepts_the_plan(planned: tuple[Path, Path]) -> None:
    graph, plan = map(str, planned)
    done = run("verify", graph, plan, "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"], report["findings"]) == (0, True, [])
    predicted = json.loads(planned[1].read_text())["predicted"]["peak_bytes"]
    assert report["lowest_peak_bytes"] <= predicted <= report["peak_bytes"]


def test_verify_names_what_is_wrong(planned: tuple[Path, Path], tmp_path: Path) -> None:
    plan = json.loads(planned[1].read_text())
    plan["predicted"]["peak_bytes"] //= 2
    changed = tmp_path / "changed.json"
    changed.write_text(json.dumps(plan))
    done = run("verify", str(planned[0]), str(changed))
    assert done.returncode == 2
    assert "peak" in done.stdout + done.stderr


def test_explain_names_every_op(planned: tuple[Path, Path]) -> None:
    graph, plan = planned
    text = run("explain", str(graph), str(plan)).stdout
    for op in json.loads(graph.read_text())["ops"]:
        assert op["key"] in text


def test_explain_refuses_an_unknown_op(planned: tuple[Path, Path]) -> None:
    done = run("explain", *map(str, planned), "no.such.module")
    assert done.returncode == 2
    assert "no.such.module" in done.stderr
