"""Profile records of a captured graph, made without running it."""

# ruff: noqa: E402 - the torch version is checked before torch is used
from shardwright._torch_version import require_torch

require_torch("profile")

from shardwright.profile.profiling import (
    CapturedGraph,
    Progress,
    VariantFunction,
    make_records,
)

__all__ = ["CapturedGraph", "Progress", "VariantFunction", "make_records"]
