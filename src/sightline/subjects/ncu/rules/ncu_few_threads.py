"""All that was profiled is a handful of threads for a moment: too little to judge.

Symptom
    Launches of a few threads that are over in some microseconds, and nothing else in the report.

Why it hurts
    It need not: a first example, a print, a set-up. What is said of its grid, its occupancy or its
    stalls is true, and of no use to anybody.

Evidence
    The launches' threads and times.

Threshold
    No launch of more than 256 threads, one usual block, and 0.1 ms in all (ours: a program waits
    longer for its first call of the driver).

Fix
    Profile the program on a problem of real size.

False positives
    A short kernel that a program launches over and over, of which one launch was profiled.

References
    Nsight Compute, Kernel Profiling Guide, "Overhead".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.kernel_estimates import TINY_NS
from sightline.roofline.facts import TIME
from sightline.roofline.launch import count_blocks, count_threads

RULE = Rule("ncu-few-threads", "Too little to judge")
MOST_THREADS, MOST_NS = 256, 100_000


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, which leads: all else that is said of such launches is of no use."""
    if run.rows("device_ops"):
        return  # the timeline's rules know what else the program does
    every = load_cases(run, (TIME,), "--section LaunchStats")
    threads = [(count_blocks(case.facts) or 0) * (count_threads(case.facts) or 0) for case in every]
    times = [case.facts.ns or 0 for case in every]
    spent = sum(times)
    if not every or max(times) < TINY_NS:
        return  # as short as an empty kernel: ncu-tiny-kernels says so
    if not all(0 < n <= MOST_THREADS for n in threads) or spent > MOST_NS:
        return
    most = max(threads)
    name = every[threads.index(most)].facts.row["name"]
    yield build_finding(
        RULE,
        f"What was profiled is {format_several(len(every), 'launch', 'launches')} of at most "
        f"{format_several(most, 'thread')}, {format_ns(round(spent))} in all: too little to judge.",
        Evidence((f"the largest is {name}",), where={"kernel": name}),
        Advice(
            fix="profile the program on a problem of real size; an example that only shows how "
            "threads are numbered cannot be made faster",
            verify="sightline report AFTER: this finding is gone",
        ),
        severity="info",
        confidence="high",
        states_limit=True,
        is_asked=True,
    )
