"""Source lines: where in the user's model an op or an error comes from."""

import contextlib
import re
import traceback
from pathlib import Path
from types import TracebackType

import torch
from torch import fx

__all__ = ["error_line", "node_source"]

_TORCH_ROOT = str(Path(torch.__file__).parent)
_OUR_ROOT = str(Path(__file__).parent)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def node_source(node: fx.Node) -> str:
    """ "file.py:line" of the innermost frame outside torch; "" when unknown."""
    trace = node.meta.get("stack_trace") or ""
    frames = _FRAME.findall(trace)
    for file, line in reversed(frames):
        if not _is_foreign(file):
            return f"{Path(file).name}:{line}"
    return f"{Path(frames[-1][0]).name}:{frames[-1][1]}" if frames else ""


def error_line(trace: TracebackType | None) -> str:
    """'file.py:12, in forward: `code`' of the innermost frame of the model."""
    frames = traceback.extract_tb(trace)
    for frame in reversed(frames):
        if not _is_foreign(frame.filename):
            where = f"{Path(frame.filename).name}:{frame.lineno}, in {frame.name}"
            return f"{where}: `{frame.line}`" if frame.line else where
    return ""


def _is_foreign(file: str) -> bool:
    """Frames of torch, of this package, of `with`, and of no file tell a user
    nothing."""
    return file.startswith((_TORCH_ROOT, _OUR_ROOT, contextlib.__file__, "<"))
