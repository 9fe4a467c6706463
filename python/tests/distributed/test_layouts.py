"""Memory of tensors that do not lie as they are named, on two ranks, to 1 %.

Heads of attention, views with gaps and channel-last orders meet conversions here;
each case pins its layers such that something must be converted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from shardwright import api
from shardwright.config import Pin
from shardwright.planfile import Plan
from tests.support.ranks import run_ranks


class Of(nn.Module):
    """A function of submodules and the input as a model."""

    def __init__(self, function: Callable[..., Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.function = function
        for name, module in modules.items():
            setattr(self, name, module)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, x).square().mean()


@dataclass(frozen=True)
class Case:
    """`model()`, the shape of its input, and placements by pattern."""

    model: Callable[[], nn.Module]
    shape: tuple[int, ...]
    pins: dict[str, str]


def attention(
    heads: int, key_heads: int, causal: bool = True, out: bool = True
) -> nn.Module:
    def function(m: Any, x: Tensor) -> Tensor:
        rows = x.shape[:2]
        q, k, v = (
            linear(x).view(*rows, -1, 16).transpose(1, 2) for linear in (m.q, m.k, m.v)
        )
        grouped = heads != key_heads
        y = F.scaled_dot_product_attention(
            q, k, v, is_causal=causal, enable_gqa=grouped
        )
        return m.o(y.transpose(1, 2).reshape(*rows, -1)) if out else y

    q, k, v = (nn.Linear(64, 16 * n) for n in (heads, key_heads, key_heads))
    rest = {"o": nn.Linear(16 * heads, 64)} if out else {}
    return Of(function, q=q, k=k, v=v, **rest)


def fused_attention() -> nn.Module:
    """One product for query, key and value: views with gaps."""

    def function(m: Any, x: Tensor) -> Tensor:
        rows = x.shape[:2]
        q, k, v = m.qkv(x).view(*rows, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        return m.o(y.transpose(1, 2).reshape(*rows, 64))

    return Of(function, qkv=nn.Linear(64, 192), o=nn.Linear(64, 64))


def chunks() -> nn.Module:
    def function(m: Any, x: Tensor) -> Tensor:
        q, k, v = m.qkv(x).chunk(3, -1)
        return F.softmax(q @ k.transpose(-2, -1) * 0.1, -1) @ v

    return Of(function, qkv=nn.Linear(32, 96))


def length_first(before: Callable[[Tensor], Tensor]) -> nn.Module:
    return Of(
        lambda m, x: m.down(before(m.up(x).transpose(0, 1))),
        up=nn.Linear(16, 32),
        down=nn.Linear(32, 16),
    )


def picked() -> nn.Module:
    def function(m: Any, x: Tensor) -> Tensor:
        y = m.up(x)
        return torch.cat([y[..., [-2], :], y[..., [0, 1, 1], :]], 1)

    return Of(function, up=nn.Linear(16, 16))


HEADS, ROWS = "[-, a, -, -]", "[-, -, a, -]"
CASES = {
    "grouped": Case(
        lambda: attention(8, 2, out=False), (4, 32, 64), {"*scaled*": HEADS}
    ),
    "grouped_with_output": Case(
        lambda: attention(8, 4), (4, 32, 64), {"*scaled*": HEADS, "o": "[-, a, -]"}
    ),
    "one_head_each": Case(
        lambda: attention(2, 2, out=False), (4, 32, 64), {"*scaled*": HEADS}
    ),
    "rows_of_one_sequence": Case(
        lambda: attention(4, 4, causal=False), (1, 32, 64), {"*scaled*": ROWS}
    ),
    "fused": Case(
        fused_attention, (4, 16, 64), {"qkv": "[a, -, -]", "*scaled*": HEADS}
    ),
    "chunks": Case(chunks, (4, 16, 32), {"qkv": "[a, -, -]", "*softmax*": "[-, a, -]"}),
    "length_first": Case(
        lambda: length_first(torch.relu),
        (4, 8, 16),
        {"*relu*": "[a, -, -]", "down": "[-, -, a]"},
    ),
    "length_first_gathered": Case(
        lambda: length_first(lambda y: y.softmax(0)),
        (4, 8, 16),
        {"*softmax*": "[-, a, -]", "down": "[a, -, -]"},
    ),
    "picked": Case(picked, (8, 6, 16), {"up": "[-, -, a]"}),
}


def _made(case: Case) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return case.model(), torch.randn(case.shape)


def _loss(model: nn.Module, batch: Tensor) -> Tensor:
    loss: Tensor = model(batch)
    return loss


def _plan(case: Case) -> Plan:
    pins = tuple(Pin("placement", *pin) for pin in case.pins.items())
    graph = api.profile_graph(*_made(case)).graph_json
    return api.plan_graph(graph, cluster="2 cpu", mesh=(2,), pins=pins)


def _run_all(rank: int, plans: dict[str, str]) -> dict[str, list[str]]:
    return {name: _run(CASES[name], Plan.from_text(t)) for name, t in plans.items()}


def _run(case: Case, plan: Plan) -> list[str]:
    from shardwright.execute.run import RunOptions, run

    model, batch = _made(case)
    report = run(
        lambda: _made(case)[0],
        batch,
        api.capture_for(plan, model),
        plan.data,
        _loss,
        RunOptions(steps=2, compare=True),
    )
    bad = [f"{c.name} {c.worst} ({c.where})" for c in report.checks if not c.passed]
    if max(report.peak_bytes) < 0.99 * plan.peak_bytes:
        bad.append(f"predicted {plan.peak_bytes}, measured {report.peak_bytes}")
    return bad


@functools.cache
def _outcomes() -> dict[str, list[str]]:
    plans = {name: _plan(case) for name, case in CASES.items()}
    for name, plan in plans.items():
        converts = [s for s in plan.data["steps"] if s["kind"] == "convert"]
        assert any(s["forward"] or s["backward"] for s in converts), name
    texts = {name: plan.text for name, plan in plans.items()}
    outcomes: dict[str, list[str]] = run_ranks(_run_all, 2, texts, timeout_s=420)[0]
    return outcomes


@pytest.mark.parametrize("name", CASES)
def test_memory_and_equality(name: str) -> None:
    assert _outcomes()[name] == []
