"""The GPU worked for less than half of the program's time, by a table of sums that states both.

Symptom
    "Total Execution Time" far above "Total Device Time".

Why it hurts
    While nothing runs on the GPU, no faster kernel shortens the program.

Evidence
    The time that the tool states for the program, and the sum of all that the GPU did: at most that
    long was it busy, since work that overlaps counts twice.

Threshold
    Half of the program's time (ours: below it, the host decides how long the program takes).

Fix
    A recording with the times of single calls and kernels: it says what the host does meanwhile.

False positives
    Start-up and the end of the program are in its time: a short run is mostly that.

References
    Intel, unitrace's README: --device-timing, --host-timing.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.ranking import SEGMENT
from sightline.timeline.sum_facts import SumFacts, read_sums

RULE = Rule("summed-idle", "The GPU idles for most of the program")

MOST_PCT = 50.0
_MOST = 3


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, of one process: of several, who waits for whom is not known."""
    facts, whole = read_sums(run), _read_program_ns(run)
    if facts is None or whole is None or not facts.gpu_ns or facts.gpu_ns >= whole:
        return
    busy = 100 * facts.gpu_ns / whole
    if busy >= MOST_PCT:
        return
    yield build_finding(
        RULE,
        f"The program took {format_ns(whole)}, and the GPU's work {format_ns(facts.gpu_ns)} in "
        f"all: it was busy for {format_pct(busy)} of the time at most.",
        Evidence(list(_list_evidence(facts)), where={SEGMENT: "the whole program"}),
        Advice(
            fix="look at what the host does meanwhile, start-up first: record the single calls and "
            "kernels:  unitrace --chrome-call-logging --chrome-kernel-logging PROGRAM; of a "
            "program that has hardly begun, record a longer run",
            verify="sightline findings AFTER: this finding is gone",
        ),
        price=(Price(whole - facts.gpu_ns, "ns"), None),
        severity="info",
        states_limit=True,
    )


def _read_program_ns(run: Run) -> int | None:
    """How long the one program took that is summed; None where no tool states it."""
    spans = run.table("recordings", ["start_ns", "end_ns"])
    if spans.height != 1 or spans.get_column("end_ns").null_count():
        return None
    return int(spans.select(pl.col("end_ns") - pl.col("start_ns").fill_null(0)).item())


def _list_evidence(facts: SumFacts) -> Iterator[str]:
    built = sum_column(facts.kernels.select(n=pl.col("built") == "JIT"), "n")
    if built:
        yield (
            f"{format_several(built, 'kernel')} compiled while the program ran (JIT): compiling "
            "ahead of time (-fsycl-targets) removes that from its start-up"
        )
    if facts.calls.is_empty():
        return
    yield f"calls to the GPU's runtime and driver: {format_ns(sum_column(facts.calls, 'ns'))}"
    longest = facts.calls.sort("ns", "name", descending=[True, False]).head(_MOST)
    for row in longest.iter_rows(named=True):
        yield f"{row['name']}: {format_ns(row['ns'])} in {format_several(row['calls'], 'call')}"
