"""`shardwright plan`: a plan for a model or a profiled graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from shardwright import _core, api
from shardwright.commands.options import (
    CommandParser,
    add_planning,
    planning_arguments,
    progress_to,
    warn,
)
from shardwright.commands.target import load_target
from shardwright.errors import (
    InvalidGraphError,
    ShardwrightError,
    ShardwrightWarning,
)
from shardwright.files import check_writable, read_text, write_text

__all__ = ["main"]

_EXAMPLES = """\
  shardwright plan train.py:step --cluster "4 cpu" --memory 400MiB -o plan.json
  shardwright plan graph.json --cluster "2x8 a100-80g" --mesh 2x8 --axes dp,tp
"""


def main(arguments: Sequence[str]) -> int:
    """Parses, plans, writes; 0 when a plan was found."""
    parser = CommandParser(
        "plan", "The best plan for one training step on a cluster.", _EXAMPLES
    )
    parser.add_argument("target", help="file.py:function, or a profiled graph.json")
    add_planning(parser)
    parser.add_argument("-o", "--output", help="plan file to write")
    parser.add_argument("--json", action="store_true", help="print the plan's JSON")
    parser.add_argument("--real", action="store_true", help="build with real values")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    progress = progress_to(options.quiet)
    asked = planning_arguments(options)  # wrong arguments are found first
    if options.output is not None:
        check_writable(options.output)
    graph = _graph_json(options.target, options.real, progress)
    with warnings.catch_warnings(), _file_named(options.target, graph):
        # The summary has them; where it is not printed, `warn` says them.
        warnings.simplefilter("ignore", ShardwrightWarning)
        plan = api.plan_graph(graph, **asked, progress=progress)
    if options.output is not None:
        write_text(options.output, plan.text)
    if options.json:
        print(plan.text)
    elif not options.quiet:
        print(plan.summary())
    if options.json or options.quiet:
        for text in plan.warnings:
            warn(text)
    return 0


@contextmanager
def _file_named(target: str, graph: str) -> Iterator[None]:
    """The core knows texts: an error of the graph names its file here."""
    try:
        yield
    except ShardwrightError as error:
        if not target.endswith(".json") or not _is_graphs_fault(error, graph):
            raise
        named = type(error)(f"{error} (graph file {target})")
        named.code = error.code
        raise named from error


def _is_graphs_fault(error: ShardwrightError, graph: str) -> bool:
    """Not the cluster's, which can be a damaged file, too."""
    if isinstance(error, InvalidGraphError):
        return True
    try:
        _core.graph_hash(graph)
    except ShardwrightError as own:
        return str(own) == str(error)
    return False


def _graph_json(target: str, real: bool, progress: api.Progress | None) -> str:
    if target.endswith(".json"):
        return read_text(target, "graph file")
    made = load_target(target)
    step = made.build_real() if real else made.build_meta()
    return api.profile_graph(
        step.model, step.batch, loss=step.loss, progress=progress
    ).graph_json
