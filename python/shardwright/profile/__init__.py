"""Profile records of a captured graph, made without running it."""

from shardwright.profile.profiling import (
    CapturedGraph,
    Progress,
    VariantFunction,
    make_records,
)

__all__ = ["CapturedGraph", "Progress", "VariantFunction", "make_records"]
