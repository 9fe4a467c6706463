"""A training run under a plan, measured and compared: `shardwright run`.

Every rank calls `run(...)` with the same arguments. It trains some steps, and
reports what really happened beside what the plan says: collectives issued,
bytes allocated at the peak of a step, and, when asked, whether losses,
gradients and parameters equal those of one process (definition: docs, "equal").
"""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from shardwright.errors import InvalidPlanError, ShardwrightError, VersionMismatchError
from shardwright.execute.generate import CapturedProgram
from shardwright.execute.memory import storage_bytes, watch
from shardwright.execute.parameters import ParallelModule, make_mesh, whole_tensor
from shardwright.execute.reference import (
    Trained,
    WidenedProgram,
    array,
    double_by_default,
    model_in_double,
    norm,
    relative_error,
    to_double,
    train,
)
from shardwright.runtime import recorder

__all__ = ["Check", "RunOptions", "RunReport", "check_same_plan", "plan_hash", "run"]

# DESIGN "equal": relative errors that two right programs stay below.
_FLOAT64 = 1e-9
_OWN_LIMITS = {torch.float32: (1e-5, 1e-4), torch.float64: (_FLOAT64, _FLOAT64)}
# ... or, in float32, this many times what rounding alone makes of the reference:
# its own error against the same model in float64. Deep nets with batch
# normalization come near the fixed limit on one process already.
_OWN_ERRORS = 4.0
# In half precision two right programs differ by a few roundings of their
# numbers; that they are equal is what the check in float64 says.
_ROUNDINGS = (4.0, 16.0)
# A gradient counts with at least this part of the largest one's norm.
_GRADIENT_FLOOR = 1e-3


@dataclass(frozen=True)
class RunOptions:
    """`optimizer`: adamw, adam, sgd or sgd-momentum. `compare`: with one process
    on rank 0, in float32 and in float64. `measure`: bytes of one step."""

    steps: int = 3
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    compare: bool = False
    measure: bool = True
    seed: int = 0


@dataclass(frozen=True)
class Check:
    """One comparison: `worst` against `limit`, and where it was worst.

    `own_error`: the one-process reference's own error of the same kind, where
    float64 tells it. One that was asked for and could not be made has the reason
    in `not_made`, and is not passed.
    """

    name: str
    worst: float
    limit: float
    where: str = ""
    not_made: str = ""
    own_error: float | None = None

    @property
    def passed(self) -> bool:
        return not self.not_made and self.worst <= self.limit


@dataclass(frozen=True)
class RunReport:
    """The same on all ranks, but for the checks, which rank 0 makes.

    `peak_bytes`, `state_bytes` by rank: highest and initial level of a step in
    which optimizer states exist already. `collectives`: (kind, axis, bytes) ->
    count in one step of rank 0.
    """

    losses: list[float]
    step_s: list[float]
    peak_bytes: list[int]
    state_bytes: list[int]
    predicted_peak_bytes: int | None
    collectives: dict[tuple[str, str, int], int]
    checks: list[Check] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)


