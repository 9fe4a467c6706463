"""How much of an image oneDNN unfolds at once for a matrix product.

Forward it unfolds `places` results of `channels` data channels such that these,
the data they come from, the weights and the result stay in the second-level
cache. Of several candidates it takes that with the best estimate: a product of
how well the block fills registers, vectors and the loops, and of arithmetic per
byte moved. The candidates and the estimate are those of oneDNN 3.12 for one
thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod, sqrt

import torch

from shardwright.profile.opaque.convolution.shape import Shape

__all__ = ["cache_elements", "unfolded_elements"]

_LEAST_RESULTS = 8  # channels of a block
_LONG = 48  # places that fill the registers of the product's kernel
_REGISTER_VECTORS = 3
_CACHE_MISS = 20  # cost of memory once a block exceeds the cache
_STRIDED = 8  # cost of unfolding with a stride
_NEARLY = 1 - 1e-4  # estimates this close may be ordered otherwise in float32


def cache_elements(item: int) -> int:
    """Of the second-level cache of one core; 0 where it is not known."""
    return int(torch.cpu.get_capabilities().get("l2_cache_size", 0)) // item


@dataclass(frozen=True)
class _Problem:
    data: int
    result: int
    taps: int
    places: int  # of one image
    all_places: int
    step: int  # places of the data per place of the result
    strided_rows: bool
    cache: int
    vector: int


@dataclass(frozen=True)
class _Block:
    results: int
    places: int
    channels: int


def unfolded_elements(shape: Shape) -> int:
    """Elements of the columns forward, on one thread; of volumes one slice."""
    problem = _problem(shape)
    whole = problem.data * problem.taps * problem.places
    small = problem.all_places < problem.vector
    several = problem.places < shape.batch * shape.groups
    wide = shape.stride[-1] == 1 and 20 * problem.data * problem.taps <= problem.result
    if shape.volumes or (small and not several and not wide):
        return whole
    best = 0.0
    rated: list[tuple[float, _Block]] = []
    for block in _candidates(problem):
        rated.append((_estimate(problem, block), block))
        best = max(best, rated[-1][0])
    return max(
        problem.taps * block.places * block.channels
        for estimate, block in rated
        if estimate >= best * _NEARLY
    )


def _problem(shape: Shape) -> _Problem:
    places = prod(shape.result_sizes[-2:])
    return _Problem(
        data=shape.data,
        result=shape.result,
        taps=shape.num_taps,
        places=places,
        all_places=places * shape.batch * shape.groups,
        step=prod(shape.stride[-2:]),
        strided_rows=shape.stride[-1] > 1,
        cache=cache_elements(shape.item),
        vector=shape.block,
    )


def _candidates(p: _Problem) -> Iterator[_Block]:
    whole = _block(p, p.result, p.all_places)
    yield whole
    if (whole.places, whole.channels) == (p.all_places, p.data):
        return
    for results, places in _starts(p):
        up = _up(results, 8)
        yield _block(p, results, places)
        yield _block(p, results // 8 * 8, places // _LONG * _LONG)
        yield _block(p, up, places // _LONG * _LONG)
        yield _block(p, up, _up(places, p.vector))
        yield _block(p, up, _up(places, _LONG))


def _starts(p: _Problem) -> Iterator[tuple[int, int]]:
    """Blocks that fill the cache: with all data channels, with the largest
    product of all three sizes, with all result channels."""
    per_place, per_channel = p.step + p.taps, p.taps * p.result

    def places_for(channels: int, results: int) -> int:
        left = p.cache - per_channel * channels
        return left // (per_place * channels + results)

    left = p.cache - per_place * p.data * p.vector - per_channel * p.data
    results = _clamp(_LEAST_RESULTS, p.result, left // p.vector)
    yield results, _clamp(p.vector, p.all_places, places_for(p.data, results))

    most = p.cache // (2 * _LEAST_RESULTS * per_place + 2 * per_channel)
    most = max(1, most)
    if most < p.data:
        channels = p.data // max(1, p.data // most)
        left = p.cache - 2 * per_channel * channels
        places = max(1, left // (2 * channels * per_place))
        results = p.cache // 2 // places
        if results > p.result:
            results = p.result
            places = _clamp(p.vector, p.all_places, places_for(channels, results))
        elif places > p.all_places:
            places = p.all_places
            left = p.cache - (per_place * places + per_channel) * channels
            results = _clamp(_LEAST_RESULTS, p.result, left // places)
        yield results, places

    places = places_for(p.data, p.result) // p.vector * p.vector
    yield p.result, max(p.vector, places)


def _block(p: _Problem, results: int, places: int) -> _Block:
    results = min(p.result, _clamp(_LEAST_RESULTS, p.result, results))
    places = min(p.places, _clamp(p.vector, p.all_places, places))
    most = max(1, _most_channels(p, results, places))
    return _Block(results, places, max(1, p.data // -(-p.data // most)))


def _most_channels(p: _Problem, results: int, places: int) -> int:
    """Data channels with which the block stays in the cache."""
    moved = (p.step + p.taps) * places
    left = p.cache - results * places
    careful = left // (moved + p.taps * p.result)
    if places < p.all_places:
        return careful
    most = p.cache // moved
    if results < p.result:
        most = min(most, left // (p.taps * (places + results)))
    return careful if most < p.data else most


def _estimate(p: _Problem, block: _Block) -> float:
    depth = p.data * p.taps
    part = block.channels * p.taps
    passes = -(-p.data // block.channels)
    miss = _CACHE_MISS if _most_channels(p, block.results, block.places) < 1 else 1
    aligned = _up(block.places, p.vector)

    read = p.taps * p.data * _up(p.all_places * p.step, p.vector)
    unfolded = 2 * read * aligned / block.places
    unfolded *= _STRIDED if p.strided_rows else 1
    weights = p.result * _up(depth, p.vector)
    written = p.result * _up(p.all_places, p.vector) * (2 * passes - 1)
    moved = miss * (read + unfolded + weights + written)
    arithmetic = p.all_places / p.vector * p.result * depth

    filled = (
        _share(p.result, block.results)
        * _share(p.places, block.places)
        * _share(p.data, block.channels)
        * _share(block.places, _REGISTER_VECTORS * p.vector)
    )
    done = block.places * block.results * part
    of_all = done / (p.result * p.all_places * depth)
    touched = (
        aligned * part + block.results * _up(part, p.vector) + block.results * aligned
    )
    return filled * arithmetic / moved * sqrt(of_all) * done / p.vector / touched


def _share(size: int, unit: int) -> float:
    return size / _up(size, unit)


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


def _clamp(low: int, high: int, size: int) -> int:
    """`low` counts more than `high`."""
    return max(low, min(high, size))
