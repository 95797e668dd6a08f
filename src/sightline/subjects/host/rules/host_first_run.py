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
    as long, and what differs by its shapes differs by less); a tenth of the window together is a
    remark (XProf's overview: 10 % of the step), half of it is what limits the recording.

Fix
    Warm up, then record several rounds.

False positives
    A first call that has more to do than all others by its shapes.

References
    PyTorch documentation, torch.profiler: schedule(wait, warmup, active).
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding
from sightline.subjects.host.first_calls import list_first_calls
from sightline.timeline.host_parts import has_only_host, has_operators, sum_host_windows

RULE = Rule("host-first-run", "Nothing but a first run", over_time=True)

NOTABLE_PCT, MOSTLY_PCT = 10.0, 50.0


_SET_UP = "they set up what is used later, and happen once."
_SETS_UP = "it sets up what is used later, and happens once."


def _name_calls(operators: int) -> str:
    if operators == 1:
        return "The first call of 1 operator takes"
    return f"First calls of {format_several(operators, 'operator')} take"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run) or not has_operators(run):
        return
    window = sum_host_windows(run)
    cold = list_first_calls(run)
    cost = sum_column(cold, "first_ns")
    if not window or 100 * cost < NOTABLE_PCT * window:
        return
    pct = 100 * cost / window
    is_most = pct >= MOSTLY_PCT
    yield build_finding(
        RULE,
        f"{_name_calls(cold.height)} {format_ns(cost)}, {format_pct(pct)} of the window: "
        + (_SET_UP if cold.height > 1 else _SETS_UP),
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
            fix="warm up, then record several rounds: a first run does not show what each one "
            "would cost"
            if is_most
            else "leave them out of what is timed: run it once before the recording begins",
            verify="sightline report AFTER: several rounds of about the same length",
            cause="libraries are loaded, contexts made and algorithms chosen at first use",
        ),
        price=(make_price(cost, "ns", pct), None),
        severity="info",
        confidence="high",
        states_limit=is_most,
        title=RULE.title if is_most else "First calls",
    )
