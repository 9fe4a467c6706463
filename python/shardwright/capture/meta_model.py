"""A model on meta, traced as the same model on the CPU.

torch traces a few lines differently on meta: `y[:, 0] = 0` makes a constant on
the CPU and calls an op elsewhere, and `torch.tensor([1, 2])` beside tensors on
meta mixes two devices. A plan that is made on meta must hold for the model that
runs, so both have to give one graph. Export replaces every tensor by a fake one
before it traces; here the fakes of meta tensors say that they lie on the CPU.
Nothing is allocated, and tensors that the model makes itself have their values.
"""

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch._subclasses import meta_utils

__all__ = ["meta_as_cpu"]


@contextlib.contextmanager
def meta_as_cpu() -> Iterator[None]:
    """Fakes made inside say "cpu" for meta tensors: parameters, buffers, the
    batch, and what the model or its loss hold besides. New tensors are on the
    CPU, also inside the user's `with torch.device("meta")`."""
    # Private: the one place that all fakes of a trace are described in.
    describer: Any = meta_utils.MetaTensorDescriber
    original = describer.describe_tensor
    cpu = torch.device("cpu")

    def describe(self: Any, tensor: Tensor, **options: Any) -> Any:
        described = original(self, tensor, **options)
        if described.device.type != "meta":
            return described
        return dataclasses.replace(described, device=cpu)

    elsewhere = torch.get_default_device() != cpu
    describer.describe_tensor = describe
    try:
        with cpu if elsewhere else contextlib.nullcontext():
            yield
    finally:
        describer.describe_tensor = original
