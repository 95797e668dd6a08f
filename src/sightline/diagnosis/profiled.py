"""What the rules about profiled kernels share: cases, estimates, and findings by kernel name.

An estimate is *global* where it is a share of the kernel's time, *local* where it is a share of
one unit's work. A local one is weighed with its parent: what that unit is worth to the kernel
(its throughput, or the headroom that is left), so that all findings rank by their effect on the
kernel. The structure (a tree of rules that hands weights down) is that of Nsight Compute's rules.
What it lacks is ours: a unit that has less to do makes the kernel no shorter than what the next one
needs, so that no estimate is above what the busiest of the others leaves (`find_next_limit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from sightline.core.algebra.kernel_names import normalize_kernel_name
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.errors import MissingDataError
from sightline.roofline.amd_kernels import AmdKernel, load_amd_kernels
from sightline.roofline.chart import shorten_name
from sightline.roofline.facts import Facts, load_facts
from sightline.roofline.placement import LATENCY_PCT as LATENCY_PCT
from sightline.roofline.placement import MEMORY_PCT, SM_PCT

# Nsight Compute's Speed of Light: above 80 % of a unit's peak, the kernel is at that unit's limit,
# and only work that another unit does instead makes it faster.
LIMIT_PCT = 80.0
# Below it registers, shared memory or block size keep waves away (Nsight Compute 2024.1, rule
# TheoreticalOccupancy).
THEORETICAL_PCT = 80.0
# How busy each unit is, % of its peak: the throughputs of Speed of Light and what it breaks them
# down to (Nsight Compute, Kernel Profiling Guide, "Metrics Decoder").
UNITS = {
    "the SM": SM_PCT,
    "the L1": "l1tex__throughput.avg.pct_of_peak_sustained_active",
    "the L2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "device memory": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
}
SM, L1, L2, DRAM = UNITS
# A finding that costs less of all profiled time than this is a note. Ours: below it, noise of
# the measurement (a few per cent between runs with locked clocks) is as large as the gain.
NOTE_PCT = 5.0


@dataclass(frozen=True)
class Limit:
    """A unit, and for how much of the kernel's time it is needed, %."""

    unit: str
    pct: float


@dataclass(frozen=True)
class Case:
    """One profiled kernel as the rules see it."""

    facts: Facts
    time_ns: float  # in the program where a timeline was given, else under the profiler

    @property
    def kernel_id(self) -> int:
        """Its number in the run."""
        return int(self.facts.row["kernel_id"])

    def get(self, *names: str) -> float | None:
        """The first of these metrics that was measured."""
        return self.facts.get(*names)

    @property
    def light(self) -> float | None:
        """The higher of the two throughputs, % of peak."""
        found = [v for v in (self.get(SM_PCT), self.get(MEMORY_PCT)) if v is not None]
        return max(found) if found else None

    @property
    def at_limit(self) -> bool:
        """Whether one of the two is as busy as it gets."""
        return self.light is not None and self.light >= LIMIT_PCT

    def find_next_limit(self, relieved: Mapping[str, float]) -> Limit | None:
        """The unit that limits once each of these units has so much less of its work, % of it.

        What it still needs, % of the kernel's time, is as short as the kernel gets. None where no
        throughput was measured.
        """
        left = [
            Limit(unit, used * (1 - relieved.get(unit, 0.0) / 100))
            for unit, metric in UNITS.items()
            if (used := self.get(metric)) is not None
        ]
        if not set(relieved) - {SM} and (memory := self.get(MEMORY_PCT)) is not None:
            left.append(Limit("memory", memory))
        return max(left, key=lambda limit: limit.pct, default=None)

    @property
    def headroom(self) -> float:
        """What is left to the nearest limit, %; all of it where that was not measured."""
        return 100.0 if self.light is None else max(0.0, 100.0 - self.light)


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

    @property
    def gain_pct(self) -> float:
        """The most that the kernel's time can shrink."""
        return min(self._weighed_pct, self._most_pct)

    @property
    def is_cut(self) -> bool:
        """Whether the next unit's limit is nearer than the estimate."""
        return self._most_pct < self._weighed_pct

    @property
    def _weighed_pct(self) -> float:
        weight = 100.0 if self.weight_pct is None else self.weight_pct
        return min(100.0, max(0.0, self.local_pct)) * min(100.0, max(0.0, weight)) / 100

    @property
    def _most_pct(self) -> float:
        return 100.0 if self.next_limit is None else max(0.0, 100.0 - self.next_limit.pct)


def load_cases(run: Run, metrics: Iterable[str], record: str) -> list[Case]:
    """NVIDIA's profiled kernels with these metrics; none where the run has no such kernels.

    Raises MissingDataError, with what to record, where no kernel has any of the metrics.
    """
    if not run.rows("profiled_kernels"):
        return []
    if run.rows("pc_samples") and not run.rows("kernel_metrics"):
        return []  # sampled while the program ran: nobody wanted counters
    asked = list(metrics)
    light = [SM_PCT, MEMORY_PCT, *UNITS.values()]
    every = [f for f in load_facts(run, [*asked, *light]) if not f.is_amd]
    if not every:
        return []
    if not any(f.get(*asked) is not None for f in every):
        raise MissingDataError(
            "the kernels could not be checked",
            why="the report lacks the metrics",
            hint=f"Record with  ncu {record}  (or --set full).",
        )
    return _make_cases(run, every)


