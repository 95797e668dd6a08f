"""When threads wanted to run and had no CPU core, and whether there were too few cores."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.subjects.system.rules._blame import Blame, find_blame, list_parts
from sightline.timeline.system_waits import is_oversubscribed, list_waits_for_cpu


def find_waits_for_cpu(run: Run, *, crowded: bool) -> tuple[Blame, pl.DataFrame] | None:
    """What was lost to threads that had no CPU core, and when; None where it is too little.

    `crowded`: most of it while more threads wanted to run than there are cores; else the opposite.
    """
    waits = list_waits_for_cpu(run)
    cause = "cpu_oversubscribed" if crowded else "preempted"
    blame = find_blame(run, waits, cause=cause)
    if blame is None:
        return None
    parts = list_parts(run, blame, waits)
    holds = blame.has_device or is_oversubscribed(run, parts) == crowded
    return (blame, parts) if holds else None
