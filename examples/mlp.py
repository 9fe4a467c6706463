"""Two linear layers with a ReLU between them: the smallest useful target."""

from collections.abc import Callable

import torch
from torch import Tensor, nn


def _mean_square(output: Tensor) -> Tensor:
    return output.square().mean()


def mlp() -> tuple[nn.Module, Tensor, Callable[[Tensor], Tensor]]:
    """1024 -> 4096 -> 1024, batch 64; loss: mean square of the output."""
    model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Linear(4096, 1024))
    return model, torch.randn(64, 1024), _mean_square
