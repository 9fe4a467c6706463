"""Processes for a run: started here on one machine, or joined under torchrun.

    results = launch(work, 4, *args)          # work(rank, *args) in 4 processes
    with joined("cpu"): ...                   # RANK, WORLD_SIZE, ... are set

A failure on one rank ends all of them, and its exception is the one raised.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue as queues
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["joined", "launch", "under_torchrun"]

# Ranks that only lost their connection answer this much later than the culprit.
_GRACE_S = 10.0


def under_torchrun() -> bool:
    """Whether a launcher has told this process its rank."""
    return {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= os.environ.keys()


@contextmanager
def joined(device_type: str = "cpu") -> Iterator[int]:
    """This process as one rank of the default process group; yields the rank."""
    dist.init_process_group("nccl" if device_type == "cuda" else "gloo")
    try:
        yield dist.get_rank()
        # Without it processes that end early abort the others now and then.
        dist.barrier()
    finally:
        dist.destroy_process_group()


def launch(
    work: Callable[..., Any],
    num_ranks: int,
    *args: Any,
    timeout_s: float | None = None,
    threads: int = 1,
) -> list[Any]:
    """Results of work(rank, *args) on `num_ranks` gloo processes, by rank.

    `work` and `args` must be picklable; `threads` are the CPU threads of each
    process. Raises the first failing rank's exception, TimeoutError when no
    result came for `timeout_s`.
    """
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    port = _free_port()
    ranks = [
        context.Process(
            target=_entry, args=(work, rank, num_ranks, port, threads, answers, args)
        )
        for rank in range(num_ranks)
    ]
    for process in ranks:
        process.start()
    try:
        return _collect(ranks, answers, timeout_s)
    finally:
        for process in ranks:
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
                process.join()


def _collect(ranks: list[Any], answers: Any, timeout_s: float | None) -> list[Any]:
    """Answers of all ranks, or the exception of the one that failed first."""
    results: dict[int, Any] = {}
    failures: list[tuple[float, int, bytes | None, str]] = []
    started = time.monotonic()
    while len(results) + len(failures) < len(ranks):
        try:
            rank, failed_at, error, text, result = answers.get(timeout=1.0)
        except queues.Empty:
            now = time.monotonic()
            dead = [r for r, p in enumerate(ranks) if p.exitcode not in (None, 0)]
            if failures and now - failures[0][0] > _GRACE_S:
                break
            known = {f[1] for f in failures} | results.keys()
            if not failures and set(dead) - known:
                rank = min(set(dead) - known)
                code = ranks[rank].exitcode
                failures.append((now, rank, None, f"process ended with code {code}"))
            if timeout_s is not None and now - started > timeout_s and not failures:
                raise TimeoutError(
                    f"[execute] ranks do not answer: expected results within "
                    f"{timeout_s} s, got {len(results)} of {len(ranks)}."
                ) from None
            continue
        if text:
            failures.append((failed_at, rank, error, text))
        else:
            results[rank] = result
    if failures:
        _, rank, error, text = min(failures, key=lambda failure: failure[0])
        raised = pickle.loads(error) if error else RuntimeError("rank failed")
        raised.add_note(f"on rank {rank}:\n{text}")
        raise raised
    return [results[rank] for rank in range(len(ranks))]


def _entry(
    work: Callable[..., Any],
    rank: int,
    num_ranks: int,
    port: int,
    threads: int,
    answers: Any,
    args: tuple[Any, ...],
) -> None:
    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(num_ranks),
        LOCAL_RANK=str(rank),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(threads)
    failed_at = None
    try:
        with joined():
            try:
                result = work(rank, *args)
            except BaseException:
                # Now, before leaving makes the others fail too. The monotonic
                # clock is one for all processes of a machine.
                failed_at = time.monotonic()
                raise
    except BaseException as error:
        text = traceback.format_exc()
        answers.put((rank, failed_at or time.monotonic(), _pickled(error), text, None))
        raise SystemExit(1) from None
    answers.put((rank, 0.0, None, "", result))


def _pickled(error: BaseException) -> bytes | None:
    try:
        data = pickle.dumps(error)
        pickle.loads(data)
    except Exception:
        return None  # the text still tells
    return data


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port
