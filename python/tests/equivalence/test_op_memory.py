"""The peak of one op's step, as its record says and as the allocator counts it.

Every case of the sharding rules, and kernels whose scratch is known by formula
only: copies in another dtype, sums of masks, transforms, resizing, sorting. A
model holds nothing but the op; predictions above are safe but may refuse a
plan that fits, predictions below break a limit.
"""

import gc
import itertools
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from op_alone import peaks
from replay import measured, replay
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves, tree_map

from shardwright.capture import capture, rebuild_batch
from shardwright.profile import make_records

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from op_cases import CASES, made

SCALARS = 64  # bytes: numbers that a kernel is given, not modelled
# Title of a case -> why its prediction may miss, and the share it is too high.
TOO_HIGH = {
    "prod.dim_int": (0.8, "counts the form for data with a zero in it"),
    "cumprod": (0.8, "counts the form for data with a zero in it"),
    "diff": (0.1, "adds the gradients of both parts out of place"),
    "embedding_bag.default:max": (0.4, "bags that are empty take less"),
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="module")
def nothing_old_to_collect():
    """A measurement begins with a collection; what torch has loaded stays."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


class OneCase(nn.Module):
    """Floating operands are parameters times 1, so that their gradients are
    handed on; the loss weighs every result."""

    def __init__(self, case):
        super().__init__()
        self.case = case
        values = [made(arg, torch.Generator().manual_seed(0)) for arg in case.args]
        if case.same:
            values[1] = values[0]
        numbers = itertools.count()

        def register(value):
            if not isinstance(value, Tensor):
                return value
            number = next(numbers)
            if value.is_floating_point():
                learns = number not in case.frozen
                parameter = nn.Parameter(value.float(), requires_grad=learns)
                self.register_parameter(f"t{number}", parameter)
            else:
                self.register_buffer(f"t{number}", value)
            return (f"t{number}",)

        self.spec = tree_map(register, values)
        results = tree_leaves(case.op(*self.operands(), **case.kwargs))
        self.weighted = [
            number
            for number, result in enumerate(results)
            if isinstance(result, Tensor)
            and result.requires_grad
            and result.is_floating_point()
        ]
        for number in self.weighted:
            self.register_buffer(f"w{number}", torch.randn(results[number].shape))

    def operands(self):
        found = [self._operand(spec) for spec in self.spec]
        if self.case.same:
            found[1] = found[0]
        return found

    def _operand(self, spec):
        if isinstance(spec, list):
            return [self._operand(item) for item in spec]
        if isinstance(spec, tuple):
            tensor = getattr(self, spec[0])
            return tensor * 1 if tensor.requires_grad else tensor
        return spec

    def forward(self, x):
        results = tree_leaves(self.case.op(*self.operands(), **self.case.kwargs))
        loss = x.sum()
        for number in self.weighted:
            loss = loss + (results[number] * getattr(self, f"w{number}")).sum()
        return loss


class OneFunction(nn.Module):
    def __init__(self, function, shape, dtype):
        super().__init__()
        self.function = function
        self.a = nn.Parameter(torch.randn(shape).to(dtype))

    def forward(self, x):
        result = self.function(self.a * 1, x)
        return result if result.dim() == 0 else (result * 0.5).float().sum()


ROWS = (24, 6, 36)
IMAGE = (3, 6, 10, 10)
BFLOAT16 = torch.bfloat16


def whole_numbers(high, shape=ROWS, dtype=torch.int64):
    return torch.arange(torch.Size(shape).numel()).remainder(high).to(dtype).view(shape)


# name -> (function of the parameter and the input, shape, input, dtype)
FUNCTIONS = {
    "mask": (lambda a, x: a * (x > 0), ROWS),
    "int64": (lambda a, x: a * x, ROWS, whole_numbers(3)),
    "int32": (lambda a, x: a + x, ROWS, whole_numbers(3, dtype=torch.int32)),
    "row_of_int64": (
        lambda a, x: a * x.unsqueeze(-1), ROWS, whole_numbers(2, (24, 6)),
    ),
    "half_and_single": (lambda a, x: a * x, ROWS, torch.randn(ROWS), BFLOAT16),
    "where_promotes": (lambda a, x: torch.where(x > 1, a, x), ROWS, whole_numbers(3)),
    "mean_of_half": (lambda a, x: a.mean(-1), ROWS, None, BFLOAT16),
    "sum_of_half": (
        lambda a, x: a.sum(-1, dtype=torch.float32), ROWS, None, BFLOAT16,
    ),
    "running_count": (lambda a, x: a * (x > 0).cumsum(1), ROWS),
    "one_hot": (
        lambda a, x: a * F.one_hot(x, 36), ROWS, whole_numbers(36, (24, 6)),
    ),
    "attention_bias": (
        lambda a, x: F.scaled_dot_product_attention(
            x * a.sum(), x * a.mean(), x * a.sum(), attn_mask=a
        ),
        (3, 16, 16),
        torch.randn(6, 3, 16, 8),
    ),
    "modulus": (lambda a, x: torch.fft.rfft(a).abs(), ROWS),
    "maximum": (lambda a, x: a.max(), ROWS),
    "median": (lambda a, x: a.median(), ROWS),
    "amax": (lambda a, x: a.amax(-1), ROWS),
    "amin": (lambda a, x: a.amin((0, 1)), ROWS),
    "top": (lambda a, x: a.topk(6, -1)[0], ROWS),
    "sort": (lambda a, x: a.sort(-1)[0], ROWS),
    "argsort": (lambda a, x: a.gather(-1, a.argsort(-1)), ROWS),
    "kth_value": (lambda a, x: a.kthvalue(3, -1)[0], ROWS),
    "unfold": (lambda a, x: a.unfold(-1, 4, 2), ROWS),
    "rfft": (lambda a, x: torch.fft.irfft(torch.fft.rfft(a) * 2, n=36), ROWS),
    "rfft_dim": (lambda a, x: torch.fft.rfft(a, dim=1).real, ROWS),
    "rfft2": (lambda a, x: torch.fft.irfft2(torch.fft.rfft2(a) * 2), ROWS),
    "fft_dim": (lambda a, x: torch.fft.fft(a, dim=1).real, ROWS),
    "fft2": (lambda a, x: torch.fft.fft2(a).real, ROWS),
    "batch_norm_rows": (
        lambda a, x: F.batch_norm(a, None, None, training=True), (28, 36),
    ),
    "layer_norm": (lambda a, x: F.layer_norm(a, (36,)), ROWS),
    "resize_nearest": (lambda a, x: F.interpolate(a, scale_factor=2), IMAGE),
    "resize_linear": (
        lambda a, x: F.interpolate(a, scale_factor=2, mode="bilinear"), IMAGE,
    ),
    "resize_colors": (
        lambda a, x: F.interpolate(a, scale_factor=2, mode="bilinear"),
        (2, 3, 80, 40),
    ),
    "resize_cubic": (
        lambda a, x: F.interpolate(a, scale_factor=2, mode="bicubic"), IMAGE,
    ),
    "patches": (lambda a, x: F.unfold(a, 3, padding=1), IMAGE),
    "fold": (lambda a, x: F.fold(a, (10, 10), 3), (3, 18, 64)),
    "shuffle": (lambda a, x: F.pixel_shuffle(a[:, :4], 2), IMAGE),
    "volumes": (
        lambda a, x: F.conv3d(x, a, padding=1), (6, 2, 3, 3, 3),
        torch.randn(4, 2, 6, 6, 6),
    ),
    "upscale": (
        lambda a, x: F.conv_transpose1d(x, a, stride=5), (16, 1, 5),
        torch.randn(5, 16, 41),
    ),
    "patch_embedding": (
        lambda a, x: F.conv2d(x, a, stride=16), (16, 3, 16, 16),
        torch.randn(2, 3, 64, 64),
    ),
}  # fmt: skip


# Ops whose forward and backward are also looked at alone: name -> (function of
# parameters, values, share it is too high: bounds where data or layouts decide).
def spread(a):
    """Positive definite."""
    return a @ a.mT + 3 * torch.eye(a.shape[-1])


def masked(m, *shape):
    return torch.arange(torch.Size(shape).numel()).remainder(m).view(shape) == 0


MATRIX, MATRICES, TALL = (64, 64), (3, 20, 20), (3, 30, 20)
BOUND = 1.2  # where data decide
ALONE = {
    "svd": (torch.linalg.svd, [MATRICES]),
    "svd_reduced": (lambda a: torch.linalg.svd(a, full_matrices=False), [TALL]),
    "svd_in_blocks": (torch.linalg.svd, [MATRIX]),
    "svdvals": (torch.linalg.svdvals, [TALL]),
    "nuclear_norm": (lambda a: torch.linalg.matrix_norm(a, "nuc"), [(30, 20)]),
    "eigh": (lambda a: torch.linalg.eigh(spread(a)), [MATRICES]),
    "eigh_in_blocks": (lambda a: torch.linalg.eigh(spread(a)), [MATRIX]),
    "eigvalsh": (lambda a: torch.linalg.eigvalsh(spread(a)), [MATRICES]),
    "eigvals": (lambda a: torch.linalg.eigvals(a).abs(), [(20, 20)]),
    "qr": (torch.linalg.qr, [TALL]),
    "qr_in_blocks": (torch.linalg.qr, [(100, 80)], 0.2),
    "pinv": (torch.linalg.pinv, [TALL]),
    "inverse": (torch.linalg.inv, [MATRICES]),
    "cholesky": (lambda a: torch.linalg.cholesky(spread(a)), [MATRICES]),
    "cholesky_solve": (
        lambda a, b: torch.cholesky_solve(b, torch.linalg.cholesky(spread(a))),
        [MATRICES, (3, 20, 4)],
    ),
    "solve": (torch.linalg.solve, [MATRICES, (3, 20, 5)]),
    "solve_vectors": (torch.linalg.solve, [MATRICES, (3, 20)]),
    "det": (torch.linalg.det, [MATRICES]),
    "slogdet": (lambda a: torch.linalg.slogdet(a)[1], [MATRICES]),
    "lu": (torch.linalg.lu, [MATRICES]),
    "matrix_exp": (torch.matrix_exp, [MATRICES]),
    "matrix_exp_of_one": (torch.matrix_exp, [(20, 20)]),
    "matrix_exp_of_little": (lambda a: torch.matrix_exp(a * 1e-5), [(20, 20)], BOUND),
    "fill_everywhere": (
        lambda a, v: a.masked_fill(masked(1, 6, 36), v), [ROWS, ()],
    ),
    "fill_some": (lambda a, v: a.masked_fill(masked(2, 36), v), [ROWS, ()], BOUND),
    "fill_nothing": (
        lambda a, v: a.masked_fill(masked(1, *ROWS) & False, v), [ROWS, ()],
    ),
    "attention_rows_hidden": (
        lambda q, k, v: F.scaled_dot_product_attention(
            q, k, v, attn_mask=(torch.arange(24) > 4)[:, None].expand(24, 24)
        ),
        [(2, 4, 24, 8)] * 3,
    ),
    "attention_bias_rows_hidden": (
        lambda q, k, v, b: F.scaled_dot_product_attention(
            q, k, v, attn_mask=b.masked_fill(masked(1, 24, 1), -torch.inf)
        ),
        [*[(2, 4, 24, 8)] * 3, (4, 24, 24)],
    ),
    "product_of_spread": (lambda a, b: a.expand(20, 30) @ b, [(1, 30), (30, 40)]),
    "product_of_steps": (lambda a, b: a[:, ::2] @ b, [(40, 60), (30, 8)]),
    "products_of_steps": (lambda a, b: a[..., ::2] @ b, [(4, 20, 60), (4, 30, 8)]),
    "log_sum_exp": (lambda a: a.logsumexp(-1), [ROWS]),
    "softmax_of_columns": (lambda a: a.transpose(1, 2).softmax(-1), [ROWS]),
    "median": (lambda a: a.median(1)[0], [ROWS]),
    "layer_norm_of_columns": (
        lambda a, w: F.layer_norm(a.transpose(1, 2), (6,), w), [ROWS, (6,)],
    ),
    "roll": (lambda a: a.roll((1, 2), (0, 1)), [ROWS]),
    "columns_to_rows": (lambda a: a.t().contiguous(), [(80, 70)]),
    "count": (lambda a: a * torch.count_nonzero(a > 0, 1).unsqueeze(1), [ROWS]),
    "scatter_mean": (
        lambda a, b: a.scatter_reduce(0, whole_numbers(24, (30, 6, 36)), b, "mean"),
        [ROWS, (30, 6, 36)],
    ),
    "distances": (torch.cdist, [(40, 7), (50, 7)]),
    "mse": (F.mse_loss, [(40, 12)] * 2),
    "smooth_l1": (F.smooth_l1_loss, [(40, 12)] * 2),
    "huber": (F.huber_loss, [(40, 12)] * 2),
    "logistic": (
        lambda a, b: F.binary_cross_entropy_with_logits(
            a, b.detach().sigmoid(), pos_weight=torch.ones(12)
        ),
        [(40, 12)] * 2,
    ),
    "logistic_target": (
        F.binary_cross_entropy_with_logits, [(40, 12)] * 2,
    ),
    "soft_margin": (lambda a: F.soft_margin_loss(a, torch.ones(40, 12)), [(40, 12)]),
    "max_pool_last": (lambda a: F.max_pool2d(last(a), 2), [IMAGE]),
    "max_pool_of_columns": (lambda a: F.max_pool2d(a.mT, 2), [IMAGE]),
    "average_pool_last": (lambda a: F.avg_pool2d(last(a), 2), [IMAGE]),
    "adaptive_pool_last": (lambda a: F.adaptive_avg_pool2d(last(a), 3), [IMAGE]),
    "reflect_last": (lambda a: F.pad(last(a), (1,) * 4, mode="reflect"), [IMAGE]),
    "group_norm_last": (lambda a: F.group_norm(last(a), 2), [IMAGE]),
    "batch_norm_last": (
        lambda a: F.batch_norm(last(a), None, None, training=True), [IMAGE],
    ),
    "antialias": (
        lambda a: F.interpolate(
            a, size=(7, 7), mode="bilinear", antialias=True
        ),
        [IMAGE],
    ),
    "affine_grid": (
        lambda a: F.affine_grid(a, (4, 3, 8, 9), align_corners=False), [(4, 2, 3)],
    ),
    "bag_mean": (
        lambda a: F.embedding_bag(whole_numbers(50, (8, 20)), a), [(50, 16)], 0.2,
    ),
}  # fmt: skip


def last(image):
    return image.contiguous(memory_format=torch.channels_last)


class OpAlone(nn.Module):
    """The loss weighs every floating result of a function of parameters, which
    are multiplied (`times` is 1), so that their gradients are handed on."""

    def __init__(self, function, shapes, times=1):
        super().__init__()
        self.function, self.times = function, times
        torch.manual_seed(0)
        self.parameters_ = nn.ParameterList(torch.randn(shape) for shape in shapes)
        results = tree_leaves(function(*self.parameters_))
        self.weights = [
            torch.randn(r.shape) if r.requires_grad else None for r in results
        ]

    def forward(self, x):
        loss = x.sum()
        operands = [p * self.times if self.times else p for p in self.parameters_]
        results = tree_leaves(self.function(*operands))
        for result, weight in zip(results, self.weights, strict=True):
            if weight is not None:
                loss = loss + (result * weight).sum()
        return loss


# Gradients that autograd does not keep as they come: in another order than their
# parameter, spread out, or handed on to others as well.
STORED = {
    "order": (lambda a: a.t() * 3, [(60, 50)]),
    "products": (lambda a, b: a.mT @ b.mT, [(4, 20, 30), (4, 10, 20)]),
    "two_dims": (
        lambda a, b: torch.einsum("bin,ion->bo", a, b), [(8, 6, 5), (6, 14, 5)],
    ),
    "spread": (lambda a: a.sum(0), [(60, 40)]),
    "handed_on": (lambda a, b: a.sin() + b, [(60, 40), (60, 40)]),
    "both": (torch.add, [(60, 40), (60, 40)]),
    "summed": (lambda a: a.t() * 2 + a.sin().t(), [(50, 50)]),
}  # fmt: skip

# Gradients that come spread out, as those of a sum are.
OF_A_SUM = {
    "embedding": (lambda a: F.embedding(whole_numbers(50, (8, 20)), a), [(50, 16)]),
    "gelu": (F.gelu, [ROWS]),
    "lower": (torch.tril, [ROWS]),
    "linear": (F.linear, [(4, 20, 30), (10, 30), (10,)]),
    "grid": (
        lambda a, g: F.grid_sample(a, g.tanh(), align_corners=False),
        [IMAGE, (3, 7, 9, 2)],
    ),
    "resize_cubic": (
        lambda a: F.interpolate(a, scale_factor=2, mode="bicubic"), [IMAGE],
    ),
    "patches": (lambda a: F.unfold(a, 3, stride=2), [IMAGE]),
    "softmax": (lambda a: a.softmax(-1), [ROWS]),
    "max_pool": (lambda a: F.max_pool2d(a, 2), [IMAGE]),
}  # fmt: skip


def _profiled(model, batch):
    captured = capture(model, batch)
    no_rules = [{"rule": None, "factors": []}] * len(captured.graph["ops"])
    make_records(captured, no_rules, threads=1)
    return captured, captured.bind(batch or rebuild_batch(captured.graph["batch"]))


def _peaks(model, batch):
    """(predicted, measured) bytes of a second step above what was there."""
    captured, inputs = _profiled(model, batch)
    return replay(captured.graph).peak, measured(captured.module, inputs)[0]


def _check(title, predicted, measured):
    above = next((TOO_HIGH[name][0] for name in TOO_HIGH if name in title), 0.04)
    assert predicted >= measured - SCALARS
    if "AVX512" in torch.backends.cpu.get_cpu_capability():
        above += 1  # convolutions are read off AVX2 and are bounds elsewhere
    assert predicted <= measured * (1 + above) + 3 * SCALARS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_a_rules_case(case):
    model = OneCase(case)
    if not model.weighted:
        pytest.skip("no gradient")
    _check(case.title, *_peaks(model, (torch.zeros(1),)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_kernel_known_by_formula(name):
    torch.manual_seed(0)
    function, shape, *rest = FUNCTIONS[name]
    given = rest[0] if rest else None
    dtype = rest[1] if len(rest) > 1 else torch.float32
    x = torch.randn(shape).to(dtype) if given is None else given
    _check(name, *_peaks(OneFunction(function, shape, dtype), (x,)))


@pytest.mark.parametrize("name", ALONE)
def test_an_op_alone(name):
    function, shapes, *above = ALONE[name]
    captured, inputs = _profiled(OpAlone(function, shapes), (torch.zeros(1),))
    found = peaks(captured, inputs)
    assert found
    for op in found:
        for predicted, real in zip(op.predicted, op.measured, strict=True):
            assert predicted >= real - SCALARS, op
            assert predicted <= real * (1.1 + sum(above)) + 3 * SCALARS, op


@pytest.mark.parametrize("name", STORED)
def test_a_gradient_stored_as_a_copy(name):
    function, shapes = STORED[name]
    _check(name, *_peaks(OpAlone(function, shapes, times=0), (torch.zeros(1),)))


@pytest.mark.parametrize("name", OF_A_SUM)
def test_a_gradient_spread_out(name):
    function, shapes = OF_A_SUM[name]
    model = OpAlone(lambda *p: function(*p).sum(), shapes, times=0)
    _check(name, *_peaks(model, (torch.zeros(1),)))


@pytest.mark.parametrize("sizes", [(7, 4, 10, 12), (20, 8, 64, 128), (13, 5, 50, 20)])
def test_a_recurrent_layer(sizes):
    steps, batch, features, hidden = sizes
    layer = nn.LSTM(features, hidden, num_layers=2, bidirectional=True)
    captured, inputs = _profiled(
        Recurrent(layer), (torch.randn(steps, batch, features),)
    )
    op = next(op for op in peaks(captured, inputs) if "lstm" in op.key)
    for predicted, real in zip(op.predicted, op.measured, strict=True):
        assert real - SCALARS <= predicted <= real * 1.1, op


class Recurrent(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x * 1)[0].square().sum()
