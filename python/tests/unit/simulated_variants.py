"""The special implementations of DESIGN's strategies on simulated ranks.

Each function gives the local results of all ranks from their local arguments.
What a collective would bring is computed from the ranks' tensors directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from simulated_ranks import coordinates, forward_layout, gather, scatter
from torch import Tensor

__all__ = ["VARIANTS"]

aten = torch.ops.aten
Locals = Sequence[Mapping[str, Any]]
_GENERATOR = torch.Generator()


def scaled_mean(
    op: Any, arguments: Locals, strategy: Mapping[str, Any], _mesh: Any
) -> list[Tensor]:
    """Local mean, times the local count over the global one."""
    total = strategy["variant_args"]["global_count"]
    results = []
    for local in arguments:
        result = op(**local)
        count = next(iter(local.values())).numel() / result.numel()
        results.append(result * (count / total))
    return results


def vocab_parallel_embedding(
    _op: Any, arguments: Locals, strategy: Mapping[str, Any], mesh: Mapping[str, int]
) -> list[Tensor]:
    """Rows that other ranks have are zero, so is the padding row's gradient."""
    rows = torch.arange(strategy["variant_args"]["size"])
    owned = _scattered_dim(rows, strategy["operands"][0], 0, mesh)
    results = []
    for local, own in zip(arguments, owned, strict=True):
        indices, weight = local["indices"], local["weight"]
        mine = (indices >= own[0]) & (indices <= own[-1])
        picked = weight[(indices - own[0]).clamp(0, len(own) - 1)]
        padding = (indices == local["padding_idx"]).unsqueeze(-1)
        picked = torch.where(padding, picked.detach(), picked)
        results.append(picked * mine.unsqueeze(-1))
    return results


def cross_entropy(
    _op: Any, arguments: Locals, strategy: Mapping[str, Any], mesh: Mapping[str, int]
) -> list[Tensor]:
    """Global log-sum-exp and count as constants; the gradient of a rank's
    classes is softmax minus one-hot."""
    sizes = list(mesh.values())
    logits_port, target_port = (forward_layout(p) for p in strategy["operands"][:2])
    logits = gather([a["self"].detach() for a in arguments], logits_port, sizes)
    target = gather([a["target"] for a in arguments], target_port, sizes)
    ignore = arguments[0]["ignore_index"]
    mean = arguments[0]["reduction"] == 1
    count = (target != ignore).sum() if mean else 1
    sums = scatter(logits.logsumexp(1), target_port, sizes, _GENERATOR)
    picked = torch.gather(logits, 1, target.clamp(min=0).unsqueeze(1)).squeeze(1)
    hits = scatter(picked, target_port, sizes, _GENERATOR)
    classes = torch.arange(strategy["variant_args"]["num_classes"])
    owned = _scattered_dim(classes, strategy["operands"][0], 1, mesh)
    results = []
    for local, log_sum, hit, own in zip(arguments, sums, hits, owned, strict=True):
        valid = local["target"] != ignore
        value = ((log_sum - hit) * valid).sum()
        mine = own.view(1, -1, *[1] * (log_sum.dim() - 1)) == local["target"].unsqueeze(
            1
        )
        softmax = (local["self"] - log_sum.unsqueeze(1)).exp().detach()
        slope = ((softmax - mine.double()) * local["self"] * valid.unsqueeze(1)).sum()
        results.append((value.detach() + slope - slope.detach()) / count)
    return results


def sync_batch_norm(
    op: Any, arguments: Locals, strategy: Mapping[str, Any], mesh: Mapping[str, int]
) -> list[Tensor]:
    """Normalised together along the variant's axes, scaled rank by rank."""
    sizes = list(mesh.values())
    joined = [name in strategy["variant_args"]["axes"] for name in mesh]
    layout = forward_layout(strategy["operands"][0])
    inner = [s for s, keep in zip(layout, joined, strict=True) if keep]
    inner_sizes = [s for s, keep in zip(sizes, joined, strict=True) if keep]
    groups: dict[Any, list[int]] = {}
    for rank, where in enumerate(coordinates(sizes)):
        fixed = tuple(-1 if j else c for c, j in zip(where, joined, strict=True))
        groups.setdefault(fixed, []).append(rank)
    results: list[Tensor] = [torch.empty(0)] * len(arguments)
    for ranks in groups.values():
        whole = gather([arguments[r]["input"] for r in ranks], inner, inner_sizes)
        plain = {**arguments[ranks[0]], "input": whole, "weight": None, "bias": None}
        parts = scatter(op(**plain), inner, inner_sizes, _GENERATOR)
        for rank, part in zip(ranks, parts, strict=True):
            shape = [1, -1, *[1] * (part.dim() - 2)]
            weight, bias = arguments[rank]["weight"], arguments[rank]["bias"]
            results[rank] = part * weight.view(shape) + bias.view(shape)
    return results


def _scattered_dim(
    numbers: Tensor, port: str, dim: int, mesh: Mapping[str, int]
) -> list[Tensor]:
    """What each rank has of one dim of a tensor in this port."""
    layout = ["S0" if s == f"S{dim}" else "R" for s in port.split(",")]
    return scatter(numbers, layout, list(mesh.values()), _GENERATOR)


VARIANTS: Mapping[str, Callable[..., list[Tensor]]] = {
    "cross_entropy": cross_entropy,
    "scaled_mean": scaled_mean,
    "sync_batch_norm": sync_batch_norm,
    "vocab_parallel_embedding": vocab_parallel_embedding,
}
