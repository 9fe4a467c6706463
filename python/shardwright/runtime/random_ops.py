"""Random ops under a seed that is a function of where and when they run.

seed = hash(seed of the run, step, op key, coordinates on the sharding axes):
ranks that hold the same part draw the same numbers, ranks that hold different
parts draw different ones, and a second run of the same op (recomputation)
draws the same again. The default generators are put back afterwards, so the
user's own random numbers stay equal on all ranks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor  # no public test exists
from torch.utils._pytree import tree_leaves

from .axes import axis as find_axis

__all__ = ["random", "seed_of"]


def seed_of(step: int, key: str, axes: tuple[str, ...]) -> int:
    """A 63-bit seed; `step` already carries the seed of the run."""
    where = ",".join(f"{name}={find_axis(name).coordinate}" for name in axes)
    text = f"{step}|{key}|{where}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) >> 1


@contextmanager
def _seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Seed the default generator of `device` for the body.

    The state is kept outside torch's allocator: an op's peak stays its own
    (5056 bytes are allocated and freed before and after a CPU op).
    """
    if device.type == "cuda":
        generator = torch.cuda.default_generators[
            torch.cuda.current_device() if device.index is None else device.index
        ]
    else:
        generator = torch.default_generator
    saved = bytearray(generator.get_state().numpy().tobytes())
    generator.manual_seed(seed)
    try:
        yield
    finally:
        generator.set_state(torch.frombuffer(saved, dtype=torch.uint8))


def random(
    op: Any, key: str, step: int, *args: Any, axes: tuple[str, ...] = (), **kwargs: Any
) -> Any:
    """op(*args, **kwargs) with the stream of (step, key, coordinates on axes).

    `axes`: the mesh axes that shard the op's result, in mesh order. Replicated
    results need none and are then equal on all ranks. No collectives.
    """
    tensors = [a for a in tree_leaves((args, kwargs)) if isinstance(a, Tensor)]
    if any(isinstance(a, FakeTensor) for a in tensors):
        return op(*args, **kwargs)
    device = (
        tensors[0].device if tensors else torch.device(kwargs.get("device") or "cpu")
    )
    with _seeded(seed_of(step, key, axes), device):
        return op(*args, **kwargs)
