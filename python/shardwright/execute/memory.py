"""Bytes really allocated on the CPU: live tensors, and the peak of a piece of work.

The peak is exact: torch's profiler reports every allocation and release of the
CPU allocator (kineto "[memory]" events), scratch inside kernels included. On
top of it comes what lived before, counted by storage (`storage_bytes`).

`kineto_results` is not a public name; there is no public one that keeps the
order of allocations. It is used in this file only.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

__all__ = ["Allocations", "storage_bytes", "watch"]

_LOG_LEVEL, _ABOVE_NOTES = "KINETO_LOG_LEVEL", "6"


@dataclass(frozen=True)
class Allocations:
    """Of one piece of work, in bytes relative to its start.

    `peak_bytes`: highest level; `kept_bytes`: level at the end; `events`: signed
    sizes in time order.
    """

    peak_bytes: int
    kept_bytes: int
    events: tuple[int, ...]


def watch(work: Callable[[], Any]) -> Allocations:
    """Run `work` and follow what it allocates on the CPU, in all its threads.

    The result of `work` is dropped before the end, so `kept_bytes` counts only
    what it stored elsewhere. Costs about 1 ms a thousand events.
    """
    gc.collect()  # garbage of before must not be released inside
    with (
        _silent_profiler(),
        torch.autograd.profiler.profile(profile_memory=True) as profiler,
    ):
        work()
    results: Any = profiler.kineto_results
    events = sorted(
        (event.start_ns(), event.nbytes())
        for event in results.events()
        if event.name() == "[memory]" and event.device_type().name == "CPU"
    )
    level = peak = 0
    for _, size in events:
        level += size
        peak = max(peak, level)
    return Allocations(peak, level, tuple(size for _, size in events))


@contextmanager
def _silent_profiler() -> Iterator[None]:
    """Keeps the profiler's own start and stop notes ("USDT:...") off stderr.

    Its library reads the level once, at its first use in a process; a level
    that the user has set stays.
    """
    if _LOG_LEVEL in os.environ:
        yield
        return
    os.environ[_LOG_LEVEL] = _ABOVE_NOTES
    try:
        yield
    finally:
        del os.environ[_LOG_LEVEL]


def storage_bytes(tensors: Iterable[Tensor]) -> int:
    """Bytes of the distinct CPU storages under `tensors`; DTensors by their part."""
    sizes: dict[int, int] = {}
    for tensor in tensors:
        local = tensor.to_local() if isinstance(tensor, DTensor) else tensor
        if local.device.type == "cpu":
            storage = local.untyped_storage()
            if storage.data_ptr():
                sizes[storage.data_ptr()] = storage.nbytes()
    return sum(sizes.values())
