"""Time and certified gap of planning, beside published search times.

    .venv/bin/python benchmarks/planning.py            GPT-2 only (a minute)
    .venv/bin/python benchmarks/planning.py --all      Llama-3 8B as well

Models are built on the meta device: nothing is run and no weights exist. The
time is that of the planner after capture and profile, which are shown apart.
Reference times are what the systems' authors or users report for the search of
comparable problems (other machines, placements of tensors alone): Colossal-Auto
149 s for GPT-2 with 24 layers on 2x4, another placement-only planner 249 s for
Llama-3 8B on 8x8. They say what order of time a search takes elsewhere, no more.
"""

import argparse
import time
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from shardwright import api
from shardwright.planfile import Plan

GIB = 2**30
Step = tuple[nn.Module, dict[str, torch.Tensor]]


@dataclass(frozen=True)
class Case:
    name: str
    layers: int
    cluster: str
    mesh: tuple[int, ...]
    limits_gib: tuple[float | None, ...]
    reference: str
    gap: float = 1e-3


GPT2 = Case("gpt2", 24, "2x4 a100-80g", (2, 4), (None, 4.0, 3.0), "149 s")
LLAMAS = tuple(
    Case("llama", layers, "8x8 h100", (8, 8), limits, reference)
    for layers, limits, reference in (
        (8, (None,), ""),
        (16, (None,), ""),
        (32, (None, 6.0), "249 s"),
    )
)


def gpt2(layers: int) -> Step:
    """GPT-2 medium's width: 1024 wide, 16 heads, sequence 1024, batch 8."""
    config = GPT2Config(
        n_layer=layers, n_embd=1024, n_head=16, n_positions=1024,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    with torch.device("meta"):
        return GPT2LMHeadModel(config), _tokens(8, 1024)


def llama(layers: int) -> Step:
    """Llama-3 8B's width, bfloat16, sequence 2048, batch 8."""
    config = LlamaConfig(
        num_hidden_layers=layers, hidden_size=4096, intermediate_size=14336,
        num_attention_heads=32, num_key_value_heads=8, vocab_size=128256,
        rope_theta=500000.0, max_position_embeddings=8192,
    )  # fmt: skip
    with torch.device("meta"):
        return LlamaForCausalLM(config).to(torch.bfloat16), _tokens(8, 2048)


def _tokens(batch: int, length: int) -> dict[str, torch.Tensor]:
    tokens = torch.zeros((batch, length), dtype=torch.long)
    return {"input_ids": tokens, "labels": tokens}


MODELS = {"gpt2": gpt2, "llama": llama}


def _row(case: Case, limit: float | None, plan: Plan, seconds: float) -> list[str]:
    goal: dict[str, Any] = plan.data["objective"]
    gap = (goal["cost_ps"] - goal["bound_ps"]) / goal["cost_ps"]
    regions = plan.data["regions"]
    return [
        f"{case.name} {case.layers} layers",
        "x".join(map(str, case.mesh)),
        "none" if limit is None else f"{limit:g} GiB",
        f"{plan.data['solver']['choices']:,}",
        f"{seconds:.2f} s",
        f"{100 * gap:.4f} %",
        f"{plan.data['predicted']['time_s'] * 1e3:.1f} ms",
        f"{plan.peak_bytes / GIB:.2f} GiB",
        f"{sum(r['recompute'] for r in regions)}/{len(regions)}",
        case.reference,
    ]


def main() -> None:
    """Prints one row per case and limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="Llama-3 8B as well")
    cases = [GPT2, *(LLAMAS if parser.parse_args().all else ())]
    console = Console(width=140)
    table = Table(title="planning, after capture")
    for column in (
        "model", "mesh", "limit", "choices", "time", "gap", "step", "peak",
        "recomputed", "elsewhere",
    ):  # fmt: skip
        table.add_column(column, justify="right")
    for case in cases:
        start = time.perf_counter()
        graph = api.profile_graph(*MODELS[case.name](case.layers)).graph_json
        console.print(
            f"{case.name} {case.layers}: captured and profiled in "
            f"{time.perf_counter() - start:.1f} s"
        )
        for limit in case.limits_gib:
            start = time.perf_counter()
            plan = api.plan_graph(
                graph,
                cluster=case.cluster,
                mesh=case.mesh,
                memory=None if limit is None else int(limit * GIB),
                gap=case.gap,
            )
            table.add_row(*_row(case, limit, plan, time.perf_counter() - start))
    console.print(table)


if __name__ == "__main__":
    main()
