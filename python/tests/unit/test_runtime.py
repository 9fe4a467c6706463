"""Runtime functions on one process: values, gradients, memory, refusals."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from shardwright.execute.memory import watch
from shardwright.runtime import axes, convert, recorder, regather
from shardwright.runtime.random_ops import seed_of
from shardwright.runtime.regions import effect, recompute
from shardwright.runtime.variants import (
    bind_variant,
    cross_entropy,
    local_variants,
    random,
    scaled_mean,
    sync_batch_norm,
    vocab_parallel_embedding,
)

aten = torch.ops.aten
F = torch.nn.functional


def test_chunk_is_torch_chunk():
    for size in range(12):
        for parts in range(1, 6):
            pieces = [len(p) for p in torch.arange(size).chunk(parts) if len(p)]
            mine = [axes.chunk(size, parts, i) for i in range(parts)]
            assert [n for _, n in mine if n] == pieces
            assert all(o + n <= size for o, n in mine)
            assert sum(n for _, n in mine) == size


def test_unknown_axis_is_named():
    with (
        axes.bound(axes.fake({"a": 2, "b": 3})),
        pytest.raises(ValueError, match="expected one of a, b, got 'z'"),
    ):
        axes.axis("z")


def test_real_tensors_need_real_processes():
    with (
        axes.bound(axes.fake({"a": 2})),
        pytest.raises(RuntimeError, match="no process group"),
    ):
        convert(torch.ones(2), (("all_reduce", "a"),))


def test_conversions_run_on_fake_tensors_without_processes():
    sizes = axes.fake({"a": 4}, {"a": 3})
    with FakeTensorMode(), axes.bound(sizes), recorder.recording() as records:
        x = torch.empty(1, 6, requires_grad=True)
        full = convert(x, (("all_gather", "a", 0, 7),), (("reduce_scatter", "a", 0),))
        assert full.shape == (7, 6)
        part = convert(full, (("all_to_all", "a", 1, 0, 24),))
        assert part.shape == (1, 24)
        full.sum().backward()
        assert x.grad.shape == (1, 6)
    assert [(r.kind, r.bytes, r.phase) for r in records] == [
        ("all_gather", 7 * 6 * 4, "forward"),
        ("all_to_all", 7 * 6 * 4, "forward"),
        ("reduce_scatter", 7 * 6 * 4, "backward"),
    ]


def test_conversions_keep_the_order_in_memory():
    """Of [batch, heads, length, size] that lies [batch, length, heads, size]."""
    order = (0, 2, 1, 3)
    with FakeTensorMode(), axes.bound(axes.fake({"a": 2})):
        x = torch.empty(4, 32, 1, 16).transpose(1, 2).requires_grad_()
        assert x.is_contiguous()  # with one head, memory does not tell
        out = convert(
            x, (("all_gather", "a", 1, 2),), (("slice", "a", 1),), order=order
        )
        assert x.is_contiguous()
        assert out.shape == (4, 2, 32, 16)
        assert out.permute(order).is_contiguous()
        (given,) = torch.autograd.grad(out, x, torch.empty(4, 2, 32, 16))
        assert given.is_contiguous()
        turned = torch.empty(4, 32, 6, 16).transpose(1, 2)
        for step in [
            ("all_reduce", "a"), ("reduce_scatter", "a", 1), ("slice", "a", 2),
            ("all_to_all", "a", 1, 2, 12), ("all_gather", "a", 3, 32),
        ]:  # fmt: skip
            made = convert(turned, (step,), order=order)
            assert made.permute(order).is_contiguous()
            assert not made._is_view()


def test_a_conversion_of_a_view_of_a_gathered_copy_is_an_ordinary_tensor():
    """Its steps speak of the view's dims: it cannot be made from the source."""
    with FakeTensorMode(), axes.bound(axes.fake({"a": 2})):
        weight = torch.empty(3, 8, requires_grad=True)
        steps = (("all_gather", "a", 0, 6),), (("reduce_scatter", "a", 0),)
        gathered = convert(weight, *steps, regather=True)
        turned = regather(aten.t.default, gathered)
        same = convert(turned)
        part = convert(turned, (("slice", "a", 1),), (("all_gather", "a", 1, 6),))
        for tensor in [turned, same, part]:
            out = regather(aten.sin.default, tensor)
            with recorder.recording() as records:
                torch.autograd.grad(
                    out, weight, torch.empty_like(out), retain_graph=True
                )
            # The copy again, or the gradient of the part.
            assert [r.kind for r in records].count("all_gather") == 1


