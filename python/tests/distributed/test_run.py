"""The measured and compared run, its refusals, and moving checkpoints."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.tensor import DTensor

from shardwright.__main__ import main
from shardwright.capture import capture
from shardwright.errors import ShardwrightError, VersionMismatchError
from shardwright.execute import ParallelModule, make_mesh
from shardwright.execute.report import report_lines
from shardwright.execute.run import RunOptions, check_same_plan, run
from tests.support.hand_plan import HandPlan, collectives_of
from tests.support.ranks import run_ranks

WIDTH = 64


class Net(nn.Module):
    """Casts inside, as language models do: only widening makes float64 exact."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x, target):
        y = self.down(torch.relu(self.up(x)).float())
        return nn.functional.mse_loss(y.float(), target)


class Phases(nn.Module):
    """Names a complex dtype inside, which the comparison in float64 widens."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)
        self.turn = nn.Parameter(torch.randn(WIDTH, 4, dtype=torch.complex64))
        self.register_buffer("start", torch.ones(4, dtype=torch.complex64))

    def forward(self, x, target):
        y = self.up(x).to(torch.complex64) @ self.turn + self.start
        return (y.abs() - target[:, :4]).square().mean()


class Bits(nn.Module):
    """Reads the bits of float32 numbers: there are none in float64."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, target):
        y = self.up(x)
        positive = (y.detach().view(torch.int32) >= 0).float()
        return nn.functional.mse_loss(y * positive, target)


class Overwritten(nn.Module):
    """Changes what backward reads: torch refuses it on one process."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, target):
        y = self.up(x).relu()
        y[:, 0] = 0.0
        return nn.functional.mse_loss(y, target)


def _batch():
    torch.manual_seed(5)
    return torch.randn(6, WIDTH), torch.randn(6, WIDTH)


def _plan(captured, stored):
    hand = HandPlan(captured, {"a": 2})
    if stored:
        hand.storage.update({"up.weight": "S0", "down.weight": "S1", "down.bias": "S0"})
    for op in captured.graph["ops"]:
        sharded = {"linear": ["S0", "D", "D"], "mse_loss": ["S0", "S0"]}
        kind = op["key"].split(":")[1]
        if kind == "mse_loss":
            arguments = {"axes": ["a"], "global_count": 6 * WIDTH}
            hand.op(op["key"], sharded[kind], ["P"], "scaled_mean", arguments)
        else:
            hand.op(op["key"], sharded.get(kind, ["S0"]), ["S0"])
    plan = hand.build()
    plan["collectives"] = [
        {"kind": kind, "axis": axis, "bytes": num_bytes, "count": count}
        for (kind, axis, num_bytes), count in collectives_of(plan).items()
    ]
    return plan


def _other_dtypes_are_compared_or_not_in_words(rank, batch):
    options = RunOptions(steps=2, compare=True, measure=False)
    for make, passes in ((Phases, True), (Bits, False)):
        captured = capture(make(), batch)
        plan = HandPlan(captured, {"a": 2}).build()  # all replicated
        report = run(make, batch, captured, plan, lambda m, b: m(*b), options)
        lines = "\n".join(report_lines(report))
        assert report.passed == passes, lines
        if rank == 0 and passes:
            assert "float64 buffers" in lines
        if not passes:
            assert "FAIL float64: not compared, this model cannot be" in lines


def _a_model_that_fails_alone_is_refused(batch):
    captured = capture(Overwritten(), batch)
    plan = HandPlan(captured, {"a": 2}).build()
    options = RunOptions(steps=1, compare=True, measure=False)
    with pytest.raises(ShardwrightError, match="itself cannot be trained"):
        run(Overwritten, batch, captured, plan, lambda m, b: m(*b), options)


def _work(rank, folder):
    batch = _batch()
    captured = capture(Net(), batch)
    _report_tells_the_truth(rank, batch, captured)
    _rounding_of_one_process_is_allowed(rank, batch)
    _wrong_plan_is_found(rank, batch, captured)
    _other_dtypes_are_compared_or_not_in_words(rank, batch)
    _a_model_that_fails_alone_is_refused(batch)
    _different_plans_are_refused(rank, captured)
    _checkpoint_moves(rank, batch, captured, folder)


def _report_tells_the_truth(rank, batch, captured):
    plan = _plan(captured, stored=True)
    options = RunOptions(steps=3, optimizer="adamw", compare=True)
    report = run(Net, batch, captured, plan, lambda m, b: m(*b), options)
    assert report.passed, report_lines(report)
    if rank == 0:
        ordinary = report.checks[1]
        assert ordinary.limit == 1e-4
        assert 0 < ordinary.own_error < 1e-5
        names = [check.name for check in report.checks]
        assert names == [
            "float32 losses",
            "float32 gradients",
            "collectives not as planned",
            "float64 losses",
            "float64 gradients",
            "float64 parameters",
        ]
    # States by hand: two matrices halved, biases 128 whole and 64 halved, all
    # with two Adam copies and a 4-byte counter; the batch.
    parameters = 4 * (2 * 2 * WIDTH * WIDTH // 2 + 2 * WIDTH + WIDTH // 2)
    batch_bytes = sum(x.nbytes for x in batch)
    assert report.state_bytes == [3 * parameters + 4 * 4 + batch_bytes] * 2
    assert all(
        peak > state + parameters  # gradients at least
        for peak, state in zip(report.peak_bytes, report.state_bytes, strict=True)
    )


class Cancelling(nn.Module):
    """Its gradient in float32 is mostly rounding: a large one, taken back."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(WIDTH, WIDTH)

    def forward(self, x, target):
        y = self.up(x)
        return nn.functional.mse_loss((y * 1e4 + y) - y * 1e4, target)


