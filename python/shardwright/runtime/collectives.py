"""Collectives along one named mesh axis, as functional custom ops.

Each takes a local tensor and returns a new contiguous one; none is
differentiable by itself (`convert` pairs a forward with a backward). Custom
ops, so that fake tensors, selective checkpointing and fx see one opaque op.

Uneven dims follow torch.chunk (`axes.chunk`): pieces are exchanged at their
true sizes, nothing is padded, empty pieces are legal.

What each allocates from torch's allocator, besides reading its input. `in` and
`out` are the bytes of the local input and output; a dim is *outer* when all
dims before it have size 1 (always so for dim 0). Identity everywhere: an axis
of size 1 returns its input.

| kind           | output | transient, freed before it returns                   |
|----------------|--------|------------------------------------------------------|
| all_gather     | out    | dim outer: 0; else out (pieces, then one unpack)     |
| reduce_scatter | out    | w*out received pieces; dim not outer: + in (packed), |
|                |        | freed before `out` is made                           |
| all_reduce     | in     | 0                                                    |
| all_to_all     | out    | to_dim not outer: + in (packed), freed before unpack;|
|                |        | dim not outer: + out (received pieces)               |
| slice          | out    | 0                                                    |
| make_partial   | in     | 0 (coordinate 0 returns its input, allocates nothing)|

An input that is not contiguous costs all_gather one more `in` (reduce_scatter
and all_to_all too, when dim resp. to_dim is outer; otherwise packing copies
anyway). `convert` therefore hands over tensors with their dims in the order in
which they lie in memory. `transient_bytes` below is the same table as code: the
highest level above (input + output) reached inside. On gloo a reduce_scatter is
an all_to_all and a local sum (gloo's own costs as much as an all_reduce), an
all_gather one broadcast per piece (gloo's own allocates a second output and
refuses uneven pieces). Other backends use their own for even dims.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor

from .axes import Axis
from .axes import axis as find_axis
from .recorder import record

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "make_partial",
    "reduce_scatter",
    "slice_local",
    "transient_bytes",
]

_REDUCTIONS = {"sum": dist.ReduceOp.SUM, "max": dist.ReduceOp.MAX}


# --- the public functions: record, then issue --------------------------------


def all_gather(x: Tensor, axis: str, dim: int, size: int) -> Tensor:
    """Shard(dim) -> Replicate; `size` is the gathered size of `dim`."""
    if find_axis(axis).size == 1:
        return x
    out: Tensor = _all_gather(x, axis, dim, size)
    record("all_gather", axis, _bytes(out))
    return out


def reduce_scatter(x: Tensor, axis: str, dim: int) -> Tensor:
    """Partial(sum) -> Shard(dim)."""
    if find_axis(axis).size == 1:
        return x
    record("reduce_scatter", axis, _bytes(x))
    out: Tensor = _reduce_scatter(x, axis, dim)
    return out


def all_reduce(x: Tensor, axis: str, reduction: str = "sum") -> Tensor:
    """Partial(reduction) -> Replicate; reduction "sum" or "max"."""
    if find_axis(axis).size == 1:
        return x
    record("all_reduce", axis, _bytes(x))
    out: Tensor = _all_reduce(x, axis, reduction)
    return out


def all_to_all(x: Tensor, axis: str, dim: int, to_dim: int, size: int) -> Tensor:
    """Shard(dim) -> Shard(to_dim); `size` is the gathered size of `dim`."""
    if find_axis(axis).size == 1:
        return x
    record("all_to_all", axis, _bytes(x))
    out: Tensor = _all_to_all(x, axis, dim, to_dim, size)
    return out


def slice_local(x: Tensor, axis: str, dim: int) -> Tensor:
    """Replicate -> Shard(dim): a copy, so that the full tensor can be freed."""
    where = find_axis(axis)
    if where.size == 1:
        return x
    offset, length = where.chunk(x.shape[dim])
    part = x.narrow(dim, offset, length)
    return part.clone(memory_format=torch.contiguous_format)


def make_partial(x: Tensor, axis: str) -> Tensor:
    """Replicate -> Partial(sum): coordinate 0 keeps x, the others hold 0."""
    if find_axis(axis).coordinate == 0:
        return x
    return torch.zeros_like(x, memory_format=torch.contiguous_format)


def transient_bytes(
    kind: str,
    *,
    in_bytes: int,
    out_bytes: int,
    axis_size: int,
    dim_outer: bool = True,
    to_dim_outer: bool = True,
    contiguous: bool = True,
) -> int:
    """Bytes above input + output at the worst moment inside.

    `dim_outer` speaks of the gathered, scattered or source dim, `to_dim_outer`
    of the target dim of an all_to_all, `contiguous` of the input.
    """
    if axis_size == 1 or kind in ("all_reduce", "slice", "make_partial"):
        return 0
    if kind == "all_gather":
        return (0 if dim_outer else out_bytes) + (0 if contiguous else in_bytes)
    if kind == "reduce_scatter":
        received = axis_size * out_bytes
        packed = 0 if dim_outer and contiguous else in_bytes
        # While packed lives, the output does not exist yet.
        return max(received, packed + received - out_bytes)
    if kind == "all_to_all":
        received = 0 if dim_outer else out_bytes
        packed = 0 if to_dim_outer and contiguous else in_bytes
        return max(received, packed)
    raise ValueError(f"[runtime] unknown collective kind: got '{kind}'")


# --- helpers -----------------------------------------------------------------


def _bytes(x: Tensor) -> int:
    return x.numel() * x.element_size()


def _group(where: Axis) -> dist.ProcessGroup:
    if where.group is None:
        raise RuntimeError(
            f"[runtime] axis '{where.name}' has no process group: expected a "
            "mesh of running processes, got fake axes with a real tensor. "
            "Try: FakeTensorMode, or axes.from_mesh(...)."
        )
    return where.group


def _resized(shape: Sequence[int], dim: int, size: int) -> list[int]:
    result = list(shape)
    result[dim] = size
    return result


def _is_outer(shape: Sequence[int], dim: int) -> bool:
    """Whether pieces along `dim` lie one after the other in memory."""
    return math.prod(shape[:dim]) == 1


def _packed(x: Tensor, dim: int, lengths: list[int]) -> Tensor:
    """x with its pieces along `dim` one after the other, as a flat tensor."""
    if _is_outer(x.shape, dim):
        return x.contiguous().view(-1)
    flat = x.new_empty(x.numel())
    offset = 0
    for piece in torch.split(x, lengths, dim):
        flat[offset : offset + piece.numel()].view(piece.shape).copy_(piece)
        offset += piece.numel()
    return flat


def _unpacked(
    flat: Tensor, shape: Sequence[int], dim: int, lengths: list[int]
) -> Tensor:
    """Inverse of `_packed`: `flat` holds the pieces of a tensor of `shape`."""
    if _is_outer(shape, dim):
        return flat.view(list(shape))
    out = flat.new_empty(list(shape))
    offset = 0
    for target in torch.split(out, lengths, dim):
        target.copy_(flat[offset : offset + target.numel()].view(target.shape))
        offset += target.numel()
    return out


def _broadcast_all(pieces: Sequence[Tensor], group: dist.ProcessGroup) -> None:
    """Every rank's piece to all ranks, all at once."""
    pending = [
        dist.broadcast(piece, group=group, group_src=source, async_op=True)
        for source, piece in enumerate(pieces)
        if piece.numel()
    ]
    for work in pending:
        work.wait()


