"""Targets: `file.py:function`, a function that returns (model, batch) or
(model, batch, loss)."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from shardwright._torch_version import require_torch
from shardwright.commands.options import fail
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
            return self._checked(self._called())

    def build_real(self, seed: int = 0) -> Step:
        """With values; equal on every rank for equal seeds."""
        import torch

        torch.manual_seed(seed)
        return self._checked(self._called())

    def _called(self) -> Any:
        try:
            return self.function()
        except (Exception, SystemExit) as error:
            where = _line_in(error, inspect.getsourcefile(self.function))
            raise fail(
                f"{self.text} raised {type(error).__name__}: {error}{where}. "
                "Try: call it in a Python session of its own"
            ) from error

    def _checked(self, made: Any) -> Step:
        from torch import nn

        if isinstance(made, tuple) and len(made) in (2, 3):
            model, batch, *rest = made
            loss = rest[0] if rest else None
            if isinstance(model, nn.Module) and (loss is None or callable(loss)):
                return Step(model, batch, loss)
        raise fail(
            f"{self.text} returned something else: expected (model, batch) or "
            f"(model, batch, loss) with loss a function, got {_kind_of(made)}"
        )


def load_target(text: str) -> Target:
    """Imports the file and finds the function. Raises ShardwrightError."""
    path_text, separator, name = text.rpartition(":")
    if not separator or not name.isidentifier():
        raise fail(f"not a target: expected file.py:function, got '{text}'")
    path = Path(path_text)
    if not path.is_file() or path.suffix != ".py":
        reason = "is no Python file (.py)" if path.is_file() else "does not exist"
        raise fail(
            f"target '{text}': the file {path_text} {reason}. "
            "Try: file.py:function, the path from here"
        )
    require_torch("cli")
    module = _imported(path)
    function = getattr(module, name, None)
    if not callable(function):
        known = sorted(n for n in _functions_of(module) if n[0] != "_")
        raise fail(
            f"{path_text} has no function '{name}'. Try: one of "
            f"{', '.join(known) or 'none'}"
        )
    _check_signature(text, function)
    return Target(text, function)


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None  # it ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # So that classes of the file can be found again by their module, and the
    # file finds its neighbours as it does when it is run.
    sys.modules.setdefault(path.stem, module)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ShardwrightError):
            raise
        raise fail(
            f"{path} fails on import: {type(error).__name__}: {error}"
            f"{_line_in(error, str(path))}"
        ) from error
    return module


def _functions_of(module: ModuleType) -> list[str]:
    return [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]


def _check_signature(text: str, function: Callable[..., Any]) -> None:
    try:
        signature = inspect.signature(function)
    except ValueError:  # written in C: the call will tell
        return
    try:
        signature.bind()
    except TypeError as error:
        raise fail(
            f"target '{text}' cannot be called without arguments: {error}. Try: a "
            "function without arguments that returns (model, batch)"
        ) from error


def _line_in(error: BaseException, file: str | None) -> str:
    """ " (file.py:12)": the deepest line of the user's file, if any."""
    if file is None:
        return ""
    frames = traceback.extract_tb(error.__traceback__)
    here = Path(file).resolve()
    lines = [f.lineno for f in frames if Path(f.filename).resolve() == here]
    return f" ({file}:{lines[-1]})" if lines else ""


def _kind_of(made: Any) -> str:
    if isinstance(made, tuple):
        return f"({', '.join(type(item).__name__ for item in made)})"
    return type(made).__name__
