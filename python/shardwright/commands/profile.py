"""`shardwright profile`: capture and profile one training step."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from shardwright import _core, api
from shardwright.commands.options import CommandParser, progress_to
from shardwright.commands.target import load_target
from shardwright.files import check_writable, write_text

__all__ = ["main"]

_EXAMPLES = """\
  shardwright profile train.py:step
  shardwright profile train.py:step --graph graph.json --quiet
"""


def main(arguments: Sequence[str]) -> int:
    """Parses, captures, profiles, prints totals; `--graph` writes the graph."""
    parser = CommandParser(
        "profile", "Ops, parameters and FLOPs of one training step, not run.", _EXAMPLES
    )
    parser.add_argument("target", help="file.py:function")
    parser.add_argument("--graph", "-o", help="graph file to write")
    parser.add_argument("--json", action="store_true", help="totals as JSON")
    parser.add_argument("--real", action="store_true", help="build with real values")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args(arguments)
    if options.graph is not None:
        check_writable(options.graph)
    made = load_target(options.target)
    step = made.build_real() if options.real else made.build_meta()
    profiled = api.profile_graph(
        step.model, step.batch, loss=step.loss, progress=progress_to(options.quiet)
    )
    if options.graph is not None:
        write_text(options.graph, profiled.graph_json)
    totals = _totals(
        profiled.captured.graph, json.loads(_core.factor_maps(profiled.graph_json))
    )
    if options.json:
        print(json.dumps(totals, indent=1))
    elif not options.quiet:
        for name, value in totals.items():
            print(f"{name:28} {value}")
    return 0


def _totals(
    graph: Mapping[str, Any], factor_maps: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    parameters = [v for v in graph["values"] if v["kind"] == "parameter"]
    count = sum(_elements(v["shape"]) for v in parameters)
    flops: Counter[str] = Counter()
    for op, factor_map in zip(graph["ops"], factor_maps, strict=True):
        record = graph["records"][op["record"]]
        sizes = [factor["size"] for factor in factor_map["factors"]]
        for phase in ("forward", "backward"):
            for kernel in record[f"kernels_{phase}"]:
                flops[phase] += _at_full_size(kernel["flops"], sizes)
    return {
        "model": graph["name"],
        "ops": len(graph["ops"]),
        "different ops": len(graph["records"]),
        "parameters": count,
        "forward_flops": flops["forward"],
        "backward_flops": flops["backward"],
        "most used ops": dict(
            Counter(op["name"] for op in graph["ops"]).most_common(8)
        ),
    }


def _elements(shape: Sequence[int]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _at_full_size(expression: Any, sizes: Sequence[int]) -> int:
    terms = expression if isinstance(expression, list) else [expression]
    total = 0.0
    for term in terms:
        value = term["c"]
        for factor in term["f"]:
            value *= sizes[factor]
        total += value
    return int(total)
