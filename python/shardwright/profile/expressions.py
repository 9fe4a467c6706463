"""Numbers as expressions over the local sizes of an op's factors.

A number is measured twice, at the graph's sizes and with factor i multiplied
by a prime p_i, all at once. If it is c times a product of factor sizes, the
ratio of the two is a product of these primes and tells the exponents. Primes
above 3, because small ratios also come from sums (3x + y over x + y can be 2).

An Expr in JSON is {"c": number, "f": [factor, ...]} (with repetition), or a
list of such, to be added. Scratch of kernels that work in blocks has two more
keys, both optional: "up": [[factor, times, unit], ...], each a further factor
ceil(times * size / unit) * unit; "when": [[factor, times, low, high], ...], the
term counts only if low <= times * size <= high for each.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from shardwright.profile.opaque.scratch import Alternative, Part

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

    def alternative(self, base: Alternative, scaled: Alternative) -> Expr:
        """The bytes of `base`, valid at any local sizes; `scaled` is the same
        with the factors scaled."""
        if len(base.parts) != len(scaled.parts) or len(base.when) != len(scaled.when):
            raise NotProportional("another kind of scratch")
        when = []
        for before, after in zip(base.when, scaled.when, strict=True):
            if before.size != after.size:
                size = self._one_factor(before.size, after.size)
                when.append([*size, before.low, before.high])
            elif not before.holds():
                return constant(0)
        terms = []
        for part, grown in zip(base.parts, scaled.parts, strict=True):
            term = self._part(part, grown)
            terms.append(term | {"when": when} if when else term)
        return terms[0] if len(terms) == 1 else terms

    def _part(self, base: Part, scaled: Part) -> dict[str, Any]:
        if base.pinned:
            return {"c": base.value(), "f": []}
        if base.scale != scaled.scale:
            # A kernel that picks its block sizes by the operands' sizes: no
            # part of the op needs more scratch than the whole.
            if base.value() > scaled.value():
                raise NotProportional("scratch that shrinks")
            return {"c": base.value(), "f": []}
        coefficient = base.scale
        factors: list[int] = []
        up: list[list[int]] = []
        for before, after in zip(base.dims, scaled.dims, strict=True):
            found = self._factors(before, after)
            coefficient *= before // prod(self.sizes[f] for f in found)
            factors += found
        for (before, unit), (after, _) in zip(base.padded, scaled.padded, strict=True):
            if before == after:
                coefficient *= -(-before // unit) * unit
            else:
                up.append([*self._one_factor(before, after), unit])
        term: dict[str, Any] = {"c": coefficient, "f": factors}
        return term | {"up": up} if up else term

    def _one_factor(self, before: int, after: int) -> tuple[int, int]:
        """(factor, times) of a size that is times * the factor's."""
        factors = self._factors(before, after)
        if len(factors) != 1 or before % self.sizes[factors[0]]:
            raise NotProportional(f"{before} is no multiple of one factor")
        return factors[0], before // self.sizes[factors[0]]

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
