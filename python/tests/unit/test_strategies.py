"""Every strategy of every op case gives the values and gradients of one device.

Operands are split as the strategy's ports say, the op runs once per simulated
rank at local sizes, and results and gradients are put together again. An
incoming gradient arrives as the result's port says, an operand's gradient
leaves as its port says. float64, so a wrong placement cannot hide.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from shardwright import _core
from shardwright.capture.schema import (
    SHAPE_ARGS,
    bind_arguments,
    has_effect,
    json_attrs,
    tensor_operands,
)

sys.path.insert(0, str(Path(__file__).parent))
from op_cases import CASES, Case, made
from simulated_ranks import (
    coordinates,
    forward_layout,
    gather,
    gradient_layout,
    local_size,
    scatter,
)
from simulated_variants import VARIANTS

MESHES = ({"a": 2}, {"a": 3}, {"a": 4}, {"a": 2, "b": 2})


@dataclass(frozen=True)
class Call:
    """A case with values: what one device does."""

    case: Case
    bound: Mapping[str, Any]  # arguments by schema name
    operands: Sequence[tuple[str, Tensor]]
    results: Sequence[Tensor]
    seeds: Sequence[Tensor | None]  # incoming gradient of each result
    gradients: Mapping[int, Tensor]  # by operand tensor's id


def _results(value: Any) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def _backward(
    results: Sequence[Tensor], seeds: Sequence[Tensor | None], leaves: Sequence[Tensor]
) -> list[Tensor]:
    """Gradients of the leaves; zeros where none arrives."""
    pairs = [(r, s) for r, s in zip(results, seeds, strict=True) if s is not None]
    if not pairs or not leaves:
        return [torch.zeros_like(leaf) for leaf in leaves]
    found = torch.autograd.grad(
        [r for r, _ in pairs], leaves, [s for _, s in pairs], allow_unused=True
    )
    return [
        torch.zeros_like(leaf) if g is None else g
        for leaf, g in zip(leaves, found, strict=True)
    ]


def _call(case: Case) -> Call:
    generator = torch.Generator().manual_seed(7)
    values = [made(spec, generator) for spec in case.args]
    if case.same:
        values[1] = values[0]
    bound = bind_arguments(case.op, values, case.kwargs)
    operands = tensor_operands(bound, lambda value: isinstance(value, Tensor))
    for position, (_, tensor) in enumerate(operands):
        wants = tensor.is_floating_point() and position not in case.frozen
        tensor.requires_grad_(wants or tensor.requires_grad)
    results = _results(case.op(**bound))
    seeds = [
        torch.randn(r.shape, dtype=r.dtype, generator=generator)
        if r.requires_grad
        else None
        for r in results
    ]
    leaves = list({id(t): t for _, t in operands if t.requires_grad}.values())
    gradients = _backward(results, seeds, leaves)
    return Call(
        case,
        bound,
        operands,
        results,
        seeds,
        {id(leaf): g for leaf, g in zip(leaves, gradients, strict=True)},
    )


def _graph(calls: Sequence[Call]) -> str:
    """All calls as ops of one graph file; its loss is an input of its own."""
    values: list[dict[str, Any]] = []
    ops: list[dict[str, Any]] = []

    def add(name: str, kind: str, tensor: Tensor) -> int:
        values.append(
            {
                "name": name,
                "kind": kind,
                "shape": list(tensor.shape),
                "dtype": str(tensor.dtype).removeprefix("torch."),
                "requires_grad": tensor.requires_grad,
            }
        )
        return len(values) - 1

    loss = add("loss", "input", torch.zeros(()))
    for index, call in enumerate(calls):
        op = call.case.op
        ids: dict[int, int] = {}
        for position, (_, tensor) in enumerate(call.operands):
            if id(tensor) not in ids:
                kind = "parameter" if tensor.requires_grad else "input"
                ids[id(tensor)] = add(f"x{index}.{position}", kind, tensor)
        shape_arg = SHAPE_ARGS.get(str(op))
        ops.append(
            {
                "key": f"op{index}",
                "name": str(op),
                "operands": [ids[id(tensor)] for _, tensor in call.operands],
                "operand_args": [name for name, _ in call.operands],
                "results": [
                    add(f"op{index}#{i}", "activation", result)
                    for i, result in enumerate(call.results)
                ],
                "attrs": json_attrs(op, call.bound),
                "module": "",
                "source": "",
                "shape_args": [shape_arg] if shape_arg else [],
                "random": False,
                "effect": has_effect(op, call.bound),
            }
        )
    graph = {"schema": "shardwright.graph", "version": 1, "name": "cases"}
    graph |= {"torch": "", "device": "cpu", "values": values, "ops": ops}
    return json.dumps(graph | {"loss": loss, "outputs": []})


def _local_arguments(
    call: Call,
    strategy: Mapping[str, Any],
    sizes: Sequence[int],
    where: Sequence[int],
    operands: Sequence[Tensor],
) -> dict[str, Any]:
    """The arguments of one rank: its operands, local shapes and attributes."""
    bound: dict[str, Any] = {
        name: list(value) if isinstance(value, list) else value
        for name, value in call.bound.items()
    }
    for (name, _), tensor in zip(call.operands, operands, strict=True):
        entry, _, position = name.partition("[")
        if position:
            bound[entry][int(position[:-1])] = tensor
        else:
            bound[name] = tensor
    shape_arg = SHAPE_ARGS.get(str(call.case.op))
    if shape_arg:
        layout = forward_layout(strategy["results"][0])
        bound[shape_arg] = local_size(call.results[0].shape, layout, sizes, where)
    return bound | strategy["local_attrs"]


def _check(call: Call, strategy: Mapping[str, Any], mesh: Mapping[str, int]) -> None:
    sizes = list(mesh.values())
    ranks = coordinates(sizes)
    generator = torch.Generator().manual_seed(11)
    leaves: list[dict[int, Tensor]] = [{} for _ in ranks]
    operands: list[list[Tensor]] = [[] for _ in ranks]
    ports: dict[int, str] = {}
    for (_, tensor), port in zip(call.operands, strategy["operands"], strict=True):
        if id(tensor) not in ports:
            ports[id(tensor)] = port
            parts = scatter(tensor.detach(), forward_layout(port), sizes, generator)
            for rank, part in enumerate(parts):
                leaf = part.clone().requires_grad_(tensor.requires_grad)
                leaves[rank][id(tensor)] = leaf
        assert ports[id(tensor)] == port
        for rank in range(len(ranks)):
            operands[rank].append(leaves[rank][id(tensor)])
    arguments = [
        _local_arguments(call, strategy, sizes, where, operands[rank])
        for rank, where in enumerate(ranks)
    ]
    if strategy["variant"] is None:
        locals_ = [_results(call.case.op(**local)) for local in arguments]
    else:
        run = VARIANTS[strategy["variant"]]
        results = run(call.case.op, arguments, strategy, mesh)
        locals_ = [[result] for result in results]
    _check_values(call, strategy, sizes, locals_)
    _check_gradients(call, strategy, sizes, locals_, leaves, ports, generator)


def _close(actual: Tensor, expected: Tensor, tolerance: float) -> None:
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def _tolerance(call: Call) -> float:
    """A cast to float32 rounds each addend of a gradient sum."""
    return 1e-5 if call.results[0].dtype == torch.float32 else 1e-10


def _check_values(
    call: Call,
    strategy: Mapping[str, Any],
    sizes: Sequence[int],
    locals_: Sequence[Sequence[Tensor]],
) -> None:
    for i, (result, port) in enumerate(
        zip(call.results, strategy["results"], strict=True)
    ):
        layout = forward_layout(port)
        for where, own in zip(coordinates(sizes), locals_, strict=True):
            assert list(own[i].shape) == local_size(result.shape, layout, sizes, where)
        whole = gather([own[i].detach() for own in locals_], layout, sizes)
        _close(whole, result.detach(), _tolerance(call))


def _check_gradients(
    call: Call,
    strategy: Mapping[str, Any],
    sizes: Sequence[int],
    locals_: Sequence[Sequence[Tensor]],
    leaves: Sequence[Mapping[int, Tensor]],
    ports: Mapping[int, str],
    generator: torch.Generator,
) -> None:
    seeds: list[list[Tensor | None]] = [[] for _ in locals_]
    for seed, port in zip(call.seeds, strategy["results"], strict=True):
        parts: Sequence[Tensor | None] = [None] * len(locals_)
        if seed is not None:
            parts = scatter(seed, gradient_layout(port), sizes, generator)
        for rank, part in enumerate(parts):
            seeds[rank].append(part)
    wanted = list(call.gradients)
    found = _all_backward(locals_, seeds, [[own[k] for k in wanted] for own in leaves])
    for position, key in enumerate(wanted):
        own = [gradients[position] for gradients in found]
        whole = gather(own, gradient_layout(ports[key]), sizes, _tolerance(call))
        _close(whole, call.gradients[key], _tolerance(call))


def _all_backward(
    locals_: Sequence[Sequence[Tensor]],
    seeds: Sequence[Sequence[Tensor | None]],
    leaves: Sequence[Sequence[Tensor]],
) -> list[list[Tensor]]:
    """One backward over all ranks: a rank's leaves get what their own op
    gives, and what comes back through collectives inside it."""
    flat = _backward(
        [result for own in locals_ for result in own],
        [seed for own in seeds for seed in own],
        [leaf for own in leaves for leaf in own],
    )
    count = len(leaves[0])
    return [flat[i * count : (i + 1) * count] for i in range(len(leaves))]


# Cases that two ranks cannot split, and why.
WHOLE = {
    "aten.cross_entropy_loss.default:probabilities",  # no rule
    "aten.cross_entropy_loss.default:smooth",  # no implementation of the mean
    "aten.einsum.default:dots",  # no rule for ellipses
    "aten.max.default",  # all dims are reduced
    "aten.mm.default:same",  # x @ x would need x in two layouts
    "aten.nll_loss_nd.default",  # no implementation of the mean
    "aten.roll.default:flat",  # all dims move
}


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    return [_call(case) for case in CASES]


@pytest.mark.parametrize(
    "mesh", MESHES, ids=lambda mesh: "x".join(map(str, mesh.values()))
)
def test_strategies_equal_one_device(calls: list[Call], mesh: dict[str, int]) -> None:
    torch.set_num_threads(1)
    axes = [{"name": name, "size": size} for name, size in mesh.items()]
    sets = json.loads(_core.strategies(_graph(calls), json.dumps({"axes": axes})))
    failures, count = [], 0
    for call, found in zip(calls, sets, strict=True):
        if found["has_rule"] != call.case.rule:
            failures.append(f"{call.case.title}: has_rule is {found['has_rule']}")
        for strategy in found["strategies"]:
            count += 1
            try:
                _check(call, strategy, mesh)
            except Exception as error:
                text = str(error).strip().split("\n")[0]
                failures.append(f"{call.case.title} [{strategy['text']}]: {text}")
    assert not failures, f"{len(failures)} of {count}:\n" + "\n".join(failures)
    assert count > len(calls)


def test_most_cases_can_be_split(calls: list[Call]) -> None:
    mesh = json.dumps({"axes": [{"name": "a", "size": 2}]})
    sets = json.loads(_core.strategies(_graph(calls), mesh))
    whole = {
        call.case.title
        for call, found in zip(calls, sets, strict=True)
        if len(found["strategies"]) == 1
    }
    assert whole == WHOLE


@pytest.mark.parametrize(
    ("text", "tensor", "wrong"),
    [
        ("a -> batch0", 1, "R"),  # a weight gradient that is not summed
        ("a -> out", 0, "R"),  # an input gradient that is not summed
        ("a -> in", 2, "R"),  # a bias added on every rank
        ("a -> in", 2, "D"),
        ("a -> batch0", 0, "S1"),
        ("replicate", 0, "D"),  # a whole gradient summed over the ranks
    ],
)
def test_a_wrong_placement_is_noticed(text: str, tensor: int, wrong: str) -> None:
    linear = torch.ops.aten.linear.default
    call = _call(Case(linear, ((4, 8), (6, 8), (6,))))
    mesh = {"a": 2}
    axes = json.dumps({"axes": [{"name": "a", "size": 2}]})
    found = json.loads(_core.strategies(_graph([call]), axes))[0]["strategies"]
    strategy = next(s for s in found if s["text"] == text)
    _check(call, strategy, mesh)
    strategy["operands"][tensor] = wrong
    with pytest.raises((AssertionError, RuntimeError)):
        _check(call, strategy, mesh)
