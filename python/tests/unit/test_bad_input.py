"""Wrong input of every kind: one clear message, the right exit code, no traceback.

Most cases call the commands in this process, since importing torch takes
seconds; the program itself is tried in test_command_line.py.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import shardwright.api as sw
from shardwright.__main__ import main
from shardwright.config import Pin, memory_bytes
from shardwright.errors import (
    CaptureError,
    InfeasibleError,
    InvalidGraphError,
    InvalidPlanError,
    ShardwrightError,
    ShardwrightWarning,
    VersionMismatchError,
)
from shardwright.planfile import Plan

TARGETS = """
import torch
from torch import nn

def good():
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    return model, torch.randn(4, 8), lambda y: y.square().mean()

def other():
    return nn.Linear(8, 8), torch.randn(4, 8), lambda y: y.square().mean()

def nothing(): return None
def only_model(): return nn.Linear(4, 4)
def swapped(): return torch.randn(2, 4), nn.Linear(4, 4)
def loss_is_text(): return nn.Linear(4, 4), torch.randn(2, 4), "loss"
def raises(): raise RuntimeError("my own trouble")
def leaves(): raise SystemExit(7)
def takes_size(size): return size
number = 3

class Branch(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
    def forward(self, x):
        if x.sum() > 0:  # line of the branch
            x = -x
        return self.linear(x).sum()

def branch(): return Branch(), torch.randn(2, 4)

class Singular(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
    def forward(self, x):
        return torch.linalg.svd(self.linear(x))[1].sum()

def no_rule(): return Singular(), torch.randn(4, 4)
"""
BRANCH_LINE = 1 + TARGETS[: TARGETS.index("if x.sum()")].count("\n")

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """targets.py, and graph and plan of its `good` (on four) and `other`."""
    made = tmp_path_factory.mktemp("bad")
    (made / "targets.py").write_text(TARGETS)
    good = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    for name, model in (("good", good), ("other", nn.Linear(8, 8))):
        with torch.device("meta"):
            batch = torch.randn(4, 8)
        graph = sw.profile_graph(
            model.to("meta"), batch, loss=lambda y: y.square().mean()
        ).graph_json
        (made / f"{name}.graph.json").write_text(graph)
        plan = sw.plan_graph(graph, cluster="4 cpu", mesh=[4])
        plan.save(made / f"{name}.plan.json")
    return made


@pytest.fixture
def run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """Exit code, output and errors of a command in the folder."""
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RANK", raising=False)

    def run_command(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_command


def refused(answer: tuple[int, str, str], *expected: str, code: int = 2) -> None:
    """One line, "error: [part] ...", with all of `expected` in it."""
    got_code, output, errors = answer
    assert got_code == code, answer
    assert output == ""
    assert errors.startswith("error: ["), errors
    assert errors.count("\n") == 1, errors
    for text in expected:
        assert text in errors, errors


PLAN = ("plan", "good.graph.json", "--cluster", "4 cpu", "--quiet")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("missing.py:good", "missing.py does not exist"),
        ("targets.py", "expected file.py:function"),
        ("targets.py:", "expected file.py:function"),
        ("good.graph.json:good", "is no Python file"),
        ("targets.py:absent", "no function 'absent'. Try: one of branch, good"),
        ("targets.py:number", "no function 'number'"),
        ("targets.py:nothing", "expected (model, batch)"),
        ("targets.py:only_model", "got Linear"),
        ("targets.py:swapped", "got (Tensor, Linear)"),
        ("targets.py:loss_is_text", "got (Linear, Tensor, str)"),
        ("targets.py:raises", "RuntimeError: my own trouble"),
        ("targets.py:leaves", "SystemExit: 7"),
        ("targets.py:takes_size", "'size'"),
        ("targets.py:branch", f"targets.py:{BRANCH_LINE}"),
    ],
)
@pytest.mark.parametrize("command", ["profile", "plan"])
def test_targets(run: Run, command: str, target: str, expected: str) -> None:
    cluster = ("--cluster", "4 cpu") if command == "plan" else ()
    refused(run(command, target, *cluster), expected)


def test_target_whose_file_fails(run: Run, folder: Path) -> None:
    (folder / "syntax.py").write_text("def f(:\n")
    refused(run("profile", "syntax.py:f"), "SyntaxError", "line 1")
    (folder / "imports.py").write_text("\nimport no_such_package\n")
    refused(run("profile", "imports.py:f"), "no_such_package", "imports.py:2")


def test_target_finds_its_neighbours(run: Run, folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir(exist_ok=True)
    (inner / "neighbour_of_target.py").write_text("def absent_size(): return 3\n")
    (inner / "outer.py").write_text("from neighbour_of_target import absent_size\n")
    refused(run("profile", "inner/outer.py:good"), "no function 'good'")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--memory", "much"), "got 'much'"),
        (("--memory", "0"), "at least one byte"),
        (("--memory", "99999999999TiB"), "too large: expected fewer than 2^62"),
        (("--memory",), "--memory"),
        (("--mesh", "2x"), 'got "2x"'),
        (("--mesh", "99999999999999999999"), "mesh cannot be read"),
        (("--mesh", "3"), "expected a product of 4 devices, got 3"),
        (("--mesh", "0"), "got 0"),
        (("--axes", "dp"), "expected --mesh"),
        (("--mesh", "4", "--axes", ""), "'' is no axis name"),
        (("--mesh", "2x2", "--axes", "a,a"), "two axes are named 'a'"),
        (("--gap", "nan"), "at least 0, got 'nan'"),
        (("--gap", "-1"), "at least 0, got '-1'"),
        (("--time-limit", "0"), "above 0, got '0'"),
        (("--time-limit", "-1"), "above 0, got '-1'"),
        (("--time-limit", "soon"), "above 0, got 'soon'"),
        (("--seed", "-1"), "got '-1'"),
        (("--seed", "9" * 30), "whole number"),
        (("--optimizer", "best"), "unknown optimizer 'best'"),
        (("--nonsense",), "--nonsense"),
        (("--pin", "storage:*"), "KIND:TARGET=SPEC"),
        (("--pin", "colour:*=[a]"), "KIND:TARGET=SPEC"),
        (("--pin", "storage:=[a]"), "KIND:TARGET=SPEC"),
        (("--pin", "storage:absent.*=[a]"), "'absent.*' matches nothing"),
        (("--pin", "placement:absent=[a]"), "'absent' matches nothing"),
        (("--pin", "recompute:absent=true"), "'absent' matches nothing"),
        (("--pin", "recompute:*=maybe"), '"maybe"'),
        (("--pin", "storage:*=[z, ...]"), "'z' is no axis"),
        (("--pin", "storage:0.weight=[a"), "'[a' is no sharding"),
        (("--pin", "storage:0.weight=[a, a]"), "used twice"),
        (("--pin", "storage:0.weight=[a]"), "'0.weight' of shape [16, 8]"),
        (("--pin", "placement:0=[a]"), "the first has 2"),
        (("--pin", "placement:0=[a, -, ...,-]"), "the first has 2"),
        (("-o", ""), "expected the path of a file, got ''"),
    ],
)
def test_settings_of_plan(run: Run, arguments: tuple[str, ...], expected: str) -> None:
    refused(run(*PLAN, *arguments), expected)


class _MovingAverage(nn.Module):
    """Subtracts a moving average that it updates, or only updates it."""

    average: torch.Tensor

    def __init__(self, reads: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("average", torch.zeros(8))
        self.reads = reads

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.tanh(self.linear(x))
        self.average.lerp_(y.detach().mean(0), 0.1)
        return x + y - self.average if self.reads else x + y


@pytest.mark.parametrize("reads", [True, False])
def test_recompute_of_what_depends_on_changed_state(reads: bool) -> None:
    blocks = nn.Sequential(*(_MovingAverage(reads) for _ in range(3)))
    profiled = sw.profile_graph(blocks, torch.randn(4, 8), loss=torch.norm)
    graph = profiled.graph_json
    pins = (Pin("recompute", "*", "true"),)
    if reads:
        with pytest.raises(ShardwrightError, match="depends on a buffer"):
            sw.plan_graph(graph, cluster="1 cpu", mesh=(1,), pins=pins)
    else:
        plan = sw.plan_graph(graph, cluster="1 cpu", mesh=(1,), pins=pins)
        assert any(region["recompute"] for region in plan.data["regions"])


@pytest.mark.parametrize(
    "text", ["", "cpu", "4", "0 cpu", "-4 cpu", "4x cpu", "2x2x2 cpu", "4 cpu more"]
)
def test_cluster_texts(run: Run, text: str) -> None:
    answer = run("plan", "good.graph.json", "--cluster", text)
    refused(answer, "is no cluster", "a100-80g")


CLUSTER: dict[str, Any] = {
    "schema": "shardwright.cluster",
    "version": 1,
    "name": "bench",
    "device": {
        "name": "d",
        "type": "cpu",
        "memory_bytes": 10**10,
        "peak_flops": {"default": 1e11},
        "memory_bandwidth": 1e10,
        "launch_s": 1e-6,
    },
    "levels": [{"name": "host", "size": 4, "alpha_s": 1e-6, "beta_s_per_byte": 1e-10}],
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schema": "other"}, "'other'"),
        ({"version": 2}, "version 2"),
        ({"device": "abacus"}, "no preset 'abacus'"),
        ({"device": None}, "'device'"),
        ({"levels": []}, "level"),
        ({"levels": {}}, "'levels'"),
        ({"levels": [{"name": "host"}]}, "'size' is missing"),
        ({"levels.0.size": 0}, "'host'"),
        ({"levels.0.size": 2.5}, "'size'"),
        ({"levels.0.alpha_s": -1}, "-1"),
        ({"levels.0.alpha_s": "fast"}, "'alpha_s'"),
        ({"levels.0.beta_s_per_byte": 1e300}, "1e+300"),
        ({"device.memory_bytes": -1}, "memory_bytes"),
        ({"device.memory_bandwidth": 0}, "memory_bandwidth"),
        ({"device.launch_s": -1}, "launch_s"),
        ({"device.peak_flops": {"default": -1}}, "peak_flops.default"),
        ({"device.peak_flops": {}}, "'default'"),
        ({"device.type": "toaster"}, "toaster"),
        ({"level": 3}, "unknown field 'level'"),
        ({"device.memory": 3}, "unknown field 'memory'"),
        ({"levels.0.alpha": 3}, "unknown field 'alpha'"),
    ],
)
def test_cluster_files(
    run: Run, folder: Path, change: dict[str, Any], expected: str
) -> None:
    cluster = json.loads(json.dumps(CLUSTER))
    ((path, value),) = change.items()
    *parents, last = path.split(".")
    place = cluster
    for key in parents:
        place = place[int(key) if key.isdigit() else key]
    place[last] = value
    (folder / "cluster.json").write_text(json.dumps(cluster))
    refused(run("plan", "good.graph.json", "--cluster", "cluster.json"), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (json.dumps(CLUSTER).replace("1e-06", "NaN", 1), "not readable"),
        (json.dumps(CLUSTER).replace("1e-06", "1e400", 1), "not readable"),
        (json.dumps(CLUSTER)[:100], "not readable"),
        ("four fast ones", "not readable"),
        ("", "not readable"),
        ("[1]", "got array"),
    ],
)
def test_cluster_files_that_are_no_json(
    run: Run, folder: Path, text: str, expected: str
) -> None:
    (folder / "cluster.json").write_text(text)
    refused(run("plan", "good.graph.json", "--cluster", "cluster.json"), expected)


def test_missing_cluster_file(run: Run) -> None:
    refused(run("plan", "good.graph.json", "--cluster", "no.json"), "no.json")


def test_memory_too_small(run: Run) -> None:
    answer = run(*PLAN, "--mesh", "4", "--memory", "1KiB")
    refused(answer, "1.00 KiB", "smallest that works", "binds", "--memory", code=3)


def test_op_without_a_rule(run: Run) -> None:
    code, output, errors = run("plan", "targets.py:no_rule", "--cluster", "4 cpu")
    assert (code, errors) == (0, "")
    assert "warning: no sharding rule for aten.linalg_svd" in output
    code, output, errors = run(
        "plan", "targets.py:no_rule", "--cluster", "4 cpu", "--quiet"
    )
    assert (code, output) == (0, "")
    assert errors.startswith("warning: no sharding rule for aten.linalg_svd")


def damaged(text: str, **changes: Any) -> str:
    return json.dumps(json.loads(text) | changes)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda text: text[: len(text) // 2], "not readable"),
        (lambda text: "no plan", "not readable"),
        (lambda text: "[]", "got array"),
        (lambda text: damaged(text, plan_hash="0" * 64), "changed by hand or damaged"),
        (lambda text: damaged(text, steps=[]), "changed by hand or damaged"),
        (lambda text: damaged(text, version=2), "version 2, this build reads 1"),
        (lambda text: damaged(text, schema="other"), "'other'"),
        (lambda text: damaged(text, optimizer="best"), "'best'"),
    ],
)
def test_damaged_plans(
    run: Run, folder: Path, damage: Callable[[str], str], expected: str
) -> None:
    text = (folder / "good.plan.json").read_text()
    (folder / "damaged.json").write_text(damage(text))
    refused(run("run", "targets.py:good", "--plan", "damaged.json"), expected)


def test_plan_files_that_cannot_be_read(run: Run, folder: Path) -> None:
    refused(run("run", "targets.py:good", "--plan", "no.json"), "plan file no.json")
    refused(run("run", "targets.py:good", "--plan", "."), "directory")
    (folder / "binary.json").write_bytes(bytes(range(256)))
    refused(run("run", "targets.py:good", "--plan", "binary.json"), "UTF-8")
    refused(run("plan", "binary.json", "--cluster", "4 cpu"), "UTF-8")
    answer = run("plan", "good.graph.json", "--cluster", "binary.json")
    refused(answer, "not readable")


def test_damaged_plan_names_its_file(folder: Path) -> None:
    (folder / "half.json").write_text("{")
    with pytest.raises(ShardwrightError, match=r"half\.json") as caught:
        Plan.load(folder / "half.json")
    assert caught.value.code == "parse_error"


@pytest.mark.parametrize("arguments", [("--steps", "0"), ("--steps", "few"), ()])
def test_settings_of_run(run: Run, arguments: tuple[str, ...]) -> None:
    plan = ("--plan", "good.plan.json") if arguments else ()
    refused(run("run", "targets.py:good", *plan, *arguments), "--")


def with_events(text: str, way: str, *events: tuple[str, int]) -> str:
    """The graph with these events put in front of every record's."""
    graph = json.loads(text)
    for record in graph["records"]:
        if record["sizes"]:
            record[way] = [list(event) for event in events] + record[way]
    return json.dumps(graph)


def without_allocs(text: str) -> str:
    graph = json.loads(text)
    for record in graph["records"]:
        record["forward"] = [e for e in record["forward"] if e[0] != "alloc"]
    return json.dumps(graph)


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (lambda text: text[: len(text) // 2], "not readable"),
        (lambda text: with_events(text, "forward", ("free", 0)), "event 0 of forward"),
        (
            lambda text: with_events(text, "forward", ("alloc", 0), ("alloc", 0)),
            "event 1 of forward, alloc 0: expected a storage that is not made yet",
        ),
        (
            lambda text: with_events(text, "backward", ("free", 0)),
            "event 0 of backward, free 0",
        ),
        (without_allocs, "got one that is not made yet"),
        (lambda text: damaged(text, version=9), "version 9"),
        (lambda text: damaged(text, schema="other"), "'other'"),
        (lambda text: damaged(text, loss=999), "loss"),
        (lambda text: damaged(text, records=[]), "no profile record"),
        (lambda text: text.replace('"f": [0', '"f": [77'), "of the op's rule"),
        (lambda text: damaged(text, ops=None), "'ops' must be a list"),
        (lambda text: text.replace('"float32"', '"floaty"'), "'floaty'"),
    ],
)
def test_damaged_graphs(
    run: Run, folder: Path, damage: Callable[[str], str], expected: str
) -> None:
    text = (folder / "good.graph.json").read_text()
    (folder / "damaged.json").write_text(damage(text))
    answer = run("plan", "damaged.json", "--cluster", "4 cpu", "--mesh", "4")
    refused(answer, expected)
    refused(answer, "(graph file damaged.json)")


def test_only_the_graphs_errors_name_its_file(run: Run, folder: Path) -> None:
    (folder / "torn.cluster.json").write_text("{")
    answer = run("plan", "good.graph.json", "--cluster", "torn.cluster.json")
    refused(answer, "torn.cluster.json")
    assert "good.graph.json" not in answer[2]


def test_plan_file_instead_of_a_graph(run: Run) -> None:
    answer = run("plan", "good.plan.json", "--cluster", "4 cpu")
    refused(answer, "expected a shardwright.graph file")


# ---- where answers go -------------------------------------------------------


@pytest.mark.parametrize("output", ["absent/plan.json", ".", "absent/"])
def test_output_that_cannot_be_written(run: Run, folder: Path, output: str) -> None:
    before = sorted(folder.iterdir())
    refused(run(*PLAN, "-o", output), f"cannot write {output}")
    assert sorted(folder.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_output_folder_without_permission(run: Run, folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(exist_ok=True)
    closed.chmod(stat.S_IRUSR | stat.S_IXUSR)
    refused(run(*PLAN, "-o", "closed/plan.json"), "no permission")


def test_output_is_replaced_whole(run: Run, folder: Path) -> None:
    (folder / "old.json").write_text("old")
    (folder / "link.json").unlink(missing_ok=True)
    (folder / "link.json").symlink_to("old.json")
    assert run(*PLAN, "-o", "link.json")[0] == 0
    assert (folder / "link.json").is_symlink()
    assert Plan.load(folder / "old.json").data["graph_name"] == "Sequential"
    assert not list(folder.glob("*.part"))


def test_output_to_a_pipe_stays_a_pipe(run: Run, folder: Path) -> None:
    """As with devices: what is not a file is written to, never replaced."""
    pipe = folder / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert run(*PLAN, "-o", "pipe")[0] == 0
        assert stat.S_ISFIFO(pipe.stat().st_mode)
        assert os.read(reader, 1) == b"{"
    finally:
        os.close(reader)
        pipe.unlink()


# ---- the same from Python ---------------------------------------------------


def test_exceptions_of_the_api(folder: Path) -> None:
    graph = (folder / "good.graph.json").read_text()
    with pytest.raises(InfeasibleError, match="smallest that works"):
        sw.plan_graph(graph, cluster="4 cpu", mesh=[4], memory=1024)
    with pytest.raises(InvalidGraphError):
        sw.plan_graph(damaged(graph, loss=999), cluster="4 cpu")
    with pytest.raises(VersionMismatchError):
        sw.plan_graph(damaged(graph, version=9), cluster="4 cpu")
    plan = (folder / "good.plan.json").read_text()
    with pytest.raises(VersionMismatchError):
        Plan.from_text(damaged(plan, version=2))
    with pytest.raises(InvalidPlanError):
        Plan.from_text(damaged(plan, steps=[]))
    with pytest.raises(CaptureError):
        sw.plan(nn.Linear(4, 4), torch.randn(2, 4), cluster="4 cpu")


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"gap": float("nan")}, "gap"),
        ({"gap": "small"}, "gap"),
        ({"time_limit_s": 0}, "time_limit_s"),
        ({"seed": 1.5}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"memory": -1}, "memory"),
        ({"memory": float("inf")}, "memory"),
        ({"cluster": None}, "cluster"),
        ({"pins": ["storage:*=[a]"]}, "pin"),
    ],
)
def test_settings_of_the_api(
    folder: Path, options: dict[str, Any], expected: str
) -> None:
    graph = (folder / "good.graph.json").read_text()
    with pytest.raises(ShardwrightError, match=expected):
        sw.plan_graph(graph, **({"cluster": "4 cpu"} | options))