def test_axis_of_one_rank_does_nothing():
    x = torch.ones(3, requires_grad=True)
    with axes.bound(axes.fake({"a": 1})), recorder.recording() as records:
        out = convert(x, (("all_reduce", "a"),), (("all_reduce", "a"),))
        assert out.data_ptr() == x.data_ptr()
        out.sum().backward()
    assert torch.equal(x.grad, torch.ones(3))
    assert records == []


def test_backward_finds_the_axes_of_its_own_forward():
    with FakeTensorMode():
        with axes.bound(axes.fake({"a": 2})):
            x = torch.empty(4, requires_grad=True)
            out = convert(x, (), (("all_reduce", "a"),))
        with axes.bound(axes.fake({"other": 8})):
            out.sum().backward()  # would not find "a" here
    assert x.grad.shape == (4,)


# --- gather again -------------------------------------------------------------


def test_regathered_weight_is_not_kept_and_made_again():
    with FakeTensorMode(), axes.bound(axes.fake({"a": 2})):
        for again in (True, False):
            x = torch.empty(5, 8, requires_grad=True)
            weight = torch.empty(3, 8, requires_grad=True)
            gathered = convert(
                weight, (("all_gather", "a", 0, 6),), (("reduce_scatter", "a", 0),),
                regather=again,
            )  # fmt: skip
            turned = regather(aten.t.default, gathered)
            out = regather(aten.mm.default, x, turned)
            alive = weakref.ref(gathered)
            del gathered, turned
            gc.collect()
            assert (alive() is None) == again
            with recorder.recording() as records:
                out.sum().backward()
            kinds = [(r.kind, r.phase) for r in records]
            gathers = [("all_gather", "backward")] if again else []
            assert kinds == [*gathers, ("reduce_scatter", "backward")]
            assert weight.grad.shape == (3, 8)
            assert x.grad.shape == (5, 8)


@pytest.mark.parametrize(
    ("op", "gathers"),
    [
        (lambda w: regather(aten.mul.Tensor, w, w), 1),  # saves it twice
        (lambda w: regather(aten.relu.default, w), 0),  # saves its result
        (lambda w: regather(aten.add.Tensor, w, 1.0), 0),  # saves nothing
        (lambda w: regather(aten.sin.default, regather(aten.t.default, w)), 1),
        (lambda w: regather(aten.sin.default, w) + regather(aten.cos.default, w), 2),
    ],
)
def test_one_gather_per_reader_that_saves(op, gathers):
    with FakeTensorMode(), axes.bound(axes.fake({"a": 2})):
        weight = torch.empty(3, 8, requires_grad=True)
        steps = (("all_gather", "a", 0, 6),), (("reduce_scatter", "a", 0),)
        loss = op(convert(weight, *steps, regather=True)).sum()
        for _ in range(2):  # the second time through the same graph
            with recorder.recording() as records:
                loss.backward(retain_graph=True)
            assert [r.kind for r in records].count("all_gather") == gathers


# --- regions ------------------------------------------------------------------


def test_recomputed_region_draws_and_updates_once():
    count = torch.zeros(())
    seen = []

    def region(count, x, step):
        effect(aten.add_.Tensor, (0,), count, 1)
        y = random(aten.dropout.default, "key", step, x, 0.5, True)
        seen.append(y.detach().clone())
        return torch.sin(y) * torch.cos(y)

    x = torch.ones(50, requires_grad=True)
    out = recompute(region, (count,), x, 3)
    out.sum().backward()
    assert count == 1
    assert torch.equal(seen[0], seen[1])
    assert len(seen) == 2
    kept = (seen[0] != 0).sum().item()
    assert 0 < kept < 50


# --- random -------------------------------------------------------------------


def test_seeds_depend_on_all_they_should():
    here = axes.fake({"a": 2, "b": 2}, {"a": 1, "b": 0})
    there = axes.fake({"a": 2, "b": 2}, {"a": 1, "b": 1})
    with axes.bound(here):
        base = seed_of(0, "op", ("a", "b"))
        only_a = seed_of(0, "op", ("a",))
        others = {seed_of(1, "op", ("a", "b")), seed_of(0, "no", ("a", "b")), only_a}
        assert base not in others
    with axes.bound(there):
        assert seed_of(0, "op", ("a", "b")) != base
        assert seed_of(0, "op", ("a",)) == only_a


