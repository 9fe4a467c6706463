"""One process, no plan: what a run is compared with.

`train` runs an ordinary loop on one process and keeps, outside torch's
allocator, what "equal" speaks of: the loss of each step, the gradients of the
first step, the parameters at the end.

In float64 (complex128) the model is replaced by its captured program with every
cast to a narrower dtype widened, and float64 where it names no dtype (models
round on purpose inside, and no two programs would agree to nine digits); the
parallel program is widened alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from shardwright.execute.generate import CapturedProgram, wide, widened

__all__ = [
    "Trained",
    "WidenedProgram",
    "array",
    "double_by_default",
    "model_in_double",
    "norm",
    "relative_error",
    "to_double",
    "train",
]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Trained:
    """Of one training run; arrays by parameter name."""

    losses: list[float]
    gradients: dict[str, Array]
    parameters: dict[str, Array]


def train(
    parameters: Mapping[str, nn.Parameter],
    loss_of: Callable[[], Tensor],
    optimizer: torch.optim.Optimizer,
    steps: int,
    whole: Callable[[Tensor], Tensor] = lambda x: x,
) -> Trained:
    """`steps` steps of loss, backward, update; `whole` undoes sharding."""
    losses: list[float] = []
    gradients: dict[str, Array] = {}
    for step in range(steps):
        loss = loss_of()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            gradients = {
                name: array(whole(p.grad))
                for name, p in parameters.items()
                if p.grad is not None
            }
        optimizer.step()
        optimizer.zero_grad()
    final = {name: array(whole(p.detach())) for name, p in parameters.items()}
    return Trained(losses, gradients, final)


def array(tensor: Tensor) -> Array:
    """A copy in float64, of complex numbers in complex128, outside torch."""
    is_complex = tensor.dtype.is_complex
    dtype = torch.complex128 if is_complex else torch.float64
    return np.array(tensor.detach().to("cpu", dtype).numpy(), copy=True)


def norm(values: Array) -> float:
    """Square root of the sum of all |x|²."""
    return float(np.linalg.norm(values))


def relative_error(got: Array, expected: Array, floor: float = 0.0) -> float:
    """‖got - expected‖ / (‖expected‖ + floor); 0 when both are 0."""
    difference = norm(got - expected)
    scale = norm(expected) + floor
    return difference / scale if scale else (0.0 if difference == 0 else np.inf)


def to_double(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Floating tensors in float64, complex ones in complex128, others as they are."""
    return [t.to(wide(t.dtype)) for t in tensors]


def model_in_double(model: nn.Module) -> nn.Module:
    """`model` with its parameters and buffers widened in place.

    As nn.Module.double(), which leaves complex tensors as they are.
    """
    model._apply(lambda tensor: tensor.to(wide(tensor.dtype)))
    return model


@contextmanager
def double_by_default() -> Iterator[None]:
    """Makes float64 what torch takes where a program names no dtype (`zeros(3)`,
    an integer divided by another), and with it complex128."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class WidenedProgram:
    """The captured program in float64, on the tensors of `model` (in float64)."""

    def __init__(self, captured: CapturedProgram, model: nn.Module) -> None:
        graph = fx.Graph()
        output = graph.graph_copy(captured.module.graph, val_map={})
        graph.output(output)
        for node in graph.nodes:
            if node.op == "call_function":
                node.args = tuple(widened(a) for a in node.args)
                node.kwargs = {k: widened(v) for k, v in node.kwargs.items()}
        tensors: dict[str, Any] = dict(model.named_parameters(remove_duplicate=False))
        tensors.update(model.named_buffers(remove_duplicate=False))
        targets = {str(n.target) for n in graph.nodes if n.op == "get_attr"}
        for name in sorted(targets - tensors.keys()):
            constant: Any = captured.module
            for part in name.split("."):
                constant = getattr(constant, part)
            tensors[name] = to_double([constant])[0]
        self._module = fx.GraphModule(
            {name: tensors[name] for name in sorted(targets)}, graph
        )

    def loss(self, inputs: Sequence[Tensor]) -> Tensor:
        loss: Tensor = self._module(*to_double(inputs))[0]
        return loss
