"""Targets: `file.py:function`, a function that returns (model, batch) or
(model, batch, loss)."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwright.errors import ShardwrightError

__all__ = ["Step", "Target", "load_target"]


@dataclass(frozen=True)
class Step:
    """What a target function returned."""

    model: Any
    batch: Any
    loss: Callable[..., Any] | None


@dataclass(frozen=True)
class Target:
    """A function that builds a model and a batch."""

    text: str
    function: Callable[[], Any]

    def build_meta(self) -> Step:
        """Under torch.device("meta"): shapes only, no memory."""
        import torch

        with torch.device("meta"):
            return self._checked(self.function())

    def build_real(self, seed: int = 0) -> Step:
        """With values; equal on every rank for equal seeds."""
        import torch

        torch.manual_seed(seed)
        return self._checked(self.function())

    def _checked(self, made: Any) -> Step:
        from torch import nn

        if isinstance(made, tuple) and len(made) in (2, 3):
            model, batch, *rest = made
            if isinstance(model, nn.Module):
                return Step(model, batch, rest[0] if rest else None)
        raise ShardwrightError(
            f"[cli] {self.text} returned something else: expected (model, batch) or "
            f"(model, batch, loss), got {type(made).__name__}"
        )


def load_target(text: str) -> Target:
    """Imports the file and finds the function. Raises ShardwrightError."""
    path_text, separator, name = text.rpartition(":")
    if not separator or not name.isidentifier():
        raise ShardwrightError(
            f"[cli] not a target: expected file.py:function, got '{text}'"
        )
    path = Path(path_text)
    if not path.is_file():
        raise ShardwrightError(f"[cli] no such file: {path_text} (target '{text}')")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ShardwrightError(f"[cli] {path_text} is no Python file")
    module = importlib.util.module_from_spec(spec)
    # So that classes of the file can be found again by their module.
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise ShardwrightError(
            f"[cli] {path_text} fails on import: {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, v in vars(module).items() if callable(v) and n[0] != "_"]
        raise ShardwrightError(
            f"[cli] {path_text} has no function '{name}'. Try: one of "
            f"{', '.join(sorted(known)) or 'none'}"
        )
    return Target(text, function)