def test_random_ops_keep_their_rate_and_the_users_stream():
    torch.manual_seed(1)
    before = torch.get_rng_state()
    x = torch.ones(100_000)
    out = random(aten.dropout.default, "k", 0, x, 0.3, True)
    drawn = random(aten.bernoulli.p, "k", 0, x, 0.3)
    assert torch.equal(before, torch.get_rng_state())
    sigma = (0.3 * 0.7 / x.numel()) ** 0.5
    assert abs((out == 0).float().mean() - 0.3) < 3 * sigma
    assert abs(drawn.mean() - 0.3) < 3 * sigma


# --- variants, whole -----------------------------------------------------------


def _same_gradients(mine, theirs, *leaves):
    got = torch.autograd.grad(mine, leaves)
    expected = torch.autograd.grad(theirs, leaves)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("shape", [(6, 5), (2, 5, 3), (5,)])
def test_cross_entropy_equals_torch(reduction, shape):
    torch.manual_seed(0)
    logits = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    rows = shape[:1] + shape[2:] if len(shape) > 1 else ()
    target = torch.randint(0, 5, rows)
    if rows:
        target.view(-1)[::4] = -100
    number = {"mean": 1, "sum": 2}[reduction]
    mine = cross_entropy(
        logits, target, None, number, row_axes=(), class_axes=(), num_classes=5
    )
    theirs = F.cross_entropy(logits, target, reduction=reduction)
    torch.testing.assert_close(mine, theirs, rtol=1e-13, atol=0)
    _same_gradients(mine * 3, theirs * 3, logits)


def test_cross_entropy_of_nothing_is_not_a_number():
    target = torch.full((3,), -100)
    loss = cross_entropy(
        torch.randn(3, 4), target, row_axes=(), class_axes=(), num_classes=4
    )
    assert loss.isnan()
    assert F.cross_entropy(torch.randn(3, 4), target).isnan()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"label_smoothing": 0.1}, "label_smoothing"),
        ({"weight": torch.ones(4)}, "weight"),
        ({"reduction": 0}, "reduction"),
        ({"target": torch.rand(3, 4)}, "target"),
        ({"num_classes": 9}, "logits"),
    ],
)
def test_cross_entropy_refuses_by_name(change, name):
    arguments = {
        "logits": torch.randn(3, 4), "target": torch.zeros(3, dtype=torch.long),
        "row_axes": (), "class_axes": (), "num_classes": 4, **change,
    }  # fmt: skip
    with pytest.raises(ValueError, match=f"does not do this {name}"):
        cross_entropy(**arguments)


@pytest.mark.parametrize("padding", [-1, 2])
def test_embedding_equals_torch(padding):
    torch.manual_seed(0)
    weight = torch.randn(7, 3, dtype=torch.float64, requires_grad=True)
    ids = torch.tensor([[2, 6, 0], [2, 2, 5]])
    mine = vocab_parallel_embedding(weight, ids, padding, axes=(), size=7)
    theirs = aten.embedding.default(weight, ids, padding)
    assert torch.equal(mine, theirs)
    _same_gradients(mine.square().sum(), theirs.square().sum(), weight)


@pytest.mark.parametrize("coordinate", [0, 1, 3])
def test_embedding_of_a_part_of_the_rows(coordinate):
    """5 rows over 4 ranks: 2, 2, 1 and none."""
    full = torch.randn(5, 3, dtype=torch.float64)
    where = axes.fake({"a": 4}, {"a": coordinate})
    ids = torch.tensor([0, 1, 2, 3, 4, 4])
    with axes.bound(where):
        offset, length = axes.axis("a").chunk(5)
        part = full[offset : offset + length].clone().requires_grad_()
        out = vocab_parallel_embedding(part, ids, axes=("a",), size=5)
    mine = (ids >= offset) & (ids < offset + length)
    assert torch.equal(out.detach(), full[ids] * mine.unsqueeze(-1))
    out.sum().backward()
    counts = torch.bincount(ids, minlength=5)[offset : offset + length]
    assert torch.equal(part.grad, counts.double().unsqueeze(-1).expand(-1, 3))


