"""Runs torch.export on a training step, with everything kept and translated."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from shardwright.capture.batch import call_arguments
from shardwright.capture.meta_model import meta_as_cpu
from shardwright.capture.step import OutputLayout, TrainingStep
from shardwright.capture.translate import translate
from shardwright.capture.traps import (
    custom_backwards_refused,
    gradient_hooks_refused,
    refuse_unsupported_model,
)
from shardwright.capture.untouched import (
    attributes_kept,
    generators_kept,
    masks_not_examined,
    without_cache,
)
from shardwright.errors import CaptureError

__all__ = ["export_step", "model_device", "on_device"]


def export_step(
    model: nn.Module, batch: Any, loss: Callable[..., Any] | None
) -> tuple[ExportedProgram, OutputLayout]:
    """The training IR of one step (global shapes, static) and its output.

    Runs under the ambient autocast. Raises CaptureError, with the model's
    source line where there is one.
    """
    refuse_unsupported_model(model)
    layouts: list[OutputLayout] = []
    step = TrainingStep(model, batch, loss, layouts.append)
    args, kwargs = call_arguments(batch)
    name = type(model).__name__
    try:
        with contextlib.ExitStack() as stack:
            for keeper in (
                attributes_kept(model),
                generators_kept(),
                without_cache(model),
                custom_backwards_refused(),
                gradient_hooks_refused(),
                masks_not_examined(),
                torch.enable_grad(),
                _traced_as_if_real(model),
            ):
                stack.enter_context(keeper)
            program = torch.export.export(step, args, kwargs, strict=False)
    except Exception as error:  # export raises anything the model can raise
        raise translate(error, name) from error
    return program, layouts[-1]


def model_device(model: nn.Module) -> torch.device:
    """The one device of the model; CaptureError when there are several.

    A model on meta may have tensors on the CPU, made there by name.
    """
    devices = {t.device for t in [*model.parameters(), *model.buffers()]}
    if devices == {torch.device("meta"), torch.device("cpu")}:
        return torch.device("meta")
    if len(devices) > 1:
        names = sorted(str(device) for device in devices)
        raise CaptureError(
            f"[capture] the model is spread over devices: expected one, got {names}. "
            "Try: model.to() one of them."
        )
    return devices.pop() if devices else torch.device("cpu")


def _traced_as_if_real(
    model: nn.Module,
) -> contextlib.AbstractContextManager[None]:
    is_meta = model_device(model).type == "meta"
    return meta_as_cpu() if is_meta else contextlib.nullcontext()


def on_device(batch: Any, device: torch.device) -> Any:
    """A copy of `batch` with its tensors on `device`.

    Always a copy: export takes two inputs that are one tensor (labels =
    input_ids) for one input, and would read one of them for both. Tracing reads
    no values, so a meta batch becomes zeros, which are valid indices.
    """
    if isinstance(batch, Tensor):
        if batch.device.type == "meta" or device.type == "meta":
            return torch.zeros(batch.shape, dtype=batch.dtype, device=device)
        return batch.detach().to(device, copy=True)
    if type(batch) in (tuple, list):
        return type(batch)(on_device(value, device) for value in batch)
    if isinstance(batch, Mapping):
        return {key: on_device(value, device) for key, value in batch.items()}
    return batch
