"""`python -m shardwright`: the commands that need Python or torch.

The program `shardwright` hands these commands over with its arguments; the
others are its own. Exit codes as there: 2 wrong input, 3 no plan exists,
4 internal error.

To add a command: write a function `(arguments) -> exit code` and put it in
`_COMMANDS`; it parses its own arguments (`--help` with examples, `--json`,
`-o`, `--quiet`) and imports torch parts inside.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from shardwright._torch_version import SUPPORTED_TORCH, is_supported, torch_version
from shardwright.errors import InfeasibleError, InternalError, ShardwrightError

_OK, _INPUT, _INFEASIBLE, _INTERNAL, _INTERRUPTED = 0, 2, 3, 4, 130


def _torch_report() -> dict[str, Any]:
    version = torch_version()
    report: dict[str, Any] = {
        "version": version,
        "supported": version is not None and is_supported(version),
        "expected": SUPPORTED_TORCH,
    }
    if version is None:
        return report
    try:
        import torch
        import torch.distributed as dist
    except Exception as error:  # a broken installation is a finding
        report["error"] = f"{type(error).__name__}: {error}"
        return report
    available = dist.is_available()
    report["gloo"] = available and dist.is_gloo_available()
    report["nccl"] = available and dist.is_nccl_available()
    report["cuda_devices"] = torch.cuda.device_count()
    return report


def _package_report() -> dict[str, Any]:
    try:
        from shardwright import _core
    except ImportError as error:
        return {"error": f"the C++ core does not load: {error}"}
    return {"core": _core.version(), "folder": str(Path(__file__).parent)}


def _doctor(arguments: Sequence[str]) -> int:
    from shardwright.commands.options import CommandParser

    parser = CommandParser(
        "doctor", "Versions and backends of the Python side.", "  shardwright doctor"
    )
    parser.add_argument("--json", action="store_true", help="answer as JSON")
    options = parser.parse_args(arguments)
    report = {
        "python": platform.python_version(),
        "package": _package_report(),
        "torch": _torch_report(),
    }
    if options.json:
        print(json.dumps(report, indent=2))
        return _OK
    for name, value in report.items():
        print(f"{name:10} {value}")
    return _OK


def _plan(arguments: Sequence[str]) -> int:
    from shardwright.commands.plan import main

    return main(arguments)


def _profile(arguments: Sequence[str]) -> int:
    from shardwright.commands.profile import main

    return main(arguments)


def _run(arguments: Sequence[str]) -> int:
    from shardwright.commands.run import main

    return main(arguments)


_COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "doctor": _doctor,
    "plan": _plan,
    "profile": _profile,
    "run": _run,
}


def main(arguments: Sequence[str]) -> int:
    """Runs one command; gives the exit code."""
    if not arguments or arguments[0] not in _COMMANDS:
        wrong = (
            f"'{arguments[0]}' is not available in this build"
            if arguments
            else "no command given"
        )
        _say_error(
            f"[cli] {wrong}: expected one of {', '.join(sorted(_COMMANDS))}, or a "
            "command of the program itself. Try: shardwright --help"
        )
        return _INPUT
    try:
        return _COMMANDS[arguments[0]](arguments[1:])
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        return _OK
    except KeyboardInterrupt:
        _say_error("[cli] interrupted")
        return _INTERRUPTED
    except InfeasibleError as error:
        _say_error(str(error))
        return _INFEASIBLE
    except InternalError as error:
        _say_error(str(error))
        return _INTERNAL
    except ShardwrightError as error:
        _say_error(str(error))
        return _INPUT
    except Exception:
        traceback.print_exc()
        _say_error(
            "internal error: this is a bug in shardwright; please report it with "
            "the input."
        )
        return _INTERNAL


def _say_error(text: str) -> None:
    """One line, in one write: the ranks of torchrun do not mix theirs."""
    rank = os.environ.get("RANK")
    where = "" if rank is None else f"rank {rank}: "
    line = " ".join(part.strip() for part in text.splitlines())
    sys.stderr.write(f"error: {where}{line}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