@pytest.mark.parametrize("shape", [(6, 3), (2, 3, 4), (2, 3, 4, 2)])
@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_equals_torch(shape, affine):
    torch.manual_seed(0)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, dtype=torch.float64, requires_grad=True) if affine else None
    bias = torch.randn(3, dtype=torch.float64, requires_grad=True) if affine else None
    stats = [torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
    other = [s.clone() for s in stats]
    mine = sync_batch_norm(
        x, weight, bias, *stats, True, 0.1, 1e-5, axes=(), global_shape=shape
    )
    theirs = aten.batch_norm.default(x, weight, bias, *other, True, 0.1, 1e-5, False)
    torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(stats, other, rtol=1e-13, atol=1e-15)
    leaves = [t for t in (x, weight, bias) if t is not None]
    factor = torch.randn(shape, dtype=torch.float64)
    _same_gradients((mine * factor).sum(), (theirs * factor).sum(), *leaves)


@pytest.mark.parametrize(
    ("op", "extra"),
    [
        (aten.mse_loss.default, ()),
        (aten.l1_loss.default, ()),
        (aten.smooth_l1_loss.default, ()),
        (aten.huber_loss.default, ()),
        (aten.kl_div.default, ()),
        (aten.soft_margin_loss.default, ()),
        (aten.binary_cross_entropy_with_logits.default, (None, None)),
    ],
)
def test_scaled_losses_equal_torch(op, extra):
    torch.manual_seed(0)
    x = torch.rand(4, 3, dtype=torch.float64, requires_grad=True)
    y = torch.rand(4, 3, dtype=torch.float64)
    mine = scaled_mean(op, x, y, *extra, 1, global_count=12)
    theirs = op(x, y, *extra, 1)
    torch.testing.assert_close(mine, theirs)
    _same_gradients(mine, theirs, x)


def test_scaled_means_equal_torch_and_others_are_refused():
    x = torch.rand(4, 3, dtype=torch.float64)
    torch.testing.assert_close(
        scaled_mean(aten.mean.dim, x, [0], True, global_count=4), x.mean(0, True)
    )
    torch.testing.assert_close(
        scaled_mean(aten.mean.default, x, global_count=12), x.mean()
    )
    with pytest.raises(ValueError, match="does not know this op"):
        scaled_mean(aten.median.default, x, global_count=12)
    with pytest.raises(ValueError, match="is for another op"):
        bind_variant(
            "cross_entropy", aten.add.Tensor, (), {}, {}, first_operand_shape=[]
        )


def test_every_variant_runs_alone_on_fake_tensors():
    """What profiling calls: local tensors, no processes, forward and backward."""
    functions = local_variants()
    calls = {
        "vocab_parallel_embedding": lambda: (
            aten.embedding.default,
            (torch.empty(5, 4, requires_grad=True), torch.zeros(3, dtype=torch.long)),
        ),
        "cross_entropy": lambda: (
            aten.cross_entropy_loss.default,
            (torch.empty(6, 5, requires_grad=True), torch.zeros(6, dtype=torch.long)),
        ),
        "sync_batch_norm": lambda: (
            aten.batch_norm.default,
            (
                torch.empty(4, 3, 2, requires_grad=True),
                *(torch.ones(3) for _ in range(4)),
                *(True, 0.1, 1e-5, False),
            ),
        ),
        "scaled_mean": lambda: (
            aten.mean.dim,
            (torch.empty(4, 3, requires_grad=True), [0]),
        ),
        "random": lambda: (
            aten.dropout.default,
            (torch.empty(4, requires_grad=True), 0.5, True),
        ),
    }
    assert set(calls) == set(functions)
    for name, function in functions.items():
        with FakeTensorMode():
            op, args = calls[name]()
            with recorder.recording() as records:
                out = function(op, args, {})
                out.sum().backward()
        assert args[0].grad.shape == args[0].shape
        issued = [(r.kind, r.axis, r.bytes, r.phase) for r in records]
        assert issued == _EXPECTED.get(name, []), name


# The internal collectives of the plan format, per rank.
_EXPECTED = {
    "cross_entropy": [
        ("all_reduce", "half", 8, "forward"),
        ("all_reduce", "other", 6 * 4, "forward"),
        ("all_reduce", "other", 2 * 6 * 4, "forward"),
    ],
    "sync_batch_norm": [
        ("all_reduce", "half", 3 * 4, "forward"),
        ("all_reduce", "half", 3 * 4, "forward"),
        ("all_reduce", "half", 2 * 3 * 4, "backward"),
    ],
}


def test_watch_counts_bytes():
    seen = watch(lambda: torch.empty(1000).exp().exp())
    assert seen.events == (4000, 4000, -4000, 4000, -4000, -4000)
    assert seen.peak_bytes == 8000
    assert seen.kept_bytes == 0
    kept = []
    assert watch(lambda: kept.append(torch.empty(7))).kept_bytes == 28
