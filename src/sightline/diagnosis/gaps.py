"""What the rules about idle time share: the gaps that are theirs, as evidence."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.model.declare import Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.diagnosis.build import MAX_ROWS, NOTABLE_PCT
from sightline.diagnosis.operators import Operator, find_main_operator
from sightline.replay.gains import sum_windows
from sightline.timeline import causes
from sightline.timeline.api_calls import LAUNCHES
from sightline.timeline.periods import describe_period
from sightline.timeline.profiler_gaps import IN_WINDOWS, SERIALIZED, find_profiler_gaps

# What is seen of a problem may be far less than its end gains: a wait that cost 0.8 % of the window
# by itself was seen to gain 7.6 %. From here on it is replayed (ours: a tenth of what is notable).
LOOK_PCT = NOTABLE_PCT / 10
_MOSTLY = 10  # times what a claim itself counts (ours)
NO_RANGE = "no recorded range covers most of the host's time"


# MPI (the standard's names), and the calls of POSIX that hand data to others or wait for them.
_SENDS = r"(?i)^p?MPI_|^(?:p?write|p?writev|send\w*|recv\w*|p?read|fsync|e?poll\w*|select)(?:\W|$)"


# One name for ranges that are numbered: h2d_transfer_layer_4 and its like.
_MERGED = pl.col("host_op").str.replace_all(r"(^|[^A-Za-z0-9])\d+", "${1}#")


@dataclass(frozen=True)
class Claim:
    """The gaps that one rule speaks for."""

    gaps: pl.DataFrame
    cost_ns: int
    pct: float
    list_next: Callable[[], pl.DataFrame]  # parts in which the host went on, of other rules
    period: str | None = None  # how often they come back
    # The operator that most of some gaps lie in.
    find_operator: Callable[[pl.DataFrame], Operator | None] = lambda _: None

    def select_part(self, run: Run, which: pl.Expr) -> Claim:
        """The claim to some of the gaps alone."""
        gaps = self.gaps.filter(which)
        cost = sum_column(gaps, "duration_ns")
        return replace(self, gaps=gaps, cost_ns=cost, pct=100 * cost / sum_windows(run))

    @property
    def worst_ns(self) -> int:
        """The most on one device."""
        per = self.gaps.group_by("rank", "device_id").agg(pl.col("duration_ns").sum())
        value = per.get_column("duration_ns").max()
        return value if isinstance(value, int) else 0

    @cached_property
    def behind(self) -> pl.DataFrame:
        """The rest of the same gaps, where nobody else speaks for it: what the host did next."""
        here = self.gaps.select("rank", "device_id", "start_ns").unique()
        return self.list_next().join(here, on=here.columns, how="semi")

    @property
    def behind_ns(self) -> int:
        """How much of the gaps what the host did next took."""
        return sum_column(self.behind, "duration_ns")

    @property
    def is_mostly_rest(self) -> bool:
        """Whether most of the gaps is what the host does next: its name is nearer to the cause."""
        return self.behind_ns > _MOSTLY * self.cost_ns

    @property
    def is_needed(self) -> bool:
        """Whether the host waited because it sends or writes what it waited for.

        Then it cannot do so earlier, and the end of the wait gains no more than the wait itself.
        """
        sends = self.behind.filter(pl.col("host_op").str.contains(_SENDS).fill_null(value=False))
        return 2 * sum_column(sends, "duration_ns") > max(self.behind_ns, 1)

    @property
    def evidence(self) -> list[str]:
        """How many gaps, how long, and what the host was in."""
        count, longest = self.gaps.height, find_largest(self.gaps, "duration_ns")
        whole = format_ns(sum_column(self.gaps, "duration_ns"))
        lines = [
            f"{format_several(count, 'gap')}, {whole} in all, the longest {format_ns(longest)}"
            if count != 1
            else f"1 gap of {whole}"
        ]
        lines += [
            NO_RANGE if host is None else f"the host was mostly in  {host}"
            for host in self._host_op_of_half
        ]
        if self.operator is not None:
            known = (NO_RANGE, f"the host was mostly in  {self.operator.name}")
            lines = [line for line in lines if line not in known] + [self.operator.describe()]
        return lines + ([f"most of it comes {self.period}"] if self.period else [])

    @cached_property
    def operator(self) -> Operator | None:
        """The operator that more than half of the time lies in, if one does."""
        return self.find_operator(self.gaps)

    @property
    def host_op(self) -> str | None:
        """The host range that takes more than half of the time, if one does."""
        found = self._host_op_of_half
        return found[0] if found else None

    @property
    def _host_op_of_half(self) -> list[str | None]:
        for name in (pl.col("host_op"), _MERGED):
            each = self.gaps.group_by(host_op=name).agg(pl.col("duration_ns").sum())
            most = each.filter(2 * pl.col("duration_ns") > pl.col("duration_ns").sum())
            if most.height:
                return most.get_column("host_op").to_list()
        return []

    @property
    def place(self) -> str | None:
        """The narrowest name that takes more than half of the time: operator or range.

        A call that launches is not a place: it says what every gap ends with.
        """
        if self.operator is not None:
            return self.operator.name
        return None if re.search(LAUNCHES, self.host_op or "") else self.host_op

    @property
    def is_in_host_op(self) -> pl.Expr:
        """Which gaps are the range's that takes more than half of the time."""
        same = pl.col("host_op").eq_missing(self.host_op)
        return same if self.host_op is None else same | _MERGED.eq_missing(self.host_op)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The longest gaps, with the ids of what is around them."""
        longest = self.gaps.top_k(
            MAX_ROWS, by=["duration_ns", "start_ns"], reverse=[False, True]
        ).sort("duration_ns", "start_ns", descending=[True, False])
        return longest.select(
            "rank",
            "device_id",
            "start_ns",
            "end_ns",
            "before_id",
            "after_id",
            "launch_id",
            "host_op",
        ).to_dicts()

    @property
    def calls(self) -> pl.DataFrame:
        """What the launching threads were in, and for how long: see `Evidence`."""
        return self.gaps.select("host_op_id", ns="duration_ns")

    def where(self, cause: str) -> dict[str, Any]:
        """Ranks that lose much of what the worst one does, and the longest gaps as time ranges."""
        each = self.gaps.group_by("rank").agg(pl.col("duration_ns").sum())
        much = 100 * pl.col("duration_ns") >= NOTABLE_PCT * pl.col("duration_ns").max()
        return {
            "cause": cause,
            "ranks": each.filter(much).get_column("rank").sort().to_list(),
            "time_ranges": [[r["start_ns"], r["end_ns"]] for r in self.rows],
        }


class OwnGaps(NamedTuple):
    """Why a recording's gaps are not the program's: a title, and the beginning of a sentence."""

    title: str
    text: str


_OWN_GAPS = {
    SERIALIZED: OwnGaps(
        "Kernels recorded one at a time",
        "The profiler ran one kernel at a time: it caused the gaps",
    ),
    IN_WINDOWS: OwnGaps(
        "Kernels recorded in windows",
        "The GPU was recorded in windows: the recording caused the gaps between them",
    ),
}


def find_own_gaps(run: Run) -> OwnGaps | None:
    """Why no gap is the program's; None where they are."""
    kind = find_profiler_gaps(run)
    return None if kind is None else _OWN_GAPS[kind]


