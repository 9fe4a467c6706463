"""A run's report as lines of plain text."""

from __future__ import annotations

from shardwright.execute.run import RunReport

__all__ = ["report_lines"]


def report_lines(report: RunReport) -> list[str]:
    """Losses, times, bytes, collectives, then one line per check."""
    lines = ["losses       " + "  ".join(f"{loss:.6g}" for loss in report.losses)]
    if report.step_s:
        best = min(report.step_s)
        lines.append(f"step         {best * 1e3:.1f} ms (best of {len(report.step_s)})")
    if any(report.peak_bytes):
        for rank, (peak, state) in enumerate(
            zip(report.peak_bytes, report.state_bytes, strict=True)
        ):
            lines.append(
                f"rank {rank:<7} peak {_mib(peak)}, {_mib(state)} before the step"
            )
        if report.predicted_peak_bytes:
            lines.append(f"predicted    peak {_mib(report.predicted_peak_bytes)}")
    for (kind, axis, num_bytes), count in sorted(report.collectives.items()):
        lines.append(f"{kind:<15}{axis:<8}{count:>5} x {num_bytes:>12} bytes")
    for check in report.checks:
        verdict = "ok  " if check.passed else "FAIL"
        if check.not_made:
            lines.append(f"{verdict} {check.name}: {check.not_made}")
            continue
        where = f"  ({check.where})" if check.where else ""
        own = check.own_error
        beside = "" if own is None else f", one process itself {own:.3g} off float64"
        lines.append(
            f"{verdict} {check.name}: {check.worst:.3g}, limit {check.limit:.3g}"
            f"{beside}{where}"
        )
    return lines


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 2**20:.3f} MiB"
