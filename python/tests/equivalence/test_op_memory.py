"""The peak of one op's step, as its record says and as the allocator counts it.

Every case of the sharding rules, and kernels whose scratch is known by formula
only: copies in another dtype, sums of masks, transforms, resizing, sorting. A
model holds nothing but the op; predictions above are safe but may refuse a
plan that fits, predictions below break a limit.
"""

import itertools
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
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
    "binary_cross_entropy_with_logits": (0.3, "the target gets a gradient"),
}
TOO_LOW = {"masked_fill.Tensor": "a value that learns: depends on the mask's sum"}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


def _peaks(model, batch):
    """(predicted, measured) bytes of a second step above what was there."""
    captured = capture(model, batch)
    no_rules = [{"rule": None, "factors": []}] * len(captured.graph["ops"])
    make_records(captured, no_rules, threads=1)
    inputs = captured.bind(batch or rebuild_batch(captured.graph["batch"]))

    return replay(captured.graph).peak, measured(captured.module, inputs)[0]


def _check(title, predicted, measured):
    if any(name in title for name in TOO_LOW):
        pytest.xfail(TOO_LOW[next(name for name in TOO_LOW if name in title)])
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
