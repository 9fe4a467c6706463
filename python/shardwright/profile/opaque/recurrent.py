"""LSTM layers of oneDNN: a workspace for backward, packed weights, scratch.

Rows of its matrices start on cache lines and avoid multiples of 1 KiB; sections of
a workspace start on pages. Read off allocations of torch 2.13 (oneDNN 3.12), for
float32; there is no sharding rule, so amounts are numbers.
"""

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from shardwright.profile.opaque.call import KernelCall, whole
from shardwright.profile.opaque.scratch import Alternative, Part

__all__ = ["layer", "layer_backward", "workspace_bytes"]

_ITEM = 4  # bytes of a float32
_LINE, _CONFLICT = 16, 256  # floats in a cache line, and of rows that collide
_PAGE = 4096  # bytes
_HEADER = 568  # bytes of a scratchpad beside its sections
_GATES = 4


def _row(floats: int) -> int:
    padded = -(-floats // _LINE) * _LINE
    return padded + _LINE if padded % _CONFLICT == 0 else padded


def _pages(floats: int) -> int:
    return -(-floats * _ITEM // _PAGE) * _PAGE


def workspace_bytes(args: Sequence[Any]) -> int:
    """Gates and outputs of each step; hidden states of the layer and both their
    gradients; cell states and theirs, all with the step before the first."""
    data, hidden = args[0], args[5].shape[-1]
    steps, batch, features = data.shape
    states = 2 * (steps + 1) * batch
    return (
        _pages(steps * batch * _row(_GATES * hidden))
        + _pages(steps * batch * _row(hidden))
        + 3 * _pages(states * _row(max(features, hidden)))
        + 2 * _pages(states * hidden)
    )


def _scratch(data: Tensor, hidden: int) -> int:
    """Gates of all steps, and three rows of states."""
    steps, batch, _ = data.shape
    gates = _pages(steps * batch * _row(_GATES * hidden))
    return gates + 3 * _pages(batch * _row(hidden)) + _HEADER


def layer(call: KernelCall) -> list[Alternative]:
    """Results, the sum of the biases, weights by rows of gates."""
    data, hidden = call.args[0], call.args[5].shape[-1]
    gates = _GATES * hidden
    packed = (data.shape[-1] + hidden) * _row(gates)
    results = tuple(map(whole, call.results[:3]))
    train = call.args[-1]
    kept = workspace_bytes(call.args) if train else 0
    floats = gates + packed
    return [
        Alternative((*results, Part(kept + _ITEM * floats + _scratch(data, hidden))))
    ]


def layer_backward(call: KernelCall) -> list[Alternative]:
    """The gradients and those that were not given, weights by rows of states
    unless they lie so, and gradients of weights by rows of gates."""
    data, hidden = call.args[0], call.args[5].shape[-1]
    gates = _GATES * hidden
    floats = 2 * gates + (data.shape[-1] + hidden) * _row(gates)
    for size in (data.shape[-1], hidden):
        floats += gates * _row(size) if _row(size) != size else 0
    states = [whole(call.args[5])] * 4
    given = call.args[10]
    if given is not None and not given.is_contiguous():
        states.append(whole(given))
    results = tuple(map(whole, call.results))
    return [
        Alternative((*results, *states, Part(_ITEM * floats + _scratch(data, hidden))))
    ]