@contextmanager
def _borrowed(group: dist.ProcessGroup, *buffers: Tensor) -> Iterator[None]:
    """Return only when nobody but the caller owns the buffers any more.

    The body must hand out views (`buffer.view(-1)`), not the buffers: a holder of
    the same tensor object would not count as an owner of its storage.

    gloo's threads drop a finished collective a moment after the caller goes on;
    until then its buffers are not free, and the memory of a step would depend
    on thread timing. The count is private: nothing public tells the owners of a
    storage. Usually no wait; at most one second.
    """
    storages = [buffer.untyped_storage() for buffer in buffers]
    before = [torch._C._storage_Use_Count(s._cdata) for s in storages]
    yield
    if dist.get_backend(group) != "gloo":
        return
    deadline = time.monotonic() + 1.0
    for storage, count in zip(storages, before, strict=True):
        while torch._C._storage_Use_Count(storage._cdata) > count:
            if time.monotonic() > deadline:
                return
            time.sleep(0)


# --- the custom ops ----------------------------------------------------------


@torch.library.custom_op("shardwright::all_gather", mutates_args=())
def _all_gather(x: Tensor, axis: str, dim: int, size: int) -> Tensor:
    where = find_axis(axis)
    group, lengths = _group(where), where.lengths(size)
    shape = _resized(x.shape, dim, size)
    x = x.contiguous()
    flat = x.new_empty(math.prod(shape))
    even = size % where.size == 0
    if even and dist.get_backend(group) != "gloo":
        dist.all_gather_single(flat, x.view(-1), group=group)
    else:
        rest = math.prod(shape[:dim]) * math.prod(shape[dim + 1 :])
        with _borrowed(group, flat):
            pieces = torch.split(flat, [length * rest for length in lengths])
            pieces[where.coordinate].copy_(x.view(-1))
            _broadcast_all(pieces, group)
            del pieces
    return _unpacked(flat, shape, dim, lengths)


