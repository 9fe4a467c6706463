"""A plan on a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["human_bytes", "human_seconds", "plan_summary"]


def human_bytes(count: float) -> str:
    """ "1.50 GiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} TiB"


def human_seconds(seconds: float) -> str:
    """ "1.230 ms"."""
    if abs(seconds) >= 1:
        return f"{seconds:.3f} s"
    if abs(seconds) >= 1e-3:
        return f"{seconds * 1e3:.3f} ms"
    return f"{seconds * 1e6:.2f} us"


def plan_summary(plan: Mapping[str, Any]) -> str:
    """Mesh, certificate, memory, parameters, layers, collectives, regions."""
    lines = [*_head(plan), "", *_memory(plan), ""]
    lines += [*_parameters(plan), "", *_layers(plan), ""]
    lines += [*_collectives(plan), "", *_regions(plan)]
    lines += [f"warning: {text}" for text in plan.get("warnings", [])]
    return "\n".join(lines)


def _head(plan: Mapping[str, Any]) -> list[str]:
    mesh = " x ".join(f"{a['name']}={a['size']}" for a in plan["mesh"]["axes"])
    goal = plan["objective"]
    unit = goal.get("unit_ps", 1) * 1e-12  # seconds
    predicted = plan["predicted"]
    return [
        f"plan of {plan['graph_name']} on {plan['cluster']}, mesh {mesh}, "
        f"{plan['optimizer']}",
        f"step time   {human_seconds(predicted['time_s'])} (compute "
        f"{human_seconds(predicted['compute_s'])}, communication "
        f"{human_seconds(predicted['communication_s'])})",
        f"certificate {goal['status']}: bound "
        f"{human_seconds(goal['bound_ps'] * unit)}, "
        f"gap {100 * goal['gap']:.3f} %",
        f"covers      {goal['covers']}",
    ]


def _memory(plan: Mapping[str, Any]) -> list[str]:
    predicted = plan["predicted"]
    limit = plan["memory_limit_bytes"]
    lines = [
        f"memory      {human_bytes(predicted['peak_bytes'])} a device"
        + (f" of {human_bytes(limit)}" if limit is not None else " (no limit)"),
        f"            peak at {predicted['peak_at']}",
    ]
    lines += [
        f"            {name:12} {human_bytes(predicted[key])}"
        for name, key in (
            ("parameters", "parameters_bytes"),
            ("optimizer", "optimizer_bytes"),
            ("gradients", "gradients_bytes"),
            ("inputs", "inputs_bytes"),
            ("rest at peak", "activations_bytes"),
        )
    ]
    return lines


def _short(items: Iterable[str], most: int = 24) -> list[str]:
    rows = list(items)
    if len(rows) <= most:
        return rows
    return [*rows[:most], f"  ... and {len(rows) - most} more"]


def _parameters(plan: Mapping[str, Any]) -> list[str]:
    specs = Counter(p["storage"] for p in plan["parameters"])
    rows = [f"  {p['name']:48} {p['storage']}" for p in plan["parameters"]]
    split = ", ".join(f"{spec} {count}" for spec, count in sorted(specs.items()))
    return [f"parameters in storage ({split})", *_short(rows)]


def _layers(plan: Mapping[str, Any]) -> list[str]:
    rows = []
    for step in plan["steps"]:
        if step["kind"] == "convert":
            kinds = ", ".join(_kinds(step["forward"])) or "-"
            back = ", ".join(_kinds(step["backward"])) or "-"
            rows.append(
                f"  {step['value']:48} {step['from']} -> {step['to']}"
                f"  forward {kinds}; backward {back}"
                + ("; gathered again in backward" if step["regather"] else "")
            )
        elif step["strategy"] != "replicate":
            rows.append(
                f"  {step['op']:48} {step['strategy']}  -> "
                f"{' '.join(step['out_specs'])}"
                + (f"  as {step['variant']}" if step["variant"] else "")
            )
    return ["program (split ops and conversions)", *_short(rows, 80)]


def _kinds(steps: Iterable[Mapping[str, Any]]) -> list[str]:
    return [f"{s['kind']}({s['axis']})" for s in steps]


def _collectives(plan: Mapping[str, Any]) -> list[str]:
    rows = [
        f"  {c['count']:4} x {c['kind']:14} on {c['axis']}  {human_bytes(c['bytes'])}"
        for c in plan["collectives"]
    ]
    return ["collectives of one step", *(rows or ["  none"])]


def _regions(plan: Mapping[str, Any]) -> list[str]:
    names = [r["name"] or f"region {r['id']}" for r in plan["regions"]]
    again = [
        name for name, r in zip(names, plan["regions"], strict=True) if r["recompute"]
    ]
    return [
        f"recomputed regions: {', '.join(again) if again else 'none'} "
        f"({len(again)} of {len(names)})"
    ]
