"""Cases that users reported about profilers and planners, with the right answers.

Numbers are by hand: one multiply-add is 2 FLOPs, inputs need no gradient.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import shardwright.api as sw
from shardwright import _core
from shardwright.commands.profile import _at_full_size
from shardwright.config import Pin
from shardwright.errors import CaptureError
from shardwright.planfile import Plan


class Of(nn.Module):
    """A function of submodules and inputs as a model."""

    def __init__(self, function: Callable[..., Any], **modules: Any) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


class TiedHead(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1000, 64)
        self.head = nn.Linear(64, 1000, bias=False)
        self.head.weight = self.table.weight

    def forward(self, tokens: Tensor) -> Tensor:
        logits = self.head(self.table(tokens))
        return F.cross_entropy(logits.view(-1, 1000), tokens.view(-1))


def siamese(m: Any, left: Tensor, right: Tensor) -> Tensor:
    def one(x: Tensor) -> Tensor:
        out: Tensor = m.linear(F.max_pool2d(m.conv(x), 2).flatten(1))
        return out

    return (one(left) - one(right)).sum()


def cell_loop(m: Any, x: Tensor) -> Tensor:
    h = c = x.new_zeros(2, 16)
    for step in x:
        h, c = m.cell(step, (h, c))
    return h.sum()


def encoder(train: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 256, dropout=0.0, batch_first=True)
    return Of(lambda m, x: m.layer(x).sum(), layer=layer).train(train)


def heads(*shapes: tuple[int, ...]) -> dict[str, nn.Parameter]:
    return {
        name: nn.Parameter(torch.randn(shape))
        for name, shape in zip("qkv", shapes, strict=False)
    }


def three_blocks(activation: nn.Module) -> nn.Module:
    blocks = [[nn.Linear(4, 4), activation, nn.Linear(4, 4)] for _ in range(3)]
    return nn.Sequential(*(module for block in blocks for module in block))


def grouped_attention(m: Any, x: Tensor) -> Tensor:
    y = F.scaled_dot_product_attention(m.q, m.k, m.v, is_causal=True, enable_gqa=True)
    return (y * x).sum()


QKV = ((2, 4, 8, 16),) * 3

# name -> model, batch, parameters, FLOPs forward, backward (None: not stated)
CASES: dict[str, tuple[nn.Module, Any, int, int, int | None]] = {
    "one linear applied to two inputs": (
        Of(lambda m, x, y: (m.l(x) + m.l(y)).sum(), l=nn.Linear(64, 64, bias=False)),
        (torch.randn(8, 64), torch.randn(8, 64)),
        *(4096, 131_072, 131_072),
    ),
    "one linear applied to three parts": (
        Of(
            lambda m, x: sum(m.l(p).sum() for p in x.split(100, 1)),
            l=nn.Linear(100, 100),
        ),
        (torch.randn(1, 300),),
        *(10_100, 60_000, None),
    ),
    "tied head": (
        TiedHead(),
        (torch.zeros(2, 16, dtype=torch.long),),
        64_000,
        4_096_000,
        8_192_000,
    ),
    "siamese convolution": (
        Of(siamese, conv=nn.Conv2d(3, 64, 10), linear=nn.Linear(6400, 1)),
        (torch.randn(1, 3, 29, 29), torch.randn(1, 3, 29, 29)),
        *(25_665, 30_745_600, None),
    ),
    "one activation module in three blocks": (
        Of(lambda m, x: m.net(x).sum(), net=three_blocks(nn.ReLU())),
        (torch.randn(2, 4),),
        *(120, 384, None),
    ),
    "LSTM cell in a Python loop": (
        Of(cell_loop, cell=nn.LSTMCell(8, 16)),
        (torch.randn(10, 2, 8),),
        *(1664, 61_440, 98_304),
    ),
    "transposed convolution": (
        Of(lambda m, x: m.c(x).sum(), c=nn.ConvTranspose2d(3, 1, 2, stride=2)),
        (torch.randn(1, 3, 2, 2),),
        *(13, 96, None),
    ),
    "depthwise convolution": (
        Of(
            lambda m, x: m.c(x).sum(),
            c=nn.Conv2d(32, 32, 3, groups=32, padding=1, bias=False),
        ),
        (torch.randn(1, 32, 56, 56),),
        *(288, 1_806_336, 1_806_336),
    ),
    "multi-head attention": (
        Of(
            lambda m, x: m.a(x, x, x)[0].sum(),
            a=nn.MultiheadAttention(512, 4, batch_first=True),
        ),
        (torch.randn(1, 580, 512),),
        *(1_050_624, 2 * 952_647_680, None),
    ),
    "causal attention with grouped heads, full convention": (
        Of(
            grouped_attention,
            **heads((1, 8, 128, 64), (1, 2, 128, 64), (1, 2, 128, 64)),
        ),
        (torch.randn(1),),
        *(8 * 128 * 64 + 2 * 2 * 128 * 64, 33_554_432, None),
    ),
    "encoder layer, train": (
        encoder(True),
        (torch.randn(2, 32, 64),),
        49_984,
        6_815_744,
        None,
    ),
    "encoder layer, eval": (
        encoder(False),
        (torch.randn(2, 32, 64),),
        49_984,
        6_815_744,
        None,
    ),
    "element-wise only": (
        Of(lambda m, x: (x.sin() * 2 + m.q).mean(), **heads((1,))),
        (torch.randn(1_000_000),),
        *(1, 0, 0),
    ),
    "scores by einsum": (
        Of(
            lambda m, x: (torch.einsum("bhid,bhjd->bhij", m.q, m.k) * x).sum(),
            **heads(*QKV[:2]),
        ),
        (torch.randn(1),),
        *(2048, 16_384, 32_768),
    ),
    "scores by matmul": (
        Of(lambda m, x: (m.q @ m.k.transpose(-1, -2) * x).sum(), **heads(*QKV[:2])),
        (torch.randn(1),),
        *(2048, 16_384, 32_768),
    ),
    "bilinear": (
        Of(lambda m, x, y: m.b(x, y).sum(), b=nn.Bilinear(5, 6, 7)),
        (torch.randn(3, 5), torch.randn(3, 6)),
        *(217, 1260 + 252, None),
    ),
    "embedding bag": (
        Of(lambda m, x: m.b(x).sum(), b=nn.EmbeddingBag(100, 16)),
        (torch.zeros(4, 5, dtype=torch.long),),
        *(1600, 0, 0),
    ),
}


def flops_of(graph_json: str) -> Counter[str]:
    graph, flops = json.loads(graph_json), Counter[str]()
    maps = json.loads(_core.factor_maps(graph_json))
    for op, factor_map in zip(graph["ops"], maps, strict=True):
        sizes = [factor["size"] for factor in factor_map["factors"]]
        for phase in ("forward", "backward"):
            for kernel in graph["records"][op["record"]][f"kernels_{phase}"]:
                flops[phase] += _at_full_size(kernel["flops"], sizes)
    return flops


def elements(shape: list[int]) -> int:
    return int(torch.Size(shape).numel())


@pytest.mark.parametrize("name", CASES)
def test_parameters_and_flops(name: str) -> None:
    model, batch, parameters, forward, backward = CASES[name]
    graph_json = sw.profile_graph(model, batch).graph_json
    values = json.loads(graph_json)["values"]
    kinds = [v for v in values if v["kind"] == "parameter"]
    assert sum(elements(v["shape"]) for v in kinds) == parameters
    flops = flops_of(graph_json)
    assert flops["forward"] == forward
    if backward is not None:
        assert flops["backward"] == backward


def test_profiling_again_gives_the_same_and_leaves_the_model() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1))
    before = [dict(vars(module)) for module in model.modules()]
    batch = torch.randn(2, 4)
    texts = {
        sw.profile_graph(model, batch, loss=torch.sum).graph_json for _ in range(5)
    }
    assert len(texts) == 1
    assert [dict(vars(module)) for module in model.modules()] == before


def test_buffers_have_no_optimizer_state() -> None:
    model = Of(lambda m, x: m.b(x).square().mean(), b=nn.BatchNorm2d(16))
    graph = sw.profile_graph(model, (torch.randn(4, 16, 8, 8),)).graph_json
    buffers = [v for v in json.loads(graph)["values"] if v["kind"] == "buffer"]
    assert sorted((elements(v["shape"]), v["dtype"]) for v in buffers) == [
        (1, "int64"),
        (16, "float32"),
        (16, "float32"),
    ]
    plan = sw.plan_graph(graph, cluster="1 cpu")
    # Two moments of weight and bias, and a 4-byte counter for each of the two.
    assert plan.data["predicted"]["optimizer_bytes"] == 2 * 32 * 4 + 2 * 4


@dataclass
class Output:
    loss: Tensor
    logits: Tensor


class NamedInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any = None, mask: Any = None, extra: Any = None) -> Output:
        y = self.linear(x["a"])
        return Output(y.sum(), y)


def test_nested_inputs_none_and_a_dataclass_output() -> None:
    batch = {"x": {"a": torch.randn(2, 4)}, "mask": None}
    captured = sw.profile_graph(NamedInputs(), batch).captured
    values = captured.graph["values"]
    assert [v["name"] for v in values if v["kind"] == "input"] == ["x.a"]
    output = captured.output_layout.unflatten([torch.zeros(1), torch.ones(2)])
    assert isinstance(output, Output)
    assert output.logits.shape == (2,)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return 2 * gradients[0]


def route(m: Any, x: Tensor) -> Tensor:
    rows, _ = torch.where(m.router(x) > 0)
    chosen: Tensor = m.expert(x[rows]).sum()
    return chosen


@pytest.mark.parametrize(
    ("model", "batch", "expected"),
    [
        (
            Of(lambda m, x: m.e(x).sum(), e=nn.Embedding(10, 4, sparse=True)),
            (torch.zeros(3, dtype=torch.long),),
            "sparse gradient",
        ),
        (
            Of(lambda m, x: Doubled.apply(m.l(x)).sum(), l=nn.Linear(4, 4)),
            (torch.randn(2, 4),),
            "autograd.Function .*Doubled",
        ),
        (
            Of(route, router=nn.Linear(4, 2), expert=nn.Linear(4, 4)),
            (torch.randn(8, 4),),
            r"test_reported_cases\.py",
        ),
        (
            Of(
                lambda m, x: m.l(x).sum() if torch.rand(1) < 0.5 else x.sum(),
                l=nn.Linear(4, 4),
            ),
            (torch.randn(2, 4),),
            r"test_reported_cases\.py",
        ),
    ],
)
def test_refused_by_name(model: nn.Module, batch: Any, expected: str) -> None:
    with pytest.raises(CaptureError, match=expected):
        sw.profile_graph(model, batch)


# ---- plans ------------------------------------------------------------------


def collectives(plan: Plan) -> list[tuple[str, int, int]]:
    return sorted((c["kind"], c["bytes"], c["count"]) for c in plan.data["collectives"])


def test_column_then_row_linear_communicates_twice() -> None:
    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pre = nn.Linear(256, 256)
            self.up = nn.Linear(256, 1024)
            self.down = nn.Linear(1024, 256)

        def forward(self, x: Tensor) -> Tensor:
            y = self.pre(x)
            return (y + self.down(F.gelu(self.up(y)))).sum()

    with torch.device("meta"):
        graph = sw.profile_graph(Mlp(), torch.empty(512, 256)).graph_json
    pins = [
        Pin("placement", "up", "[-, a]"),
        Pin("placement", "pre", "[-, -]"),
        Pin("placement", "*add*", "[-, -]"),
        Pin("storage", "up.weight", "[a, -]"),
        Pin("storage", "down.weight", "[-, a]"),
        Pin("storage", "up.bias", "[a]"),
        *(Pin("storage", name, "[...]") for name in ("pre.*", "down.bias")),
    ]
    plan = sw.plan_graph(graph, cluster="4 a100-80g", mesh=[4], pins=pins)
    # One all-reduce of the activation forward and one backward.
    assert collectives(plan) == [("all_reduce", 512 * 256 * 4, 2)]


def test_row_sharded_embedding_looks_up_locally() -> None:
    class Embedded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(1000, 64)
            self.head = nn.Linear(64, 8)

        def forward(self, tokens: Tensor) -> Tensor:
            return self.head(self.table(tokens)).square().mean()

    with torch.device("meta"):
        batch = torch.zeros(4, 32, dtype=torch.long)
        graph = sw.profile_graph(Embedded(), batch).graph_json
    pins = [
        Pin("storage", "table.weight", "[a, -]"),
        Pin("placement", "table", "[-, -, -] partial{a}"),
    ]
    plan = sw.plan_graph(graph, cluster="4 cpu", mesh=[4], pins=pins)
    assert collectives(plan) == [("all_reduce", 4 * 32 * 64 * 4, 1)]


def test_state_bytes_replicated_and_sharded() -> None:
    """64 ranks, Adam in float32: 16 bytes a parameter, or a 64th of them."""
    with torch.device("meta"):
        model = nn.Sequential(*(nn.Linear(512, 512, bias=False) for _ in range(4)))
        graph = sw.profile_graph(model, torch.empty(64, 512), loss=torch.sum).graph_json
    count, counters = 4 * 512 * 512, 4 * 4
    for storage, parts in (("[...]", 1), ("[a, ...]", 64)):
        pins = [Pin("storage", "*", storage), Pin("placement", "*", "[a, ...]")]
        plan = sw.plan_graph(graph, cluster="8x8 a100-80g", mesh=[64], pins=pins)
        predicted = plan.data["predicted"]
        assert predicted["parameters_bytes"] == 4 * count // parts
        assert predicted["gradients_bytes"] == 4 * count // parts
        assert predicted["optimizer_bytes"] == 8 * count // parts + counters


def test_parameter_with_fewer_rows_than_ranks() -> None:
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8, 10), nn.Linear(10, 1))
        graph = sw.profile_graph(model, torch.empty(16, 8), loss=torch.sum).graph_json
    plan = sw.plan_graph(
        graph, cluster="8 cpu", mesh=[8], pins=[Pin("storage", "0.weight", "[a, -]")]
    )
    stored = {p["name"]: p["storage"] for p in plan.data["parameters"]}
    assert stored["0.weight"] == "[a, -]"  # 2, 2, 2, 2, 2, 0, 0, 0 rows
