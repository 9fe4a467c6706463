"""Plan: a plan as Python sees it. No torch.

A thin, read-only view of the plan's JSON (its meaning is written down in
docs/formats.md, section E). Files are checked by the core when they are read:
a damaged, a hand-changed or a newer plan is refused with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shardwright import _core
from shardwright.errors import ShardwrightError
from shardwright.files import read_text, write_text

__all__ = ["Plan"]


@dataclass(frozen=True)
class Plan:
    """The whole answer: mesh, program of steps, predictions, certificate."""

    text: str  # the JSON
    data: Mapping[str, Any]

    @staticmethod
    def from_text(text: str) -> Plan:
        """Checks and reads a plan. Raises ShardwrightError (parse_error),
        InvalidPlanError or VersionMismatchError."""
        checked = _core.check_plan(text)
        return Plan(checked, json.loads(checked))

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Reads a plan file. Raises as from_text, naming the file, and for files
        that cannot be read."""
        text = read_text(path, "plan file")
        try:
            return Plan.from_text(text)
        except ShardwrightError as error:
            named = type(error)(f"{error} (plan file {path})")
            named.code = error.code
            raise named from None

    def save(self, path: str | Path) -> None:
        """Writes the file whole or not at all. Raises ShardwrightError."""
        write_text(path, self.text)

    @property
    def plan_hash(self) -> str:
        """Hash of everything that is executed; equal on all ranks or refused."""
        return str(self.data["plan_hash"])

    @property
    def peak_bytes(self) -> int:
        """Predicted peak bytes on a device over a training step."""
        return int(self.data["predicted"]["peak_bytes"])

    @property
    def time_s(self) -> float:
        """Modelled seconds of a training step."""
        return float(self.data["predicted"]["time_s"])

    @property
    def gap(self) -> float:
        """(cost - bound) / bound of the model's objective."""
        return float(self.data["objective"]["gap"])

    @property
    def warnings(self) -> list[str]:
        """What a user may not expect of the plan: ops without a rule, ..."""
        return [str(text) for text in self.data.get("warnings", [])]

    def summary(self) -> str:
        """A page of text: mesh, layouts, collectives, regions, predictions."""
        from shardwright.report.summary import plan_summary

        return plan_summary(self.data)
