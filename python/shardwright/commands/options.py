"""Arguments that several commands share."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from shardwright.config import Pin
from shardwright.errors import ShardwrightError

__all__ = [
    "CommandParser",
    "add_planning",
    "fail",
    "planning_arguments",
    "progress_to",
    "seed",
    "warn",
    "whole_above_0",
]

_KINDS = ("placement", "storage", "recompute")


class CommandParser(argparse.ArgumentParser):
    """Wrong usage is one message like any other wrong input, not a page."""

    def __init__(self, command: str, description: str, examples: str) -> None:
        super().__init__(
            prog=f"shardwright {command}",
            description=description,
            epilog=f"examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        raise fail(f"{message}. Try: {self.prog} --help")


def fail(text: str) -> ShardwrightError:
    return ShardwrightError(f"[cli] {text}")


def seed(text: str) -> int:
    return _whole(text, 0)


def whole_above_0(text: str) -> int:
    return _whole(text, 1)


def _whole(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number < 2**63:
        raise argparse.ArgumentTypeError(
            f"expected a whole number of at least {least}, got '{text}'"
        )
    return number


def _at_least_0(text: str) -> float:
    number = _number(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(
            f"expected a number of at least 0, got '{text}'"
        )
    return number


def _above_0(text: str) -> float:
    number = _number(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got '{text}'")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


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
    parser.add_argument(
        "--gap", type=_at_least_0, default=1e-3, help="proven gap to stop at"
    )
    parser.add_argument("--time-limit", type=_above_0, default=60, help="seconds")
    parser.add_argument("--seed", type=seed, default=0)


def planning_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of api.plan_graph."""
    return {
        "cluster": options.cluster,
        "memory": options.memory,
        "mesh": _mesh(options.mesh),
        "axes": _axes(options.axes, options.mesh),
        "optimizer": options.optimizer,
        "pins": [_pin(text) for text in options.pin],
        "gap": options.gap,
        "time_limit_s": options.time_limit,
        "seed": options.seed,
    }


def _mesh(text: str | None) -> list[int] | None:
    if text is None:
        return None
    parts = text.lower().replace(",", "x").split("x")
    # Nine digits: more devices than any cluster has, and no overflow.
    if not all(part.strip().isdecimal() and len(part) <= 9 for part in parts):
        raise fail(f'mesh cannot be read: expected sizes such as "2x4", got "{text}"')
    return [int(part) for part in parts]


def _axes(text: str | None, mesh: str | None) -> list[str] | None:
    if text is None:
        return None
    if mesh is None:
        raise fail(
            f"axes need a mesh: expected --mesh, got only --axes {text!r}. "
            "Try: --mesh 2x4 --axes dp,tp"
        )
    return [name.strip() for name in text.split(",")]


def _pin(text: str) -> Pin:
    kind, colon, rest = text.partition(":")
    target, equals, spec = rest.rpartition("=")
    if not colon or not equals or not target or kind not in _KINDS:
        raise fail(
            "pin cannot be read: expected KIND:TARGET=SPEC with kind placement, "
            f"storage or recompute, got '{text}'"
        )
    return Pin(kind, target, spec)  # type: ignore[arg-type]


def progress_to(quiet: bool) -> Callable[[str], None] | None:
    """Progress lines on a terminal's error stream; none elsewhere."""
    if quiet or not sys.stderr.isatty():
        return None
    return lambda text: print(f"... {text}", file=sys.stderr)


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)
