"""From a model and a batch to a graph: `capture(model, batch) -> Captured`."""

# ruff: noqa: E402 - the torch version is checked before torch is used
from shardwright._torch_version import require_torch

require_torch("capture")

from shardwright.capture.batch import BatchLayout, rebuild_batch, tensors_of
from shardwright.capture.captured import AutocastState, Captured
from shardwright.capture.capturing import capture
from shardwright.capture.step import OutputLayout, step_loss
from shardwright.capture.tracked import TensorMeta

__all__ = [
    "AutocastState",
    "BatchLayout",
    "Captured",
    "OutputLayout",
    "TensorMeta",
    "capture",
    "rebuild_batch",
    "step_loss",
    "tensors_of",
]
