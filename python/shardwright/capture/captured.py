"""What a capture is: the graph as data, and the program that it describes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from shardwright.capture.batch import BatchLayout
from shardwright.capture.step import OutputLayout

__all__ = ["AutocastState", "Captured"]


@dataclass(frozen=True)
class AutocastState:
    """Autocast that surrounded the capture; it must surround every run."""

    device_type: str
    dtype: torch.dtype


@dataclass(frozen=True)
class Captured:
    """One training step of a model.

    `module` is the normalised program: placeholders are the inputs (in order of
    `batch_layout.names`), get_attr nodes the parameters, buffers (the model's
    own tensors, under their names) and constants. Each call of an op is one op
    of `graph`, with every argument of its schema explicit; getitem nodes pick
    the results of ops with several. It returns (loss, *outputs). Device
    arguments are those of the captured device; a model on meta is traced as on
    the CPU.

    Every node with a tensor value has meta["tensor"], a TensorMeta.
    """

    graph: dict[str, Any]
    module: fx.GraphModule
    op_nodes: dict[str, fx.Node]  # by op key
    value_nodes: dict[str, fx.Node]  # by value name; unread state has none
    batch_layout: BatchLayout
    output_layout: OutputLayout
    training: bool  # the mode that is baked into the program
    autocast: AutocastState | None
    # Constants and non-persistent buffers on meta: the program cannot run
    # before they are given values.
    valueless: tuple[str, ...]

    def bind(self, batch: Any, *, check_shapes: bool = True) -> list[Tensor]:
        """The flat inputs of `batch`; CaptureError when it does not fit."""
        return self.batch_layout.bind(batch, check_shapes=check_shapes)

    def unflatten(self, outputs: Sequence[Tensor]) -> Any:
        """The model's own output from the tensors of graph["outputs"]."""
        return self.output_layout.unflatten(outputs)