def load_amd_cases(run: Run, *figures: str) -> list[tuple[Case, AmdKernel]]:
    """Kernels that AMD's profiler measured; none where the run has no such kernels.

    Raises MissingDataError, with what to record, where no kernel has one of the figures.
    """
    kernels = load_amd_kernels(run) if run.rows("profiled_kernels") else []
    if not kernels:
        return []
    if figures and not any(f in k.light for k in kernels for f in figures):
        raise MissingDataError(
            "the kernels could not be checked",
            why="the workload lacks the counters",
            hint="Record all of them:  rocprof-compute profile -n NAME -- PROGRAM",
        )
    return list(zip(_make_cases(run, [k.facts for k in kernels]), kernels, strict=True))


def _make_cases(run: Run, every: list[Facts]) -> list[Case]:
    times = _sum_program_times(run)
    return [Case(f, times.get(_key_of(f), float(f.row["duration_ns"] or 0))) for f in every]


def _key_of(f: Facts) -> tuple[str, str, str]:
    sizes = ["×".join(str(f.row[f"{what}_{a}"]) for a in "xyz") for what in ("grid", "block")]
    return normalize_kernel_name(f.row["name"] or ""), sizes[0], sizes[1]


def _sum_program_times(run: Run) -> dict[tuple[str, str, str], float]:
    """Time in the program that each profiled execution stands for, where there is a timeline."""
    if not run.rows("device_ops"):
        return {}
    joined = run.ask("kernel_join").filter(match="both")
    return {
        (normalize_kernel_name(r["name"]), r["grid"], r["block"]): r["program_ns"]
        / max(r["profiled"], 1)
        for r in joined.iter_rows(named=True)
    }


def make_findings(
    rule: Rule,
    hits: Iterable[Hit],
    every: list[Case],
    summary: Callable[[Hit], str],
    fix: Callable[[Hit], str] | str,
    verify: str,
    *,
    about_limit: bool = False,
) -> Iterator[Finding]:
    """One finding per kernel name and subject: what it costs over all its executions.

    Of a kernel at its limit all is a note but what takes work off the unit that is there, and what
    is `about_limit`. That leads, if it gains nothing and the kernel takes most of the profiled
    time: it says what the run is bound by.
    """
    total = sum(c.time_ns for c in every) or 1.0
    groups: dict[tuple[str, str], list[Hit]] = {}
    for hit in hits:
        row = hit.case.facts.row
        groups.setdefault((row["name"] or row["kind"], hit.subject), []).append(hit)
    for (name, subject), group in groups.items():
        worst = max(group, key=lambda h: h.case.time_ns * h.gain_pct)
        gain = sum(h.case.time_ns * h.gain_pct / 100 for h in group)
        pct = 100 * gain / total
        scope = "global" if worst.weight_pct is None else "local"
        may_gain = about_limit or worst.relieves_limit or not worst.case.at_limit
        said = summary(worst)
        said = said[:1].upper() + said[1:]
        yield build_finding(
            rule,
            said,
            Evidence(
                (
                    *([] if worst.evidence[1:] in said else [worst.evidence]),
                    *([_describe_estimate(worst)] if worst.gain_pct or not about_limit else []),
                    _count_launches(len(group), len(every))
                    + f", {format_ns(sum(h.case.time_ns for h in group))}",
                ),
                where={
                    "kernel": name,
                    "kernel_ids": [h.case.kernel_id for h in group],
                    "estimate": scope,
                    "estimate_pct": worst.gain_pct,
                    **({"subject": subject} if subject else {}),
                },
            ),
            Advice(fix=fix if isinstance(fix, str) else fix(worst), verify=verify),
            price=(make_price(round(gain), "ns", pct), make_price(round(gain), "ns")),
            title=f"{rule.title}: {_clip_name(shorten_name(name))}",
            severity="warning" if pct >= NOTE_PCT and may_gain else "info",
            confidence="medium" if scope == "global" else "low",
            states_limit=about_limit
            and not gain
            and 2 * sum(h.case.time_ns for h in group) > total,
        )


def _describe_estimate(hit: Hit) -> str:
    """The share of the kernel's time that may go, and what it is made of."""
    scope = "global" if hit.weight_pct is None else "local"
    text = f"estimate ({scope}): up to {format_pct(hit.gain_pct)} of the kernel"
    if hit.weight_pct is not None:
        text += (
            f"{', less than' if hit.is_cut else ' ='} {format_pct(hit.local_pct)} × "
            f"{format_pct(hit.weight_pct)}, the weight of this unit in the kernel"
        )
    if hit.next_limit is not None and hit.is_cut:
        text += f": {hit.next_limit.unit} is needed for {format_pct(hit.next_limit.pct)} of it"
    return text


def _count_launches(count: int, every: int) -> str:
    if every == 1:
        return "the profiled launch"
    return f"{format_count(count)} of {format_count(every)} profiled launches"


def _clip_name(name: str, length: int = 36) -> str:
    """A name that leaves room for the title on one line."""
    return name if len(name) <= length else name[: length - 1] + "…"
