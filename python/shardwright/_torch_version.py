"""The torch versions this release supports, checked where torch is used.

Capture reads what `torch.export` produces and the runtime stands on
distributed functions whose behaviour changes between releases, so another
torch is refused by name instead of failing somewhere inside. The packages that
import torch call `require_torch()` first.
"""

from __future__ import annotations

import importlib.metadata
import re

from shardwright.errors import VersionMismatchError

__all__ = ["SUPPORTED_TORCH", "is_supported", "require_torch", "torch_version"]

# [first supported, first no longer supported): as in pyproject.toml.
_FIRST = (2, 13)
_END = (2, 14)
SUPPORTED_TORCH = "torch >= 2.13, < 2.14"


def torch_version() -> str | None:
    """Version of the installed torch ("2.13.0+cpu"), without importing it."""
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return None


def is_supported(version: str) -> bool:
    """Whether a version text such as "2.13.0+cpu" is in the range."""
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None:
        return False
    return _FIRST <= (int(match[1]), int(match[2])) < _END


def require_torch(part: str) -> str:
    """The torch version, or `VersionMismatchError` naming what was found.

    `part` is what needs torch ("capture").
    """
    version = torch_version()
    if version is None:
        raise VersionMismatchError(
            f"[{part}] torch is not installed: expected {SUPPORTED_TORCH}. "
            "Try: pip install torch==2.13.0"
        )
    if not is_supported(version):
        raise VersionMismatchError(
            f"[{part}] unsupported torch: expected {SUPPORTED_TORCH}, got "
            f"{version}. Try: pip install torch==2.13.0"
        )
    return version
