"""plan, parallelize, auto_parallelize: the three calls most users need.

This module joins the layers that need torch (capture, profile, execute), which
know nothing of each other, with the core. torch is imported when a function is
called, not before.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shardwright import _core
from shardwright.config import Pin, check_settings, memory_bytes
from shardwright.errors import (
    CaptureError,
    InvalidPlanError,
    ShardwrightError,
    ShardwrightWarning,
)
from shardwright.planfile import Plan

if TYPE_CHECKING:
    from torch import nn

    from shardwright.capture import Captured
    from shardwright.execute import ParallelModule

__all__ = [
    "Profiled",
    "auto_parallelize",
    "capture_for",
    "parallelize",
    "plan",
    "plan_graph",
    "profile_graph",
]

Progress = Callable[[str], None]
# "[HOSTS x] DEVICES NAME", the path of a cluster file, or the file's content.
ClusterLike = str | os.PathLike[str] | Mapping[str, Any]


@dataclass(frozen=True)
class Profiled:
    """A captured training step with a profile record for every op."""

    captured: Captured
    graph_json: str


def profile_graph(
    model: nn.Module,
    batch: Any,
    *,
    loss: Callable[..., Any] | None = None,
    progress: Progress | None = None,
) -> Profiled:
    """Captures one training step and profiles every op of it, running nothing.

    Raises CaptureError for what cannot be captured.
    """
    from shardwright.capture import capture
    from shardwright.profile import make_records
    from shardwright.runtime import local_variants

    _check_model(model, loss)
    _say(progress, "capturing")
    captured = capture(model, batch, loss=loss)
    maps = json.loads(_core.factor_maps(json.dumps(captured.graph)))
    _say(progress, f"profiling {len(captured.graph['ops'])} ops")
    make_records(captured, maps, local_variants())
    return Profiled(captured, json.dumps(captured.graph))


def plan_graph(
    graph_json: str,
    *,
    cluster: ClusterLike,
    memory: str | float | None = None,
    optimizer: str = "adamw",
    mesh: Sequence[int] | None = None,
    axes: Sequence[str] | None = None,
    pins: Sequence[Pin] = (),
    gap: float = 1e-3,
    time_limit_s: float = 60,
    seed: int = 0,
    recompute: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """Plans a profiled graph. Raises InfeasibleError when nothing fits.

    Warns (ShardwrightWarning) of what the plan also says in its summary: ops
    without a sharding rule, which run replicated.
    """
    check_settings(gap, time_limit_s, seed)
    _check_pins(pins)
    options: dict[str, Any] = {
        "cluster": _cluster(cluster),
        "optimizer": optimizer,
        "memory_limit_bytes": memory_bytes(memory),
        "pins": [pin.to_json() for pin in pins],
        "gap": gap,
        "time_limit_s": time_limit_s,
        "seed": seed,
        "recompute": recompute,
    }
    if mesh is not None:
        options["mesh"] = list(mesh)
    if axes is not None:
        options["axes"] = list(axes)
    text = _core.make_plan(graph_json, json.dumps(options), progress)
    made = Plan.from_text(text)
    for message in made.warnings:
        warnings.warn(message, ShardwrightWarning, stacklevel=2)
    return made


def plan(
    model: nn.Module,
    batch: Any,
    *,
    cluster: ClusterLike,
    memory: str | float | None = None,
    loss: Callable[..., Any] | None = None,
    optimizer: str = "adamw",
    mesh: Sequence[int] | None = None,
    axes: Sequence[str] | None = None,
    pins: Sequence[Pin] = (),
    solver: str = "joint",
    gap: float = 1e-3,
    time_limit_s: float = 60,
    seed: int = 0,
    progress: Progress | None = None,
) -> Plan:
    """The fastest plan for one training step of `model` on `cluster`.

    `batch`: tensor, tuple (args) or dict (kwargs), the global batch. `cluster`:
    "[HOSTS x] DEVICES NAME", a cluster file, or its content. `memory`: limit per
    device in bytes, or text like "70GiB". The loss is `loss(output, ...)` if
    given, else the output's `.loss` or ["loss"], a scalar output, or the first
    element of a tuple if it alone is a scalar. Nothing is run.

    Raises CaptureError, InfeasibleError, ShardwrightError.
    """
    if solver != "joint":
        raise ShardwrightError(
            f"[api] unknown solver: expected 'joint', got '{solver}'. Try: "
            "leave it out; the two-stage baseline is not there yet"
        )
    profiled = profile_graph(model, batch, loss=loss, progress=progress)
    return plan_graph(
        profiled.graph_json,
        cluster=cluster,
        memory=memory,
        optimizer=optimizer,
        mesh=mesh,
        axes=axes,
        pins=pins,
        gap=gap,
        time_limit_s=time_limit_s,
        seed=seed,
        progress=progress,
    )


def parallelize(
    model: nn.Module,
    plan: Plan | str | Path,
    *,
    loss: Callable[..., Any] | None = None,
    seed: int = 0,
    captured: Captured | None = None,
) -> ParallelModule:
    """The model under a plan, on this rank; call it under torchrun.

    `model` holds real values, equal on all ranks (built from one seed). Names
    in `state_dict` stay; parameters are DTensors. `loss` as given to `plan`.
    All ranks must have the same plan, made for this model and batch, else
    InvalidPlanError on every rank.
    """
    import torch
    import torch.distributed as dist

    from shardwright.execute import ParallelModule, make_mesh

    answer = plan if isinstance(plan, Plan) else Plan.load(plan)
    if not dist.is_initialized():
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend)
    _check_same_plan(answer)
    if captured is None:
        captured = capture_for(answer, model, loss)
    else:
        _check_same_graph(answer, captured.graph)
    device = next((p.device.type for p in model.parameters()), "cpu")
    return ParallelModule(
        model, captured, answer.data, make_mesh(answer.data, device), seed=seed
    )


def capture_for(
    plan: Plan, model: nn.Module, loss: Callable[..., Any] | None = None
) -> Captured:
    """The graph a plan was made for, captured from `model` (meta is fine).

    Raises InvalidPlanError when model, loss or versions give another graph.
    """
    from shardwright.capture import capture, rebuild_batch, tensors_of

    _check_model(model, loss)
    _check_same_model(plan, model)
    try:
        batch = rebuild_batch(plan.data["batch"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise InvalidPlanError(
            "[api] the plan does not say which batch it was made for: expected "
            f"shapes and names under 'batch', got {plan.data.get('batch')!r:.80}. "
            "Try: plan again"
        ) from error
    try:
        captured = capture(model, batch, loss=loss)
    except CaptureError as error:
        raise InvalidPlanError(
            "[api] the model does not run on the batch that the plan was made for, "
            f"{tensors_of(plan.data['batch'])}. Try: plan again for this model; or, if "
            f"it is the same, read on: {error}"
        ) from error
    _check_same_graph(plan, captured.graph)
    return captured


def auto_parallelize(
    model: nn.Module,
    batch: Any,
    *,
    cluster: ClusterLike | None = None,
    memory: str | float | None = None,
    loss: Callable[..., Any] | None = None,
    **options: Any,
) -> ParallelModule:
    """plan + parallelize. Rank 0 plans and broadcasts the plan's bytes; when it
    fails, every rank raises with its message. `cluster` defaults to as many
    CPUs as there are ranks ("N cpu") on a CPU; elsewhere it must be given.
    """
    import torch
    import torch.distributed as dist

    if not dist.is_initialized():
        backend = "nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(backend)
    on_cpu = all(p.device.type == "cpu" for p in model.parameters())
    if cluster is None and not on_cpu:
        raise ShardwrightError(
            "[api] no cluster is given and the model is not on a CPU. Try: "
            'cluster="8 a100-80g"'
        )
    where = cluster if cluster is not None else f"{dist.get_world_size()} cpu"
    message: list[Any] = [None, None]
    if dist.get_rank() == 0:
        try:
            made = plan(
                model, batch, cluster=where, memory=memory, loss=loss, **options
            )
            message[0] = made.text
        except Exception as error:  # every rank must hear of it
            message[1] = error
    dist.broadcast_object_list(message)
    if message[1] is not None:
        raise message[1]
    return parallelize(model, Plan.from_text(message[0]), loss=loss)


def _say(progress: Progress | None, text: str) -> None:
    if progress is not None:
        progress(text)


def _check_model(model: Any, loss: Any) -> None:
    from torch import nn

    if not isinstance(model, nn.Module):
        raise ShardwrightError(
            "[api] no model: expected a torch.nn.Module, got "
            f"{type(model).__name__}. Try: the model first, then the batch"
        )
    if loss is not None and not callable(loss):
        raise ShardwrightError(
            "[api] loss cannot be called: expected a function of the model's "
            f"output, got {type(loss).__name__}"
        )


def _check_pins(pins: Sequence[Pin]) -> None:
    for pin in pins:
        if not isinstance(pin, Pin):
            raise ShardwrightError(
                "[api] not a pin: expected shardwright.config.Pin, got "
                f"{type(pin).__name__}. Try: Pin('storage', '*.weight', '[a, -]')"
            )


def _cluster(cluster: Any) -> Any:
    """As the core reads it."""
    if isinstance(cluster, str | os.PathLike):
        return os.fspath(cluster)
    if isinstance(cluster, Mapping):
        return dict(cluster)
    raise ShardwrightError(
        "[api] cluster cannot be read: expected text, a file or its content, got "
        f'{type(cluster).__name__}. Try: cluster="4 cpu"'
    )


def _check_same_plan(plan: Plan) -> None:
    import torch.distributed as dist

    hashes: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(hashes, plan.plan_hash)
    if len(set(hashes)) > 1:
        table = ", ".join(f"rank {r}: {h[:12]}" for r, h in enumerate(hashes))
        raise InvalidPlanError(
            f"[api] the ranks have different plans: expected one, got {table}. "
            "Try: plan once and give every rank the same file"
        )


def _check_same_model(plan: Plan, model: nn.Module) -> None:
    """By name: found before the model meets a batch that is not its own."""
    expected, got = plan.data["graph_name"], type(model).__name__
    if got != expected:
        raise InvalidPlanError(
            f"[api] the plan was made for another model: expected {expected}, got "
            f"{got}. Try: plan again for this model, or give the one of the plan"
        )


def _check_same_graph(plan: Plan, graph: Mapping[str, Any]) -> None:
    got = _core.graph_hash(json.dumps(graph))
    expected = plan.data["graph_hash"]
    if got != expected:
        raise InvalidPlanError(
            "[api] the plan was made for another graph: expected "
            f"{expected[:12]} ({plan.data['graph_name']}), got {got[:12]} "
            f"({graph['name']}). Try: plan again for this model, batch shape, "
            "mode (train or eval), loss and torch version"
        )
