"""What shardwright raises.

Whose fault decides the class: the user's input (everything but
`InternalError`) or ours (`InternalError`). The message says what is wrong,
what was expected, what was found, where, and what to try.
"""

__all__ = [
    "CaptureError",
    "InfeasibleError",
    "InternalError",
    "InvalidGraphError",
    "InvalidPlanError",
    "ShardwrightError",
    "ShardwrightWarning",
    "VersionMismatchError",
]


class ShardwrightError(Exception):
    """Base of all errors of this package.

    `code` is a stable lower-case name ("parse_error"), finer than the class;
    the C++ core sets it.
    """

    code: str = "error"


class CaptureError(ShardwrightError, ValueError):
    """The model cannot be captured as a graph."""

    code = "capture"


class InvalidGraphError(ShardwrightError, ValueError):
    """A graph breaks an invariant or its file is damaged."""

    code = "invalid_graph"


class InvalidPlanError(ShardwrightError, ValueError):
    """A plan is wrong, damaged, or made for another graph."""

    code = "invalid_plan"


class InfeasibleError(ShardwrightError):
    """No plan fits the limits; the message names the smallest that does."""

    code = "infeasible"


class VersionMismatchError(ShardwrightError):
    """A file or a package has a version this build does not support."""

    code = "version_mismatch"


class ShardwrightWarning(UserWarning):
    """A plan is right but not what one may expect: an op without a rule, ..."""


class InternalError(ShardwrightError, RuntimeError):
    """A bug in shardwright; please report it with the input."""

    code = "internal"
