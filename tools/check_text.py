"""Text hygiene of the tracked files, and links in the documentation.

Printed as `file:line: what is wrong`; exit code 1 when anything was found:
trailing spaces, tabs in sources, no newline at the end, empty files (but for
`py.typed` and `__init__.py`), files over 1 MB, and relative Markdown links that
lead nowhere.

    python tools/check_text.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["check_file", "main"]

# Large files belong in no source repository; the largest of ours are golden
# tests of some hundred kB.
_MAX_BYTES = 1_000_000
_MAY_BE_EMPTY = {"py.typed", "__init__.py"}
_MAY_HAVE_TABS = {"Makefile"}
_DATA = {".json", ".csv", ".txt", ".golden"}
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(?:#[^)]*)?\)")


def _check_lines(path: Path, text: str) -> Iterator[str]:
    tabs_allowed = path.name in _MAY_HAVE_TABS
    for number, line in enumerate(text.splitlines(), start=1):
        if line != line.rstrip():
            yield f"{path}:{number}: trailing space"
        if "\t" in line and not tabs_allowed:
            yield f"{path}:{number}: tab"


def _check_links(root: Path, path: Path, text: str) -> Iterator[str]:
    for number, line in enumerate(text.splitlines(), start=1):
        for target in _LINK.findall(line):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not (root / path.parent / target).exists():
                yield f"{path}:{number}: link to missing {target}"


def check_file(root: Path, path: Path) -> Iterator[str]:
    """What is wrong with one file; `path` is relative to `root`."""
    content = (root / path).read_bytes()
    if not content:
        if path.name not in _MAY_BE_EMPTY:
            yield f"{path}: empty file"
        return
    if len(content) > _MAX_BYTES:
        yield f"{path}: {len(content)} bytes, more than {_MAX_BYTES}"
        return
    if b"\0" in content:
        return
    text = content.decode("utf-8")
    if not text.endswith("\n"):
        yield f"{path}: no newline at the end"
    if path.suffix not in _DATA:
        yield from _check_lines(path, text)
    if path.suffix == ".md":
        yield from _check_links(root, path, text)


def _tracked(root: Path) -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(
        command, cwd=root, check=True, capture_output=True, text=True
    )
    paths = [Path(line) for line in listed.stdout.splitlines()]
    return [path for path in paths if (root / path).is_file()]


def main() -> int:
    """Checks every tracked or new file of this repository."""
    root = Path(__file__).resolve().parent.parent
    problems = [
        problem for path in _tracked(root) for problem in check_file(root, path)
    ]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
