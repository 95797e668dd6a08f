"""What the figure of a finding's check is now, so that the next recording has something to beat."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.core.units import format_ns
from sightline.errors import MissingDataError

# `idle` and `breakdown` are known by then: the rules asked for them. Of the others each would cost
# an analysis of its own.
_IDLE = re.compile(r"sightline stats idle AFTER: total_ns of (?P<causes>\w+(?: and \w+)*)")
_ALL_IDLE = re.compile(r"sightline stats breakdown AFTER: idle_ns")
_UNDER = re.compile(r"sightline stats breakdown AFTER: (?P<part>\w+)_pct under (?P<limit>\d+)")


def add_figures(run: Run, found: Sequence[Finding]) -> list[Finding]:
    """The findings; a check that names idle time says how much there is now, on the worst device.

    Where a part is to be under a share that it is under already, since the finding costs elsewhere,
    that part and the idle time are to become less.
    `run` is all of the recording, as the check's command has it.
    """
    return [_add_figure(run, finding) for finding in found]


def _add_figure(run: Run, finding: Finding) -> Finding:
    check = finding.verify or ""
    try:
        if matched := _IDLE.fullmatch(check):
            causes = matched["causes"].split(" and ")
            rows = run.ask("idle").filter(pl.col("cause").is_in(causes))
            each = rows.group_by("rank", "device_id").agg(ns=pl.col("total_ns").sum())
        elif _ALL_IDLE.fullmatch(check):
            each = run.ask("breakdown").select(ns="idle_ns")
        elif (matched := _UNDER.fullmatch(check)) and _holds(run, **matched.groupdict()):
            rows = run.ask("breakdown")
            parts = dict.fromkeys([f"{matched['part']}_ns", "idle_ns"])
            now = " and ".join(format_ns(rows.get_column(name).max()) for name in parts)  # type: ignore[arg-type]
            less = f"sightline stats breakdown AFTER: {' and '.join(parts)}"
            return replace(finding, verify=f"{less} (now {now})")
        else:
            return finding
    except MissingDataError:
        return finding
    worst = each.get_column("ns").max()
    if not isinstance(worst, int) or worst == 0:
        return finding
    most = " at most" if each.height > 1 else ""
    return replace(finding, verify=f"{check} (now {format_ns(worst)}{most})")


def _holds(run: Run, part: str, limit: str) -> bool:
    """Whether the part is under its limit on every device."""
    shares = run.ask("breakdown").get_column(f"{part}_pct")
    return not (shares > float(limit)).any()
