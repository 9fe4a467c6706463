"""Numbers as expressions over the local sizes of an op's factors.

A number is measured twice, at the graph's sizes and with factor i multiplied
by a prime p_i, all at once. If it is c times a product of factor sizes, the
ratio of the two is a product of these primes and tells the exponents. Primes
above 3, because small ratios also come from sums (3x + y over x + y can be 2).

An Expr in JSON is {"c": number, "f": [factor, ...]} (with repetition), or a
list of such, to be added.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

__all__ = ["NotProportional", "Scaling", "constant"]

Expr = Any  # {"c", "f"} or a list of them
_PRIMES = (5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43)


class NotProportional(Exception):
    """A number is not c times a product of factor sizes."""


def constant(*terms: int) -> Expr:
    return {"c": sum(terms), "f": []}


@dataclass(frozen=True)
class Scaling:
    """Sizes of the factors, and the prime each is multiplied by (1: kept)."""

    sizes: tuple[int, ...]
    primes: tuple[int, ...]

    @staticmethod
    def of(sizes: Sequence[int]) -> "Scaling":
        """A factor of size 1 cannot be split and keeps its size: a dim of 1
        that grows would change what broadcasts."""
        primes, unused = [], iter(_PRIMES)
        for size in sizes:
            primes.append(next(unused) if size > 1 else 1)
        return Scaling(tuple(sizes), tuple(primes))

    def scaled(self, factor: int) -> int:
        return self.sizes[factor] * self.primes[factor]

    def expression(self, base: Sequence[int], scaled: Sequence[int]) -> Expr:
        """The sum of the terms measured as `base` and as `scaled`."""
        if len(base) != len(scaled):
            raise NotProportional(f"{len(base)} terms became {len(scaled)}")
        coefficients: dict[tuple[int, ...], int | float] = {}
        for before, after in zip(base, scaled, strict=True):
            if before == 0 and after == 0:
                continue
            factors = self._factors(before, after)
            size = prod(self.sizes[factor] for factor in factors)
            exact = before % size == 0
            share = before // size if exact else before / size
            coefficients[factors] = coefficients.get(factors, 0) + share
        terms = [{"c": c, "f": list(f)} for f, c in coefficients.items()]
        if len(terms) > 1:
            return terms
        return terms[0] if terms else constant(0)

    def _factors(self, before: int, after: int) -> tuple[int, ...]:
        if before == 0 or after % before:
            raise NotProportional(f"{before} became {after}")
        ratio, found = after // before, []
        for factor, prime in enumerate(self.primes):
            while prime > 1 and ratio % prime == 0:
                ratio //= prime
                found.append(factor)
        if ratio != 1:
            raise NotProportional(f"{before} became {after}")
        return tuple(found)
