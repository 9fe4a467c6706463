"""What a program really does: every issued collective, and in which phase.

    with recording() as records:
        loss = module(batch); loss.backward()
    records[0]   # Record(kind="all_gather", axis="a", bytes=4096, phase="forward")

`bytes` is N of the plan format: the gathered local result of an all_gather,
the input of a reduce_scatter, all_reduce or all_to_all. Local steps (slice,
make_partial) move nothing and are not recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

__all__ = ["Record", "current_phase", "phase", "record", "recording"]


@dataclass(frozen=True)
class Record:
    kind: str
    axis: str
    bytes: int
    phase: str  # "forward" | "backward" | "recompute"


_phases: list[str] = ["forward"]
_recorders: list[list[Record]] = []


def current_phase() -> str:
    return _phases[-1]


@contextmanager
def phase(name: str) -> Iterator[None]:
    """Innermost wins: a recomputation inside a backward is "recompute"."""
    _phases.append(name)
    try:
        yield
    finally:
        _phases.pop()


def record(kind: str, axis: str, num_bytes: int) -> None:
    """Add one issued collective to every active recorder."""
    for records in _recorders:
        records.append(Record(kind, axis, num_bytes, current_phase()))


@contextmanager
def recording() -> Iterator[list[Record]]:
    """Collect the records of the body; recorders nest."""
    records: list[Record] = []
    _recorders.append(records)
    try:
        yield records
    finally:
        # By identity: two recorders with equal content are not the same one.
        _recorders[:] = [r for r in _recorders if r is not records]