def test_what_is_no_model_or_loss() -> None:
    with pytest.raises(ShardwrightError, match=r"expected a torch\.nn\.Module"):
        sw.plan(torch.randn(2), torch.randn(2), cluster="4 cpu")  # type: ignore[arg-type]
    with pytest.raises(ShardwrightError, match="loss cannot be called"):
        sw.plan(nn.Linear(2, 2), torch.randn(2, 2), cluster="4 cpu", loss="x")  # type: ignore[arg-type]


def test_cluster_as_a_path_and_as_content(folder: Path) -> None:
    graph = (folder / "good.graph.json").read_text()
    file = folder / "right.json"
    file.write_text(json.dumps(CLUSTER))
    plans = [sw.plan_graph(graph, cluster=c, mesh=[4]) for c in (file, CLUSTER)]
    assert plans[0].plan_hash == plans[1].plan_hash


def test_missing_rule_warns() -> None:
    class Singular(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            values: torch.Tensor = torch.linalg.svd(self.linear(x))[1].sum()
            return values

    with pytest.warns(ShardwrightWarning, match=r"aten\.linalg_svd"):
        plan = sw.plan(Singular(), torch.randn(4, 4), cluster="4 cpu", mesh=[4])
    assert any("linalg_svd" in text for text in plan.warnings)


def test_plan_of_another_graph_or_without_a_batch(folder: Path) -> None:
    loss = lambda y: y.square().mean()  # noqa: E731
    plan = Plan.load(folder / "other.plan.json")
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    with pytest.raises(InvalidPlanError, match=r"another model.*Linear, got Seq"):
        sw.capture_for(plan, model, loss)
    with pytest.raises(InvalidPlanError, match="made for another graph"):
        sw.capture_for(plan, nn.Linear(8, 8, bias=False), loss)
    with pytest.raises(InvalidPlanError, match=r"batch.*input float32\[.*8\].*again"):
        sw.capture_for(plan, nn.Linear(3, 8), loss)
    for batch in ({}, {"form": "tensor", "tree": {"tuple": [{"tensor": {}}]}}):
        changed = Plan.from_text(damaged(plan.text, batch=batch))
        with pytest.raises(InvalidPlanError, match="batch"):
            sw.capture_for(changed, nn.Linear(8, 8), loss)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [("70GiB", 70 * 2**30), ("1.5 GB", 1_500_000_000), (1e9, 10**9), (12, 12)],
)
def test_memory_that_can_be_read(memory: str | float, expected: int) -> None:
    assert memory_bytes(memory) == expected


def test_pins_are_values() -> None:
    assert Pin("storage", "*", "[a]").to_json()["kind"] == "storage"