@_all_gather.register_fake
def _(x: Tensor, axis: str, dim: int, size: int) -> Tensor:
    return x.new_empty(_resized(x.shape, dim, size))


@torch.library.custom_op("shardwright::reduce_scatter", mutates_args=())
def _reduce_scatter(x: Tensor, axis: str, dim: int) -> Tensor:
    where = find_axis(axis)
    group, size = _group(where), x.shape[dim]
    lengths = where.lengths(size)
    shape = _resized(x.shape, dim, lengths[where.coordinate])
    flat = _packed(x, dim, lengths)
    if size % where.size == 0 and dist.get_backend(group) != "gloo":
        out = x.new_empty(shape)
        dist.reduce_scatter_single(out.view(-1), flat, group=group)
        return out
    rest = x.numel() // size if size else 0
    mine = math.prod(shape)
    received = x.new_empty((where.size, mine))
    with _borrowed(group, flat, received):
        dist.all_to_all_single(
            received.view(-1),
            flat.view(-1),
            [mine] * where.size,
            [length * rest for length in lengths],
            group=group,
        )
    del flat
    return received.sum(0, dtype=x.dtype).view(shape)


@_reduce_scatter.register_fake
def _(x: Tensor, axis: str, dim: int) -> Tensor:
    return x.new_empty(_resized(x.shape, dim, find_axis(axis).chunk(x.shape[dim])[1]))


@torch.library.custom_op("shardwright::all_reduce", mutates_args=())
def _all_reduce(x: Tensor, axis: str, reduction: str) -> Tensor:
    out = x.clone(memory_format=torch.contiguous_format)
    group = _group(find_axis(axis))
    with _borrowed(group, out):
        dist.all_reduce(out.view(-1), op=_REDUCTIONS[reduction], group=group)
    return out


@_all_reduce.register_fake
def _(x: Tensor, axis: str, reduction: str) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


@torch.library.custom_op("shardwright::all_to_all", mutates_args=())
def _all_to_all(x: Tensor, axis: str, dim: int, to_dim: int, size: int) -> Tensor:
    where = find_axis(axis)
    send_lengths = where.lengths(x.shape[to_dim])
    receive_lengths = where.lengths(size)
    shape = _resized(x.shape, to_dim, send_lengths[where.coordinate])
    shape = _resized(shape, dim, size)
    flat = _packed(x, to_dim, send_lengths)
    send_rest = x.numel() // x.shape[to_dim] if x.shape[to_dim] else 0
    receive_rest = math.prod(shape[:dim]) * math.prod(shape[dim + 1 :])
    received, group = x.new_empty(math.prod(shape)), _group(where)
    with _borrowed(group, flat, received):
        dist.all_to_all_single(
            received.view(-1),
            flat.view(-1),
            [length * receive_rest for length in receive_lengths],
            [length * send_rest for length in send_lengths],
            group=group,
        )
    del flat
    return _unpacked(received, shape, dim, receive_lengths)


@_all_to_all.register_fake
def _(x: Tensor, axis: str, dim: int, to_dim: int, size: int) -> Tensor:
    part = find_axis(axis).chunk(x.shape[to_dim])[1]
    return x.new_empty(_resized(_resized(x.shape, to_dim, part), dim, size))
