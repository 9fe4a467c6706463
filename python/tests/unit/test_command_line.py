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
        timeout=60,
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


def test_output_goes_to_the_file(tmp_path: Path) -> None:
    done = run("doctor", "--json", "-o", "report.json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "")
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["shardwright"] == shardwright.__version__


def test_quiet_prints_nothing() -> None:
    done = run("doctor", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_output_that_cannot_be_written(tmp_path: Path) -> None:
    done = run("doctor", "-o", str(tmp_path / "no" / "such" / "folder"))
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
        timeout=60,
    )
    assert done.returncode == 2
    assert "'nonsense' is not available" in done.stderr
