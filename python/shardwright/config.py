"""Settings as values. No torch."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from shardwright.errors import ShardwrightError

__all__ = ["Pin", "memory_bytes"]

_UNITS = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "k": 2**10,
    "kib": 2**10,
    "m": 2**20,
    "mib": 2**20,
    "g": 2**30,
    "gib": 2**30,
    "tib": 2**40,
}


@dataclass(frozen=True)
class Pin:
    """Forces a part of the plan; `target` is a glob.

    placement: spec of the results of ops whose key or module path matches;
    "[a, ...]" splits the first dim over axis a and nothing else.
    storage: spec of the parameters whose name matches.
    recompute: "true" or "false" for the regions whose module path matches.
    """

    kind: Literal["placement", "storage", "recompute"]
    target: str
    spec: str

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "target": self.target, "spec": self.spec}


def memory_bytes(memory: str | int | None) -> int | None:
    """Bytes of "70GiB", "1.5 GB" or a number. Raises ShardwrightError."""
    if memory is None or isinstance(memory, int):
        return memory
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", memory)
    if match is None or match.group(2).lower() not in _UNITS:
        raise ShardwrightError(
            f"[config] memory cannot be read: expected bytes or text such as "
            f"'70GiB' or '512 MB', got '{memory}'"
        )
    return int(float(match.group(1)) * _UNITS[match.group(2).lower()])
