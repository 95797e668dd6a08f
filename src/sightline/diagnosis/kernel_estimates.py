"""What a change to a profiled kernel gains: an estimate, and what it is made of.

An estimate is *global* where it is a share of the kernel's time, *local* where it is a share of
one unit's work. A local one is weighed with its parent: what that unit is worth to the kernel
(its throughput, or the headroom that is left), so that all findings rank by their effect on the
kernel. The structure (a tree of rules that hands weights down) is that of Nsight Compute's rules.
What it lacks is ours: a unit that has less to do makes the kernel no shorter than what the next one
needs, so that no estimate is above what the busiest of the others leaves (`find_next_limit`).

A change that takes work off the busiest unit shortens the kernel to what the next unit needs, at
the share of its peak that the busiest one reaches today (`relieve`). What takes work off another
unit shortens nothing but waits: at most the time in which that unit does this work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sightline.core.units import format_pct
from sightline.diagnosis.kernel_bounds import LIMIT_PCT, Case, Limit
from sightline.roofline.placement import LATENCY_PCT

# Ours: an empty kernel takes 1.5 to 2 µs under the profiler, whatever its shape. No change makes a
# launch shorter, and of one that is less than twice as long nothing else can be said.
FLOOR_NS, TINY_NS = 2_000, 4_000


@dataclass(frozen=True)
class Hit:
    """One kernel that has the problem."""

    case: Case
    local_pct: float  # the estimate
    weight_pct: float | None  # what the unit is worth to the kernel; None where local is global
    evidence: str
    subject: str = ""  # tells apart findings of one rule about one kernel, as a stall reason does
    next_limit: Limit | None = None  # what limits the kernel then
    relieves_limit: bool = False  # the unit that has less to do is the one that is at its limit
    relieved: Limit | None = None  # the unit that binds the kernel today, where that has less to do
    is_symptom: bool = False  # it says that warps wait, not for what: no gain where a unit binds

    @property
    def gain_pct(self) -> float:
        """The most that the kernel's time can shrink."""
        return min(self._weighed_pct, self._most_pct, self._above_floor_pct)

    @property
    def is_cut(self) -> bool:
        """Whether the next unit's limit is nearer than the estimate."""
        return self.relieved is None and self._most_pct < self._weighed_pct

    @property
    def may_gain(self) -> bool:
        """Whether something else does not bind the kernel, and it is no shorter than it can be."""
        if (self.case.facts.ns or TINY_NS) < TINY_NS:
            return False
        if self.is_symptom:
            return self.case.waits
        return self.relieves_limit or not (self.case.at_limit or self._is_bound_elsewhere)

    @property
    def _is_bound_elsewhere(self) -> bool:
        """Whether the unit that binds the kernel has as much to do afterwards as it has today."""
        now, after = self.case.busiest, self.next_limit
        return (
            self.relieved is None
            and now is not None
            and after is not None
            and now.pct >= LATENCY_PCT
            and after.pct >= now.pct
        )

    @property
    def _above_floor_pct(self) -> float:
        """What the launch takes beyond an empty kernel, % of its time under the profiler."""
        ns = self.case.facts.ns
        return 100.0 if ns is None else max(0.0, 100 * (1 - FLOOR_NS / ns))

    @property
    def _weighed_pct(self) -> float:
        weight = 100.0 if self.weight_pct is None else self.weight_pct
        return min(100.0, max(0.0, self.local_pct)) * min(100.0, max(0.0, weight)) / 100

    @property
    def _most_pct(self) -> float:
        return 100.0 if self.next_limit is None else max(0.0, 100.0 - self.next_limit.pct)

    def describe_estimate(self) -> str:
        """The share of the kernel's time that may go, and what it is made of."""
        scope = "global" if self.weight_pct is None else "local"
        text = f"estimate ({scope}): up to {format_pct(self.gain_pct)} of the kernel"
        if self.relieved is not None and self.next_limit is not None:
            now, after = self.relieved, self.next_limit
            unit = "still that" if after.unit == now.unit else after.unit
            return (
                f"{text}: {now.unit} binds it now, at {format_pct(now.pct)} of its peak; then "
                f"{unit}, at {format_pct(after.pct)}"
            )
        if self.weight_pct is not None:
            text += (
                f"{', less than' if self.is_cut else ' ='} {format_pct(self.local_pct)} × "
                f"{format_pct(self.weight_pct)}, the weight of this unit in the kernel"
            )
        if self.next_limit is not None and self.is_cut:
            text += (
                f": {self.next_limit.unit} is needed for {format_pct(self.next_limit.pct)} of it"
            )
        return text


def relieve(
    case: Case,
    relieved: Mapping[str, float],
    evidence: str,
    subject: str = "",
    parts: Mapping[str, float] | None = None,
) -> Hit:
    """The hit of a change that takes so much of its work off each of these units, % of it.

    `parts` are parts of the SM that have less to do, too. Where the unit that has less to do binds
    the kernel (Speed of Light: from 60 % of its peak on), the next one may be as busy as that is
    today, and the kernel is that much shorter; else a unit gives back the time of that work.
    """
    known = {unit: used for unit in relieved if (used := case.use(unit)) is not None}
    if not known:
        return Hit(case, max(relieved.values()), 100.0, evidence, subject)
    worst = max(known, key=lambda unit: relieved[unit] * known[unit])
    after = case.find_next_limit({**relieved, **(parts or {})})
    hit = Hit(
        case,
        relieved[worst],
        known[worst],
        evidence,
        subject,
        after,
        relieves_limit=known[worst] >= LIMIT_PCT,
    )
    now = case.busiest
    if now is None or after is None or now.pct < LATENCY_PCT or now.unit not in relieved:
        return hit
    return replace(
        hit,
        local_pct=max(0.0, 100 * (1 - after.pct / now.pct)),
        weight_pct=None,
        relieved=now,
        next_limit=after,
        relieves_limit=True,
    )
