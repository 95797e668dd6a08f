"""Most of a recording without a GPU is the first calls of its operators: a first run.

Symptom
    The first convolution takes seconds, the next ones milliseconds.

Why it hurts
    It does not: libraries are loaded, contexts made and algorithms chosen once. What each round of
    the program costs is not in such a recording, or hardly.

Evidence
    Operators by name: how long the first instance took by itself, beside the median of the others.
    Beside such ones, single instances that take a twentieth of the window count as well.

Threshold
    Ten times the others' median (ours: compilers and libraries make first calls 10 to 1,000 times
    as long, and what differs by its shapes differs by less); half of the window together.

Fix
    Warm up, then record several rounds.

False positives
    A first call that has more to do than all others by its shapes.

References
    PyTorch documentation, torch.profiler: schedule(wait, warmup, active).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding
from sightline.timeline.host_parts import (
    has_only_host,
    has_operators,
    list_segments,
    sum_host_windows,
)

RULE = Rule("host-first-run", "Nothing but a first run")

TIMES, SINGLE_PCT, MOSTLY_PCT = 10, 5.0, 50.0
_NAME = ["rank", "name"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run) or not has_operators(run):
        return
    window = sum_host_windows(run)
    cold = _list_cold(run, window)
    cost = sum_column(cold, "first_ns")
    if not window or 100 * cost < MOSTLY_PCT * window:
        return
    pct = 100 * cost / window
    yield build_finding(
        RULE,
        f"First calls of {format_several(cold.height, 'operator')} take {format_ns(cost)}, "
        f"{format_pct(pct)} of the window: they set up what is used later, and happen once.",
        Evidence(
            [
                f"{format_ns(first)}  {name}"
                + (f", the other {count - 1} {format_ns(others)} each" if count > 1 else ", once")
                for name, first, others, count in cold.head(MAX_ROWS)
                .select("name", "first_ns", "others_ns", "count")
                .rows()
            ],
            rows=cold.head(MAX_ROWS).to_dicts(),
            where={"ranks": cold.get_column("rank").unique().sort().to_list()},
        ),
        Advice(
            fix="warm up, then record several rounds: of a first run nobody can say what each one "
            "would cost",
            verify="sightline report AFTER: several rounds of about the same length",
            cause="libraries are loaded, contexts made and algorithms chosen at first use",
        ),
        price=(make_price(cost, "ns", pct), None),
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _list_cold(run: Run, window: int) -> pl.DataFrame:
    """Operators whose first call is a setup: rank, name, first_ns, others_ns (median), count.

    None where no operator that came again shows that first calls are: single ones tell nothing.
    """
    own = (
        list_segments(run)
        .drop_nulls("host_op_id")
        .group_by(*_NAME, "host_op_id")
        .agg(pl.col("own_ns").sum(), pl.col("start_ns").min())
        .drop_nulls("name")
        .sort("start_ns")
    )
    names = own.group_by(_NAME, maintain_order=True).agg(
        first_ns=pl.col("own_ns").first(),
        others_ns=pl.col("own_ns").slice(1).median(),
        count=pl.len(),
    )
    again = (pl.col("count") > 1) & (
        pl.col("first_ns") >= TIMES * pl.col("others_ns").clip(lower_bound=1)
    )
    large = 100 * pl.col("first_ns") >= SINGLE_PCT * window
    if names.filter(again & large).is_empty():
        return names.clear()
    kept = names.filter(again | ((pl.col("count") == 1) & large))
    return kept.sort("first_ns", "name", descending=[True, False])
