"""Scratch memory whose amount depends on the local sizes in steps.

A kernel pads channels to blocks and picks another algorithm below some size,
so its scratch is no product of sizes. It is written as *alternatives*, each
with the sizes for which it may happen; the highest that may happen counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

__all__ = ["Alternative", "Condition", "Part", "highest"]

NO_LIMIT = 2**53  # sizes are exact as JSON numbers up to here


@dataclass(frozen=True)
class Part:
    """`scale` bytes * product of `dims` * product of each padded size rounded
    up to its multiple. What a shard may change is in dims or padded; if
    `pinned`, the amount is known only for the sizes at hand, and the conditions
    of its alternative name them."""

    scale: int
    dims: tuple[int, ...] = ()
    padded: tuple[tuple[int, int], ...] = ()
    pinned: bool = False

    def value(self) -> int:
        rounded = (-(-size // unit) * unit for size, unit in self.padded)
        return self.scale * prod(self.dims) * prod(rounded)

    def times(self, number: int) -> "Part":
        return replace(self, scale=self.scale * number)


@dataclass(frozen=True)
class Condition:
    """low <= size <= high."""

    size: int
    low: int = 0
    high: int = NO_LIMIT

    def holds(self) -> bool:
        return self.low <= self.size <= self.high


@dataclass(frozen=True)
class Alternative:
    """The sum of `parts` above the level before, when all conditions hold."""

    parts: tuple[Part, ...]
    when: tuple[Condition, ...] = ()

    def value(self) -> int:
        if not all(condition.holds() for condition in self.when):
            return 0
        return sum(part.value() for part in self.parts)


def highest(alternatives: Sequence[Alternative]) -> int:
    return max((alternative.value() for alternative in alternatives), default=0)
