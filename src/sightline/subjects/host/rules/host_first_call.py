"""One call that sets something up is most of what was recorded.

Symptom
    A short recording without a device's work, of which nearly all is MPI_Init, the creation of a
    communicator, or the first call of a GPU's runtime.

Why it hurts
    It need not: it happens once. But of the program itself the recording then says nothing.

Evidence
    The longest call of each thread, in the layers of the GPU's runtime and driver, of MPI and of
    libraries, and the time from the thread's first recorded range to the end of its last.

Threshold
    At least half of that time in one call, with no second one of its name half as long, and none
    that waits (synchronize, wait, receive, barrier). A remark.

Fix
    Record longer, past the start.

False positives
    A call that does all of the program's work.

References
    None: it judges what was recorded.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.host.rules._first_call import list_first_calls

RULE = Rule("host-first-call", "One call is most of the recording", over_time=True)


def check(run: Run) -> Iterator[Finding]:
    """At most one remark: of the thread whose call takes longest."""
    alone = list_first_calls(run)
    if alone.is_empty():
        return
    first = alone.row(0, named=True)
    threads = alone.filter(pl.col("name") == first["name"]).height
    pct = 100 * first["ns"] / first["span"]
    others = (
        f", and as much on {format_several(threads - 1, 'other thread')}" if threads > 1 else ""
    )
    yield build_finding(
        RULE,
        f"{first['name']} takes {format_ns(first['ns'])} of the {format_ns(first['span'])} that "
        f"were recorded of its thread ({format_pct(pct)}){others}: it comes once, and of the "
        "program itself the recording says little.",
        Evidence(
            (),
            where={
                "ranks": alone.get_column("rank").unique().sort().to_list(),
                "op": first["name"],
                "time_ranges": [[first["start_ns"], first["start_ns"] + first["ns"]]],
            },
        ),
        Advice(
            fix="record longer, past the start",
            verify="sightline stats api_calls AFTER",
            cause="the first calls of a runtime set it up",
        ),
        price=(make_price(first["ns"], "ns", pct), None),
        severity="info",
        confidence="medium",
    )