def are_the_profilers(run: Run) -> bool:
    """Whether the profiler made the gaps: then none is the program's."""
    return find_profiler_gaps(run) is not None


def claim_gaps(
    run: Run,
    rule: Rule,
    *,
    extra_ns: int = 0,
    least_pct: float = NOTABLE_PCT,
    with_behind: bool = False,
) -> Claim | None:
    """The gaps of a rule, or None where they (with `extra_ns`) take too little of the window.

    None, too, where they are the profiler's.
    `with_behind`: what the host did next in the same gaps counts for that, though it is no cost of
    the rule's.
    """
    if not run.rows("device_ops") or are_the_profilers(run):
        return None
    gaps = _take_gaps(run, rule.causes)
    going_on = [c for c in (causes.HOST, causes.LAUNCHES) if c not in rule.causes]
    cost = int(gaps.get_column("duration_ns").sum()) + extra_ns
    pct = 100 * cost / sum_windows(run)
    claim = Claim(
        gaps,
        cost,
        pct,
        lambda: _take_gaps(run, going_on),
        find_operator=lambda some: find_main_operator(run, some),
    )
    if with_behind and cost:
        pct += 100 * claim.behind_ns / sum_windows(run)
    if pct < least_pct or not cost:
        return None
    return replace(claim, period=describe_period(gaps, run.once(_list_steps)))


def _take_gaps(run: Run, rules: Sequence[str]) -> pl.DataFrame:
    """The parts of gaps that some rules speak for, in order of time."""
    gaps, known = run.ask("idle_rules"), run.once(_list_rows)
    rows = [known[rule] for rule in rules if rule in known]
    return gaps[pl.concat(rows).sort()] if rows else gaps.clear()


def _list_rows(run: Run) -> dict[str, pl.Series]:
    """The rows of idle_rules that each rule speaks for."""
    rows = run.ask("idle_rules").select("rule").with_row_index("row").group_by("rule").agg("row")
    return {rule: rows.item(place, "row") for place, rule in enumerate(rows.get_column("rule"))}


def _list_steps(run: Run) -> pl.DataFrame:
    """The marked steps of all ranks, by their start on the host."""
    host = run.table("host_ops", ["rank", "layer", "start_ns"])
    return host.filter(pl.col("layer") == "step").drop("layer").sort("rank", "start_ns")
