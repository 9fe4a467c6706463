"""Exceptions of the Python border. Importable without torch.

The message form is the one of the C++ core:
``[layer] what is wrong: expected X, got Y (where). Try: ...``.
"""

__all__ = [
    "CaptureError",
    "InfeasibleError",
    "InternalError",
    "InvalidGraphError",
    "InvalidPlanError",
    "ShardwrightError",
    "VersionMismatchError",
]


class ShardwrightError(Exception):
    """Base of everything raised on purpose by this package."""


class CaptureError(ShardwrightError, ValueError):
    """The model or batch cannot be turned into a graph that is surely right."""


class InvalidGraphError(ShardwrightError, ValueError):
    """A graph breaks an invariant, or a graph file is damaged."""


class InvalidPlanError(ShardwrightError, ValueError):
    """A plan does not fit its graph, model or mesh, or its file is damaged."""


class InfeasibleError(ShardwrightError, RuntimeError):
    """No plan satisfies the memory limit and the pins."""


class VersionMismatchError(ShardwrightError, ValueError):
    """Two ranks, or a file and this program, disagree on a version or hash."""


class InternalError(ShardwrightError, RuntimeError):
    """A defect of shardwright itself. Please report it."""
