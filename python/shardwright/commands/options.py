"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from shardwright.config import Pin
from shardwright.errors import ShardwrightError

__all__ = ["add_planning", "planning_arguments", "progress_to", "write_output"]


def add_planning(parser: argparse.ArgumentParser) -> None:
    """--cluster, --memory, --mesh, --axes, --optimizer, --pin, ..."""
    parser.add_argument(
        "--cluster",
        required=True,
        help='"[HOSTS x] DEVICES NAME" ("2x8 a100-80g", "4 cpu") or a cluster file',
    )
    parser.add_argument("--memory", help='limit per device, like "70GiB"')
    parser.add_argument("--mesh", help='one mesh only, like "2x4"')
    parser.add_argument("--axes", help='names of its axes, like "dp,tp"')
    parser.add_argument("--optimizer", default="adamw")
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="KIND:TARGET=SPEC",
        help='force a part: "placement:*.c_fc=[a, ...]", "storage:*.weight=[a, -]", '
        '"recompute:*.h.*=true"; may be repeated',
    )
    parser.add_argument("--gap", type=float, default=1e-3, help="proven gap to stop at")
    parser.add_argument("--time-limit", type=float, default=60, help="seconds")
    parser.add_argument("--seed", type=int, default=0)


def planning_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of api.plan_graph."""
    return {
        "cluster": options.cluster,
        "memory": options.memory,
        "mesh": _mesh(options.mesh),
        "axes": options.axes.split(",") if options.axes else None,
        "optimizer": options.optimizer,
        "pins": [_pin(text) for text in options.pin],
        "gap": options.gap,
        "time_limit_s": options.time_limit,
        "seed": options.seed,
    }


def _mesh(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [int(part) for part in text.lower().replace(",", "x").split("x")]
    except ValueError:
        raise ShardwrightError(
            f'[cli] mesh cannot be read: expected sizes such as "2x4", got "{text}"'
        ) from None


def _pin(text: str) -> Pin:
    kind, colon, rest = text.partition(":")
    target, equals, spec = rest.rpartition("=")
    if not colon or not equals or kind not in ("placement", "storage", "recompute"):
        raise ShardwrightError(
            "[cli] pin cannot be read: expected KIND:TARGET=SPEC with kind placement, "
            f"storage or recompute, got '{text}'"
        )
    return Pin(kind, target, spec)  # type: ignore[arg-type]


def progress_to(quiet: bool) -> Callable[[str], None] | None:
    """Progress lines on a terminal's error stream; none elsewhere."""
    if quiet or not sys.stderr.isatty():
        return None
    return lambda text: print(f"... {text}", file=sys.stderr)


def write_output(path: str | None, text: str) -> None:
    """To the file, whole or not at all; to standard output for None or "-"."""
    if path in (None, "-"):
        print(text)
        return
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        raise ShardwrightError(f"[cli] cannot write {path}: {error}") from error


def as_json(value: Any) -> str:
    return json.dumps(value, indent=1)