def _rounding_of_one_process_is_allowed(rank, batch):
    """The limit in float32 follows what the reference itself is off by."""
    captured = capture(Cancelling(), batch)
    plan = HandPlan(captured, {"a": 2}).build()
    options = RunOptions(steps=1, compare=True, measure=False)
    report = run(Cancelling, batch, captured, plan, lambda m, b: m(*b), options)
    if rank == 0:
        checks = {check.name: check for check in report.checks}
        loose = checks["float32 gradients"]
        assert loose.own_error > 1e-4 / 4
        assert loose.limit == 4 * loose.own_error
        assert f"itself {loose.own_error:.3g} off" in "\n".join(report_lines(report))
        assert checks["float64 gradients"].limit == 1e-9
        assert checks["float64 gradients"].own_error is None


def _wrong_plan_is_found(rank, batch, captured):
    """A gradient that is not reduced must not pass."""
    plan = _plan(captured, stored=False)
    for step in plan["steps"]:
        if step.get("value") == "up.weight":
            step["backward"] = []
            step["to_grad"] = step["from_grad"]
    options = RunOptions(steps=1, optimizer="sgd", compare=True, measure=False)
    report = run(Net, batch, captured, plan, lambda m, b: m(*b), options)
    if rank == 0:
        failed = {check.name for check in report.checks if not check.passed}
        assert {"float32 gradients", "float64 parameters"} <= failed
        assert any(line.startswith("FAIL") for line in report_lines(report))


def _different_plans_are_refused(rank, captured):
    plan = _plan(captured, stored=bool(rank))
    with pytest.raises(VersionMismatchError, match="different plans"):
        check_same_plan(plan)


def _checkpoint_moves(rank, batch, captured, folder):
    """Saved under one plan, loaded under another, and as a plain state."""
    torch.manual_seed(11)
    model = Net()
    sharded_plan, plain_plan = _plan(captured, True), _plan(captured, False)
    mesh = make_mesh(sharded_plan)
    sharded = ParallelModule(model, captured, sharded_plan, mesh)
    dcp.save({"model": sharded.state_dict()}, checkpoint_id=folder)
    torch.manual_seed(12)
    other = ParallelModule(Net(), captured, plain_plan, mesh)
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    other.load_state_dict(state["model"])
    third = ParallelModule(Net(), captured, sharded_plan, mesh)
    third.load_state_dict(model.state_dict())
    for module in (other, third):
        for name, value in module.state_dict().items():
            assert isinstance(value, DTensor)
            assert torch.equal(value.full_tensor(), model.state_dict()[name]), name


def test_run():
    folder = tempfile.mkdtemp()
    try:
        run_ranks(_work, 2, str(Path(folder) / "checkpoint"))
    finally:
        shutil.rmtree(folder)


TARGET = """
import torch
from torch import nn

class Nearest(nn.Module):
    # Looks up the nearest row with gradients on, which nobody asks for.
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.rows = nn.Parameter(torch.randn(19, 6))

    def forward(self, x):
        z = self.linear(x)
        nearest = torch.cdist(z, self.rows).argmin(-1)
        loss = (z - self.rows[nearest]).square().mean()
        return {"loss": loss} if self.training else (loss, z)

def named(): return Nearest(), {"x": torch.randn(600, 6)}
def first(): return Nearest().eval(), {"x": torch.randn(600, 6)}
"""


@pytest.mark.parametrize("name", ["named", "first"])
def test_the_command_compares_and_predicts(tmp_path, name):
    target, plan = tmp_path / "target.py", str(tmp_path / "plan.json")
    target.write_text(TARGET)
    step = f"{target}:{name}"
    made = main(["plan", step, "--cluster", "1 cpu", "-o", plan, "--quiet"])
    assert made == 0
    assert main(["run", step, "--plan", plan, "--steps", "2", "--compare"]) == 0


def _fails_on_rank_one(rank):
    if rank == 1:
        raise ValueError("broken on purpose")
    torch.distributed.barrier()


def test_a_failure_on_one_rank_ends_all_with_its_message():
    with pytest.raises(ValueError, match="broken on purpose") as caught:
        run_ranks(_fails_on_rank_one, 2)
    assert "on rank 1" in caught.value.__notes__[0]
