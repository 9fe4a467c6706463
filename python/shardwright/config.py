"""Settings as values. No torch."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from shardwright.errors import ShardwrightError

__all__ = ["Pin", "check_settings", "memory_bytes"]

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
# More than any machine has; what is counted must stay within 64 bits.
_MOST_BYTES = 2**62


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


def memory_bytes(memory: str | float | None) -> int | None:
    """Bytes of "70GiB", "1.5 GB" or a number. Raises ShardwrightError."""
    if memory is None:
        return None
    count: float = -1
    if isinstance(memory, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", memory)
        if match is not None and match.group(2).lower() in _UNITS:
            count = float(match.group(1)) * _UNITS[match.group(2).lower()]
    elif _is_number(memory):
        count = memory
    if math.isfinite(count) and count >= _MOST_BYTES:
        raise ShardwrightError(
            "[config] memory is too large: expected fewer than 2^62 bytes (4 EiB) for "
            f"a device, got {memory!r}. Try: leave it out for no limit"
        )
    if not 1 <= count < _MOST_BYTES:
        raise ShardwrightError(
            "[config] memory cannot be read: expected at least one byte, as a "
            f"number or text such as '70GiB' or '512 MB', got {memory!r}"
        )
    return int(count)


def check_settings(gap: float, time_limit_s: float, seed: int) -> None:
    """Raises ShardwrightError for numbers that mean nothing."""
    fits = _is_number(gap) and 0 <= gap < math.inf
    _check(gap, "gap", "a number of at least 0", fits)
    fits = _is_number(time_limit_s) and 0 < time_limit_s < math.inf
    _check(time_limit_s, "time_limit_s", "seconds above 0", fits)
    whole = _is_number(seed) and isinstance(seed, int) and 0 <= seed < 2**63
    _check(seed, "seed", "a whole number from 0 to 2^63 - 1", whole)


def _check(value: object, name: str, expected: str, fits: bool) -> None:
    if not fits:
        raise ShardwrightError(
            f"[config] {name} is out of range: expected {expected}, got {value!r}"
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
