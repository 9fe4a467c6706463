"""Run a function on several gloo ranks on loopback, with a time limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardwright.execute.launch import launch


def run_ranks(
    work: Callable[..., Any], size: int, *args: Any, timeout_s: float = 180
) -> list[Any]:
    """Results of work(rank, *args) by rank."""
    return launch(work, size, *args, timeout_s=timeout_s)
