"""Run a function on several gloo ranks on loopback, with a time limit."""

from __future__ import annotations

import multiprocessing
import os
import queue as queue_module
import socket
import traceback
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}


def _entry(
    work: Callable[..., Any], rank: int, size: int, port: int, queue: Any, args: Any
) -> None:
    os.environ.update(_ENVIRONMENT, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", rank=rank, world_size=size)
        result = work(rank, *args)
        dist.barrier()
        dist.destroy_process_group()
        queue.put((rank, None, result))
    except BaseException:
        queue.put((rank, traceback.format_exc(), None))
        raise


def run_ranks(
    work: Callable[..., Any], size: int, *args: Any, timeout_s: float = 120
) -> list[Any]:
    """Results of work(rank, *args) by rank; AssertionError with the traceback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    ranks = [
        context.Process(target=_entry, args=(work, r, size, port, queue, args))
        for r in range(size)
    ]
    for process in ranks:
        process.start()
    results: dict[int, Any] = {}
    errors: list[str] = []
    try:
        for _ in ranks:
            # After one failure the others only lose their connection.
            rank, error, result = queue.get(timeout=10 if errors else timeout_s)
            if error is not None:
                errors.append(f"rank {rank} failed:\n{error}")
            results[rank] = result
    except queue_module.Empty:
        errors = errors or [f"no answer within {timeout_s} s"]
    finally:
        for process in ranks:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
    lost = "Connection"
    errors.sort(key=lambda text: lost in text.splitlines()[-1])
    assert not errors, "\n".join([*errors[1:], errors[0]])
    return [results[r] for r in range(size)]
