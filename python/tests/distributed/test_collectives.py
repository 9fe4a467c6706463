"""Every collective against arithmetic on full tensors: values, gradients, bytes."""

from __future__ import annotations

import itertools

import torch
from torch.distributed.device_mesh import init_device_mesh

from shardwright.execute.memory import watch
from shardwright.runtime import axes, collectives, recorder
from shardwright.runtime.convert import convert
from tests.support.ranks import run_ranks

# (symbol before, after, gradient symbol given back, gradient symbol wanted).
# R: equal on all ranks. P: to be summed. 0, 1: split along that dim.
CONVERSIONS = [
    (0, "R", "P", 0), (1, "R", "P", 1), (1, "R", "R", 1), (0, "R", "R", 0),
    ("P", "R", "R", "R"), ("R", "R", "P", "R"), ("P", 0, 0, "R"), ("P", 1, 1, "R"),
    ("R", 0, 0, "R"), ("R", 1, 1, "R"), (0, 1, 1, 0), (1, 0, 0, 1),
    ("R", "P", "R", "R"),
]  # fmt: skip
# Over two ranks: even, uneven, a rank without rows, no rows at all.
SHAPES = [(4, 6), (3, 5), (1, 4), (5, 1), (0, 3)]


def _steps(start, end, axis, shape):
    if start == end:
        return ()
    if start == "P":
        return (
            (("all_reduce", axis) if end == "R" else ("reduce_scatter", axis, end)),
        )
    if start == "R":
        return ((("make_partial", axis) if end == "P" else ("slice", axis, end)),)
    if end == "R":
        return (("all_gather", axis, start, shape[start]),)
    return (("all_to_all", axis, start, end, shape[start]),)


def _tensor(shape, dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def _local(symbol, shape, dtype, where, seed):
    """(this rank's part, the whole value) of a tensor that lies as `symbol`.

    Small integers: sums are exact in every dtype.
    """
    if symbol == "P":
        parts = [_tensor(shape, dtype, seed + r) for r in range(where.size)]
        return parts[where.coordinate], sum(parts)
    full = _tensor(shape, dtype, seed)
    if symbol == "R":
        return full, full
    offset, length = where.chunk(shape[symbol])
    return full.narrow(symbol, offset, length).clone(), full


def _part(full, symbol, where):
    if isinstance(symbol, int):
        return full.narrow(symbol, *where.chunk(full.shape[symbol]))
    return full


def _check(got, full, symbol, where, about):
    if symbol == "P":
        got = collectives.all_reduce(got.detach(), where.name)
        symbol = "R"
    expected = _part(full, symbol, where)
    assert got.shape == expected.shape, (about, got.shape, expected.shape)
    assert torch.equal(got, expected), (about, got, expected)
    assert got.is_contiguous(), about


OTHER_DTYPES = [torch.float64, torch.bfloat16, torch.int64]


def _all_conversions(where, transposed, shapes=SHAPES, dtypes=(torch.float32,)):
    for (start, end, given, wanted), shape, dtype in itertools.product(
        CONVERSIONS, shapes, dtypes
    ):
        about = (where.name, start, end, given, wanted, shape, dtype, transposed)
        x, full = _local(start, shape, dtype, where, seed=3)
        if transposed:
            x = x.t().contiguous().t()
        forward = _steps(start, end, where.name, shape)
        backward = _steps(given, wanted, where.name, shape)
        differentiable = dtype.is_floating_point
        x.requires_grad_(differentiable)
        order = (1, 0) if transposed else None
        out = convert(x, forward, backward, order=order, grad_order=order)
        if not forward:
            assert out.data_ptr() == x.data_ptr(), about
        _check(out.contiguous(), full, end, where, about)
        if differentiable:
            gradient, full_gradient = _local(given, shape, dtype, where, seed=50)
            if transposed:
                gradient = gradient.t().contiguous().t()
            out.backward(gradient)
            _check(x.grad.contiguous(), full_gradient, wanted, where, about)


def _bytes_recorded(where):
    with recorder.recording() as records:
        x = torch.ones(4, 6, requires_grad=True)
        out = convert(x, (("all_reduce", where.name),), (("make_partial", where.name),))
        convert(out, (), (("reduce_scatter", where.name, 0),))
        y = torch.ones(2, 6, requires_grad=True)
        gathered = convert(
            y, (("all_gather", where.name, 0, 4),), (("reduce_scatter", where.name, 0),)
        )
        gathered.sum().backward()
        convert(y, (("all_to_all", where.name, 0, 1, 4),))
    assert [(r.kind, r.axis, r.bytes, r.phase) for r in records] == [
        ("all_reduce", where.name, 96, "forward"),
        ("all_gather", where.name, 96, "forward"),
        ("reduce_scatter", where.name, 96, "backward"),
        ("all_to_all", where.name, 48, "forward"),
    ]


def _with_gaps(x):
    return torch.stack((x, x), -1)[..., 0]


# Ways to lie in memory: a copy that does, and the order of its dims.
LAYOUTS = [
    (lambda x: x, (0, 1)),
    (lambda x: x.t().contiguous().t(), (1, 0)),
    (_with_gaps, (0, 1)),
    (lambda x: _with_gaps(x.t()).t(), (1, 0)),
]


def _allocations(where):
    """The table of `collectives` is what the allocator sees, to the byte, however
    the dims lie; a conversion keeps their order."""
    for (start, end), shape, (lay, order) in itertools.product(
        [(0, "R"), (1, "R"), ("P", "R"), ("P", 0), ("P", 1), (0, 1), (1, 0), ("R", 0)],
        [(64, 96), (63, 95)],
        LAYOUTS,
    ):
        x = lay(_local(start, shape, torch.float32, where, seed=1)[0])
        ((kind, _, *_rest),) = steps = _steps(start, end, where.name, shape)
        out = convert(x, steps, order=order)
        assert out.permute(order).is_contiguous()
        dim = start if isinstance(start, int) else end
        predicted = collectives.transient_bytes(
            kind,
            in_bytes=x.nbytes,
            out_bytes=out.nbytes,
            axis_size=where.size,
            dim_outer=dim == order[0],
            to_dim_outer=end == order[0],
            contiguous=x.permute(order).is_contiguous(),
        )
        seen = watch(
            lambda x=x, steps=steps, order=order: convert(x, steps, order=order)
        )
        about = (kind, start, end, shape, order, seen.events)
        assert seen.peak_bytes == out.nbytes + predicted, (about, predicted)
        assert seen.kept_bytes == 0, about


def _work(rank):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    both = axes.from_mesh(mesh)
    with axes.bound(both):
        assert both.coordinates() == {"a": rank // 2, "b": rank % 2}
        for where in both.axes:
            _all_conversions(where, False)
            _all_conversions(where, False, SHAPES[1:2], OTHER_DTYPES)
            _all_conversions(where, True, SHAPES[:2])
            _bytes_recorded(where)
        _allocations(both.find("b"))
    line = axes.from_mesh(init_device_mesh("cpu", (4,), mesh_dim_names=("c",)))
    with axes.bound(line):  # four ranks: several empty parts, more than one full
        _all_conversions(line.find("c"), transposed=False)


def test_collectives_on_a_mesh_of_two_by_two():
    run_ranks(_work, 4)