def plan_hash(plan: Mapping[str, Any]) -> str:
    """sha256 of the plan's JSON, keys sorted: equal plans, equal hashes."""
    text = json.dumps(plan, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def check_same_plan(plan: Mapping[str, Any]) -> None:
    """All ranks hold the same plan, or all raise VersionMismatchError."""
    mine = plan_hash(plan)
    hashes: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(hashes, mine)
    if len(set(hashes)) > 1:
        listed = ", ".join(f"rank {r}: {h[:12]}" for r, h in enumerate(hashes))
        raise VersionMismatchError(
            f"[execute] ranks hold different plans: expected one hash, got {listed}. "
            "Try: give every rank the same plan file."
        )


def run(
    make_model: Callable[[], nn.Module],
    batch: Any,
    captured: CapturedProgram,
    plan: Mapping[str, Any],
    loss_of: Callable[[nn.Module, Any], Tensor],
    options: RunOptions,
) -> RunReport:
    """Train under `plan` on all ranks of the default process group.

    `make_model` builds the original model on the CPU, equal on all ranks after
    the same manual_seed; `loss_of(model, batch)` is its loss on one process.
    Raises VersionMismatchError, InvalidPlanError, and with `compare` a
    ShardwrightError when one process fails; every rank or none.
    """
    check_same_plan(plan)
    if options.compare:
        _refuse_random(captured)
    mesh = make_mesh(plan)
    checks: list[Check] = []
    single = (
        _train_alone(make_model, lambda model: loss_of(model, batch), options)
        if options.compare
        else None
    )
    parallel = ParallelModule(
        _seeded(make_model, options), captured, plan, mesh, seed=options.seed
    )
    inputs = captured.bind(batch)
    optimizer = make_optimizer(parallel.parameters(), options)
    watched = _Watch(parallel, optimizer, inputs, options)
    trained = watched.train()
    if single is not None:
        checks += _compare(trained, single, *_own_limits(parallel))
    seen = watched.collectives
    checks += _check_collectives(plan, seen) if dist.get_rank() == 0 else []
    peaks, states = _gathered(watched.peak_bytes), _gathered(watched.state_bytes)
    predicted = plan.get("predicted", {}).get("peak_bytes")
    if options.measure and predicted:
        worst = max(range(len(peaks)), key=peaks.__getitem__)
        ratio = peaks[worst] / predicted
        checks.append(Check("peak bytes / predicted", ratio, 1.0, f"rank {worst}"))
    del parallel, optimizer
    step_s = watched.step_s
    del watched
    if options.compare:
        exact, in_double = _compare_in_double(
            make_model, inputs, captured, plan, mesh, options
        )
        if single is not None and exact is not None:
            checks = _own_error_allowed(checks, single, exact)
        checks += in_double
    return RunReport(
        trained.losses, step_s, peaks, states, predicted, dict(seen), checks
    )


def make_optimizer(parameters: Any, options: RunOptions) -> torch.optim.Optimizer:
    """The for-loop form: what the planner's bytes are written for."""
    lr = options.learning_rate
    match options.optimizer:
        case "adamw":
            return torch.optim.AdamW(parameters, lr=lr, foreach=False)
        case "adam":
            return torch.optim.Adam(parameters, lr=lr, foreach=False)
        case "sgd":
            return torch.optim.SGD(parameters, lr=lr, foreach=False)
        case "sgd-momentum":
            return torch.optim.SGD(parameters, lr=lr, momentum=0.9, foreach=False)
    raise ValueError(
        "[execute] unknown optimizer: expected adamw, adam, sgd or sgd-momentum, got "
        f"'{options.optimizer}'."
    )


# --- the parallel loop -------------------------------------------------------


class _Watch:
    """Trains the parallel module; records the first step, measures the second."""

    def __init__(
        self,
        parallel: ParallelModule,
        optimizer: torch.optim.Optimizer,
        inputs: Sequence[Tensor],
        options: RunOptions,
    ) -> None:
        self.parallel, self.optimizer = parallel, optimizer
        self.inputs, self.options = inputs, options
        self.step_s: list[float] = []
        self.peak_bytes = self.state_bytes = 0
        self.collectives: Counter[tuple[str, str, int]] = Counter()
        self.loss = 0.0
        self.gradients: dict[str, Any] = {}

    def train(self) -> Trained:
        losses = []
        for step in range(self.options.steps):
            if step == 1 and self.options.measure:
                self._measured_step()
            elif step == 0:
                self._first_step()
            else:
                self._timed(self._step)
            losses.append(self.loss)
        parameters = self._arrays({n: p.detach() for n, p in self._parameters()})
        if self.options.steps == 1 and self.options.measure:
            self._measured_step()
        return Trained(losses, self.gradients, parameters)

    def _parameters(self) -> list[tuple[str, nn.Parameter]]:
        return list(self.parallel.named_parameters())

    def _forward_backward(self) -> None:
        loss = self.parallel.run_flat(self.inputs)[0]
        loss.backward()
        self.loss = loss.item()

    def _step(self) -> None:
        self._forward_backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _timed(self, work: Callable[[], None]) -> None:
        start = time.perf_counter()
        work()
        self.step_s.append(time.perf_counter() - start)

    def _first_step(self) -> None:
        with recorder.recording() as records:
            self._forward_backward()
        self.collectives = Counter((r.kind, r.axis, r.bytes) for r in records)
        if self.options.compare:
            self.gradients = self._arrays(
                {n: p.grad for n, p in self._parameters() if p.grad is not None}
            )
        self.optimizer.step()
        self.optimizer.zero_grad()

    def _measured_step(self) -> None:
        self.state_bytes = storage_bytes(self._held())
        allocations = watch(self._step)
        self.peak_bytes = self.state_bytes + allocations.peak_bytes

    def _held(self) -> Iterator[Tensor]:
        """All that lives from step to step: state, constants and the batch."""
        yield from self.parallel.held_tensors()
        for state in self.optimizer.state.values():
            yield from (v for v in state.values() if isinstance(v, Tensor))
        yield from self.inputs

    def _arrays(self, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
        """Whole tensors as arrays; every rank takes part, rank 0 keeps them.

        By DTensor's own redistribution: not the code under test.
        """
        arrays = {}
        for name, tensor in tensors.items():
            whole = whole_tensor(tensor)
            if dist.get_rank() == 0:
                arrays[name] = array(whole)
        return arrays


# --- comparison with one process ---------------------------------------------


def _seeded(make_model: Callable[[], nn.Module], options: RunOptions) -> nn.Module:
    torch.manual_seed(options.seed)
    return make_model()


def _train_alone(
    make_model: Callable[[], nn.Module],
    loss_of: Callable[[nn.Module], Tensor],
    options: RunOptions,
) -> Trained | None:
    """On rank 0; None on the others. Every rank raises ShardwrightError when the
    model cannot be trained without any of our code."""
    trained, reason = None, ""
    if dist.get_rank() == 0:
        model = _seeded(make_model, options)
        optimizer = make_optimizer(model.parameters(), options)
        parameters = dict(model.named_parameters())
        try:
            trained = train(
                parameters, lambda: loss_of(model), optimizer, options.steps
            )
        except Exception as error:  # the model's own may be anything
            reason = _in_words(error)
    if reason := _from_first_rank(reason):
        raise ShardwrightError(
            "[execute] nothing to compare with: the model itself cannot be trained on "
            f"one process. Try: run a step of it without shardwright. {reason}"
        )
    return trained


def _in_words(error: Exception) -> str:
    """Class and message on one line, not more than a few."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


def _compare_in_double(
    make_model: Callable[[], nn.Module],
    inputs: Sequence[Tensor],
    captured: CapturedProgram,
    plan: Mapping[str, Any],
    mesh: Any,
    options: RunOptions,
) -> tuple[Trained | None, list[Check]]:
    """The same in float64, where rounding cannot hide a mistake; with the
    reference, on rank 0, if the model can be trained so."""
    single, model, reason = None, None, ""
    if dist.get_rank() == 0:
        model = model_in_double(_seeded(make_model, options))
        try:
            single = _train_widened(captured, model, inputs, options)
        except Exception as error:  # what a model may refuse in float64 is its own
            reason = _in_words(error)
    if reason := _from_first_rank(reason):
        why = f"not compared, this model cannot be trained in float64: {reason}"
        return None, [Check("float64", 0.0, _FLOAT64, not_made=why)]
    parallel = ParallelModule(
        model_in_double(_seeded(make_model, options)), captured, plan, mesh, widen=True
    )
    with double_by_default():
        trained = train(
            dict(parallel.named_parameters()),
            lambda: parallel.run_flat(to_double(inputs))[0],
            make_optimizer(parallel.parameters(), options),
            options.steps,
            whole=whole_tensor,
        )
    if single is None or model is None:
        return None, []
    moved = _moved_by_more_than_rounding(trained, single)
    worst, where = _worst(
        {name: trained.parameters[name] for name in moved},
        {name: single.parameters[name] for name in moved},
        0.0,
    )
    return single, [
        *_compare(trained, single, _FLOAT64, _FLOAT64, "float64"),
        Check("float64 parameters", worst, _FLOAT64, where),
        *_compare_buffers(parallel, model),
    ]


def _train_widened(
    captured: CapturedProgram,
    model: nn.Module,
    inputs: Sequence[Tensor],
    options: RunOptions,
) -> Trained:
    program = WidenedProgram(captured, model)
    with double_by_default():
        return train(
            dict(model.named_parameters()),
            lambda: program.loss(inputs),
            make_optimizer(model.parameters(), options),
            options.steps,
        )


def _own_limits(model: nn.Module) -> tuple[float, float, str]:
    """Limits of losses and gradients in the least exact dtype of the parameters,
    and its name."""
    dtypes = {p.dtype for p in model.parameters() if p.is_floating_point()}
    dtype = max(dtypes or {torch.float32}, key=lambda d: torch.finfo(d).eps)
    name = str(dtype).removeprefix("torch.")
    if dtype in _OWN_LIMITS:
        return *_OWN_LIMITS[dtype], name
    eps = torch.finfo(dtype).eps
    return _ROUNDINGS[0] * eps, _ROUNDINGS[1] * eps, name


def _compare_buffers(got: nn.Module, expected: nn.Module) -> list[Check]:
    """Running statistics and counters after all steps."""
    buffers, wanted = (
        {n: array(b) for n, b in module.named_buffers()} for module in (got, expected)
    )
    if not wanted:
        return []
    largest = max(norm(b) for b in wanted.values())
    worst, where = _worst(buffers, wanted, _GRADIENT_FLOOR * largest)
    return [Check("float64 buffers", worst, _FLOAT64, where)]


def _moved_by_more_than_rounding(got: Trained, expected: Trained) -> list[str]:
    """Parameters but those whose gradient is 0 as far as the check of gradients
    can tell, in both runs (a key bias): Adam makes steps out of its rounding, and
    no two right programs agree on them."""
    norms = [{n: norm(g) for n, g in run.gradients.items()} for run in (got, expected)]
    largest = max(norms[1].values(), default=0.0)
    nothing = _FLOAT64 * _GRADIENT_FLOOR * largest
    return [
        name
        for name in expected.parameters
        if any(run.get(name, 0.0) > nothing for run in norms) or name not in norms[1]
    ]


def _compare(
    got: Trained,
    expected: Trained,
    loss_limit: float,
    gradient_limit: float,
    name: str,
) -> list[Check]:
    errors = [
        abs(a - b) / abs(b) if b else abs(a)
        for a, b in zip(got.losses, expected.losses, strict=True)
    ]
    # A loss that is not a number is equal to nothing.
    errors = [e if e == e else float("inf") for e in errors]  # noqa: PLR0124
    step = max(range(len(errors)), key=errors.__getitem__)
    norms = [norm(g) for g in expected.gradients.values()]
    floor = _GRADIENT_FLOOR * max(norms, default=0.0)
    worst, where = _worst(got.gradients, expected.gradients, floor)
    return [
        Check(f"{name} losses", errors[step], loss_limit, f"step {step}"),
        Check(f"{name} gradients", worst, gradient_limit, where),
    ]


def _own_error_allowed(
    checks: Sequence[Check], single: Trained, exact: Trained
) -> list[Check]:
    """The checks, those in float32 with the error that `single`, one process in
    float32, makes itself: two right programs differ by as much."""
    own = {c.name: c.worst for c in _compare(single, exact, 0.0, 0.0, "float32")}
    return [
        replace(check, own_error=own[check.name], limit=_with_own(check, own))
        if check.name in own
        else check
        for check in checks
    ]


def _with_own(check: Check, own: Mapping[str, float]) -> float:
    allowed = _OWN_ERRORS * own[check.name]
    return max(check.limit, allowed) if math.isfinite(allowed) else check.limit


def _worst(
    got: Mapping[str, Any], expected: Mapping[str, Any], floor: float
) -> tuple[float, str]:
    if set(got) != set(expected):
        return float("inf"), f"names differ: {sorted(set(got) ^ set(expected))}"
    errors = {n: relative_error(got[n], expected[n], floor) for n in expected}
    name = max(errors, key=errors.__getitem__)
    return errors[name], name


def _check_collectives(
    plan: Mapping[str, Any], seen: Counter[tuple[str, str, int]]
) -> list[Check]:
    """Issued = listed in the plan, byte for byte; `worst` counts the differences."""
    if "collectives" not in plan:
        return []
    local = ("slice", "make_partial")
    listed = Counter(
        {
            (c["kind"], c["axis"], c["bytes"]): c["count"]
            for c in plan["collectives"]
            if c["kind"] not in local
        }
    )
    different = (listed - seen) + (seen - listed)
    where = ", ".join(f"{k} listed {listed[k]}, issued {seen[k]}" for k in different)
    return [Check("collectives not as planned", float(len(different)), 0.0, where)]


def _refuse_random(captured: CapturedProgram) -> None:
    random = [op["key"] for op in captured.graph["ops"] if op["random"]]
    if random:
        raise InvalidPlanError(
            "[execute] cannot compare a model that draws random numbers: expected "
            f"none, got {len(random)} ops, the first {random[0]}. Try: dropout 0, or "
            "run without --compare, which trains and measures this model as it is."
        )


def _from_first_rank(text: str) -> str:
    message = [text]
    dist.broadcast_object_list(message)
    return message[0]


def _gathered(number: int) -> list[int]:
    numbers: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(numbers, number)
    return numbers
