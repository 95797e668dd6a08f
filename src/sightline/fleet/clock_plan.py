"""Which ranks could run at a lower clock, what that saves, and what it puts at risk.

A rank that others wait for must be fast; one that waits may be slower at no cost, until it is what
they wait for. After "Perseus: Reducing Energy Bloat in Large Model Training" (Chung et al., SOSP
2024; arXiv 2312.06902), of which this is the part that needs no change of the program: one clock
for each GPU for the whole job, chosen on the replay of all ranks. Clocks, powers and how compute
slows down are measured (`power_table`), none is modelled. A rank takes its busy power while it
computes and its waiting power for the rest of the job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from sightline.fleet.job import Job, replay_slower
from sightline.fleet.power_table import Level

MAY_LOSE = 0.005  # of the job's length: half of what ranks are named for (ours)
# Ranks that wait alike share a clock where there are more: each choice is a replay of all.
_MOST_GROUPS = 64


@dataclass(frozen=True)
class ClockPlan:
    """A clock for each rank: `rows` has rank, device_id, mhz, busy_ns, saved_j.

    All of the recorded window: joules at the highest clock, those saved with their 95 % interval,
    and by how much the job becomes longer, as a share, at least and at most.
    """

    rows: pl.DataFrame
    highest_mhz: int
    length_ns: int
    energy_j: float
    saved_j: float
    saved_j_least: float
    saved_j_most: float
    longer: float
    longer_least: float
    longer_most: float


def plan_clocks(job: Job, levels: Sequence[Level], may_lose: float = MAY_LOSE) -> ClockPlan:
    """The plan that saves most and makes the job longer by `may_lose` at most, at the worst.

    `levels` have the highest clock first, at which the job ran.
    """
    count = len(job.ranks)
    busy = np.array([rank.parts.get("compute_ns", 0) for rank in job.ranks], float)
    length = replay_slower(job, np.ones((count, 1)))[0]
    most = np.array([level.most_slowdown for level in levels])
    chosen = np.zeros(count, np.int64)
    energies = _measure_energies(busy, length, levels)
    for group in _group_ranks(job):
        factors = np.repeat(most[chosen][:, None], len(levels), 1)
        factors[group] = most
        lengths = np.array(replay_slower(job, factors))
        allowed = lengths <= length * (1 + may_lose)
        allowed[0] = True  # as it ran
        cost = np.where(allowed, energies[group].sum(0), np.inf)
        chosen[group] = int(np.argmin(cost))
    ends = np.stack(
        [
            np.array([getattr(level, name) for level in levels])[chosen]
            for name in ("least_slowdown", "slowdown", "most_slowdown")
        ],
        1,
    )
    longer = [told / length - 1 if length else 0.0 for told in replay_slower(job, ends)]
    saved = energies[:, 0] - energies[np.arange(count), chosen]
    least, best = _bound_savings(busy, length, levels, chosen)
    rows = pl.DataFrame(
        {
            "rank": [rank.rank for rank in job.ranks],
            "device_id": [_find_device(rank.rows) for rank in job.ranks],
            "mhz": [levels[at].mhz for at in chosen.tolist()],
            "busy_ns": busy.astype(np.int64),
            "saved_j": saved,
        }
    )
    return ClockPlan(
        rows, levels[0].mhz, length, float(energies[:, 0].sum()), float(saved.sum()),
        least, best, longer[1], longer[0], longer[2],
    )  # fmt: skip


def _find_device(rows: pl.DataFrame) -> int | None:
    return int(rows.item(0, "device_id")) if rows.height else None


def _group_ranks(job: Job) -> list[np.ndarray]:
    """Places of ranks, those that wait longest first; each by itself, or with who waits alike."""
    waited = dict(job.rows.group_by("rank").agg(pl.col("wait_ns").sum()).iter_rows())
    order = sorted(range(len(job.ranks)), key=lambda n: -waited.get(job.ranks[n].rank, 0))
    size = max(-(-len(order) // _MOST_GROUPS), 1)
    return [np.array(order[at : at + size]) for at in range(0, len(order), size)]


def _measure_energies(busy_ns: np.ndarray, length_ns: int, levels: Sequence[Level]) -> np.ndarray:
    """Joules of each rank at each clock: [rank, level]."""
    energies = np.empty((len(busy_ns), len(levels)))
    for at, level in enumerate(levels):
        works = busy_ns * level.slowdown
        waits = np.maximum(length_ns - works, 0)
        energies[:, at] = (works * level.busy_w + waits * level.waiting_w) / 1e9
    return energies


def _bound_savings(
    busy_ns: np.ndarray, length_ns: int, levels: Sequence[Level], chosen: np.ndarray
) -> tuple[float, float]:
    """The 95 % interval of all joules saved.

    A clock's power is off by as much for all ranks that have it, so ranks add up before clocks do;
    how much compute slows down lies anywhere in its range.
    """
    moved = chosen > 0
    middle, spread = [0.0, 0.0], 0.0
    for at, level in enumerate(levels):
        of = busy_ns[moved] if at == 0 else busy_ns[chosen == at]
        if not of.size:
            continue
        for end, slowdown in enumerate((level.most_slowdown, level.least_slowdown)):
            works = of * slowdown
            waits = np.maximum(length_ns - works, 0)
            joules = float((works * level.busy_w + waits * level.waiting_w).sum()) / 1e9
            middle[end] += joules if at == 0 else -joules
        works = of * level.slowdown
        waits = np.maximum(length_ns - works, 0)
        spread += (float(works.sum()) / 1e9 * level.busy_w_half) ** 2
        spread += (float(waits.sum()) / 1e9 * level.waiting_w_half) ** 2
    half = math.sqrt(spread)
    return min(middle) - half, max(middle) + half


def list_commands(plan: ClockPlan) -> list[tuple[int, str]]:
    """The rank and its command, of those with another clock than the highest."""
    return [
        (rank, f"nvidia-smi -i {device} -lgc {mhz},{mhz}")
        for rank, device, mhz in plan.rows.select("rank", "device_id", "mhz").iter_rows()
        if mhz != plan.highest_mhz and device is not None
    ]
