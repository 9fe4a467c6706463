"""The C++ core of shardwright: functions of JSON text."""

from collections.abc import Callable

def version() -> str:
    """Version of the C++ core."""

def sha256(text: str) -> str:
    """
    SHA-256 of the text's UTF-8 bytes, in hexadecimal: the hash that plans and graphs carry.
    """

def graph_hash(graph_json: str) -> str:
    """
    SHA-256 of what decides the program (no records, no batch). Raises InvalidGraphError naming the op or value, VersionMismatchError for a file of another version.
    """

def graph_text(graph_json: str) -> str:
    """One line per op, for people. Raises like graph_hash."""

def factor_maps(graph_json: str) -> str:
    """
    Sharding factors of every op of a graph, in the order of its ops, as JSON.
    """

def strategies(graph_json: str, mesh_json: str) -> str:
    """
    All strategies of each op on a mesh {"axes": [{"name", "size"}]}. Raises InvalidGraphError.
    """

def make_plan(
    graph_json: str, options_json: str, progress: Callable[[str], None] | None = None
) -> str:
    """
    Plans a profiled graph; options as JSON: cluster, mesh, axes, optimizer, memory_limit_bytes, pins, gap, time_limit_s, seed, recompute. Gives the plan as JSON text.
    """

def check_plan(plan_json: str) -> str:
    """
    The plan as this version writes it. Raises when it is damaged, changed by hand, or of another version.
    """

def replay(graph_json: str, plan_json: str) -> str:
    """Memory timeline of one training step under a plan, as JSON."""

def choice_problem(graph_json: str, options_json: str) -> str:
    """The joint choice problem of one mesh as JSON, for second opinions."""

def verify_plan(graph_json: str, plan_json: str) -> str:
    """
    Checks a plan against its graph with code of its own. Gives the report as JSON: ok, complete, findings (where, what), the peak's two estimates, cost and collectives added up again.
    """

def explain(graph_json: str, plan_json: str, query: str = "") -> str:
    """
    A plan as text: with an empty query its program, collectives and memory; else, for the ops of that key or module path, every strategy with the cost of the best plan that uses it.
    """
