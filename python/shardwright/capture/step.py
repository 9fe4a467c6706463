"""The module that is exported: the user's model plus the choice of its loss.

The step returns (loss, *output tensors) flat, so that export never meets the
user's output type; the nesting is kept aside in an OutputLayout.
"""

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from shardwright.capture.batch import call_arguments
from shardwright.errors import CaptureError

__all__ = ["OutputLayout", "TrainingStep", "step_loss"]


@dataclass(frozen=True)
class OutputLayout:
    """Nesting of the model's output. A leaf is a tensor's number or a constant."""

    spec: pytree.TreeSpec
    leaves: tuple[tuple[str, Any], ...]  # ("tensor", index) or ("constant", value)

    def unflatten(self, outputs: Sequence[Tensor]) -> Any:
        """The model's output, with the graph's outputs in place."""
        values = [
            outputs[value] if kind == "tensor" else value for kind, value in self.leaves
        ]
        return pytree.tree_unflatten(values, self.spec)


class TrainingStep(nn.Module):
    """Calls `model` under the name "model" and picks the loss.

    Each call hands the layout of the model's output to `on_layout` (export
    would undo the change of an attribute).
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Any,
        loss: Callable[..., Any] | None,
        on_layout: Callable[[OutputLayout], None],
    ) -> None:
        super().__init__()
        self.model = model
        self._batch_of = _batch_rebuilder(batch)
        self._loss_of = loss
        self._on_layout = on_layout

    def forward(self, *args: Any, **kwargs: Any) -> tuple[Tensor, ...]:
        output = self.model(*args, **kwargs)
        loss = _pick_loss(output, self._batch_of(args, kwargs), self._loss_of)
        leaves, spec = _flattened(output)
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        kinds: list[tuple[str, Any]] = []
        for leaf in leaves:
            if isinstance(leaf, Tensor):
                kinds.append(("tensor", sum(kind == "tensor" for kind, _ in kinds)))
            elif isinstance(leaf, bool | int | float | str | type(None)):
                kinds.append(("constant", leaf))
            else:
                raise CaptureError(
                    "[capture] unsupported output: expected tensors, numbers, strings "
                    f"or None, got {type(leaf).__module__}.{type(leaf).__qualname__}. "
                    "Try: switch it off in the model (a cache: use_cache=False), or "
                    "return plain tensors."
                )
        self._on_layout(OutputLayout(spec, tuple(kinds)))
        return (loss, *tensors)


def step_loss(
    model: nn.Module, batch: Any, loss: Callable[..., Any] | None = None
) -> Tensor:
    """The loss of one call of `model`, taken from its output as capture takes it.

    Raises CaptureError where the output has none.
    """
    args, kwargs = call_arguments(batch)
    output = model(*args, **kwargs)
    return _pick_loss(output, _batch_rebuilder(batch)(args, kwargs), loss)


def _pick_loss(output: Any, batch: Any, loss: Callable[..., Any] | None) -> Tensor:
    """`loss` of the output; else its .loss or ["loss"], the one scalar it is, or
    the scalar it begins with."""
    if loss is not None:
        found = _call_loss(loss, output, batch)
        return _checked_loss(found, "the loss function's result")
    found = getattr(output, "loss", None)
    if found is None and isinstance(output, dict):
        found = output.get("loss")
    if found is not None:
        return _checked_loss(found, "the output's .loss")
    if isinstance(output, Tensor) and output.numel() == 1:
        return _checked_loss(output, "the output")
    if isinstance(output, tuple | list):
        scalars = [_is_scalar(item) for item in output]
        # (loss, logits, ...), as models return it that name nothing. With a
        # second scalar there could be a second loss to add.
        if scalars and scalars[0] and sum(scalars) == 1:
            return _checked_loss(output[0], "the output's first element")
    raise CaptureError(
        "[capture] no loss found: expected `loss=`, an output with .loss, a scalar "
        "output or a tuple whose first element alone is a scalar, got "
        f"{_describe(output)}. Try: pass labels in the batch so that the model "
        "computes its loss, or loss=lambda output: ..."
    )


def _is_scalar(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0 and value.is_floating_point()


def _flattened(output: Any) -> tuple[list[Any], pytree.TreeSpec]:
    """Leaves and nesting, dataclasses taken apart (torch must be told of each)."""
    leaves, spec = pytree.tree_flatten(output)
    kinds = {type(leaf) for leaf in leaves}
    unknown = [kind for kind in kinds if dataclasses.is_dataclass(kind)]
    if not unknown:
        return leaves, spec
    for kind in unknown:
        torch.export.register_dataclass(kind)
    return _flattened(output)


def _batch_rebuilder(batch: Any) -> Callable[[Any, Any], Any]:
    """(args, kwargs) -> a batch of the user's form, for a two-argument loss."""
    if isinstance(batch, Tensor):
        return lambda args, kwargs: args[0]
    if isinstance(batch, tuple | list):
        return lambda args, kwargs: args
    return lambda args, kwargs: kwargs


def _call_loss(loss: Callable[..., Any], output: Any, batch: Any) -> Any:
    """loss(output), or loss(output, batch) when it requires two arguments."""
    target = loss.forward if isinstance(loss, nn.Module) else loss
    try:
        parameters = inspect.signature(target).parameters.values()
    except ValueError:  # builtins have no signature
        return loss(output)
    required = [
        p
        for p in parameters
        if p.default is p.empty
        and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    return loss(output, batch) if len(required) > 1 else loss(output)


def _checked_loss(loss: Any, what: str) -> Tensor:
    if not isinstance(loss, Tensor):
        got = type(loss).__name__
    elif loss.numel() != 1 or not loss.dtype.is_floating_point:
        got = _describe(loss)
    else:
        return loss
    raise CaptureError(
        f"[capture] {what} is not a loss: expected one floating point number, got "
        f"{got}. Try: reduce it, for example with .mean()"
    )


def _describe(value: Any) -> str:
    if isinstance(value, Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        return f"a tensor {dtype}{list(value.shape)}"
    if isinstance(value, torch.Size | tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return type(value).__name__
