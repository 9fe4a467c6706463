"""shardwright: joint sharding and checkpointing plans for PyTorch training.

Importing this package does not import torch: plans and graphs in files can be
read without it. `plan`, `parallelize`, `auto_parallelize` and the classes
around them live in `shardwright.api` and are loaded at first use.
"""

from __future__ import annotations

import importlib
from typing import Any

from shardwright.errors import (
    CaptureError,
    InfeasibleError,
    InternalError,
    InvalidGraphError,
    InvalidPlanError,
    ShardwrightError,
    ShardwrightWarning,
    VersionMismatchError,
)

__all__ = [
    "CaptureError",
    "InfeasibleError",
    "InternalError",
    "InvalidGraphError",
    "InvalidPlanError",
    "ShardwrightError",
    "ShardwrightWarning",
    "VersionMismatchError",
    "__version__",
]

# Loaded from shardwright.api when first asked for.
_FROM_API = ("auto_parallelize", "parallelize", "plan")


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("shardwright._core").version()
    if name in _FROM_API:
        return getattr(importlib.import_module("shardwright.api"), name)
    raise AttributeError(f"module 'shardwright' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), *_FROM_API, "__version__"])
