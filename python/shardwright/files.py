"""Text files: read with a clear reason when not, written whole or not at all.

No torch. Errors are ShardwrightError with code "io_error".
"""

from __future__ import annotations

import os
from pathlib import Path

from shardwright.errors import ShardwrightError

__all__ = ["check_writable", "read_text", "write_text"]


def read_text(path: str | Path, what: str) -> str:
    """The file's text; `what` names it in the error ("plan file")."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise _error(
            f"cannot read {what} {path}: {error.strerror or error}. Try: check the path"
        ) from error
    except UnicodeDecodeError as error:
        raise _error(
            f"{what} {path} is damaged: expected UTF-8 text, got other bytes at "
            f"{error.start}. Try: make the file again"
        ) from error


def check_writable(path: str | Path) -> Path:
    """The file that `write_text` would write, links followed. For a look before
    long work: raises when the folder is missing or nothing may be written."""
    if not str(path):
        raise _error("cannot write: expected the path of a file, got ''")
    target = Path(os.path.realpath(path))
    if target.is_dir() or str(path).endswith("/"):
        raise _error(f"cannot write {path}: it is a folder. Try: a file in it")
    if not target.parent.is_dir():
        raise _error(
            f"cannot write {path}: there is no folder {target.parent}. "
            f"Try: mkdir -p {target.parent}"
        )
    # A regular file is replaced, which is an act on its folder.
    acted_on = target if _is_special(target) else target.parent
    if not os.access(acted_on, os.W_OK):
        raise _error(
            f"cannot write {path}: no permission to write {acted_on}. "
            "Try: another folder"
        )
    return target


def write_text(path: str | Path, text: str) -> None:
    """Writes beside the target and renames: a reader never sees half a file, and
    a failure leaves what was there. Devices and pipes are written to."""
    target = check_writable(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        if _is_special(target):
            target.write_text(text, encoding="utf-8")
            return
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise _error(f"cannot write {path}: {error.strerror or error}") from error


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _error(text: str) -> ShardwrightError:
    error = ShardwrightError(f"[io] {text}")
    error.code = "io_error"
    return error
