"""Most of the profiled time is in kernels hardly longer than an empty one.

Symptom
    Launches of 2 to 4 µs, whose every metric is low.

Why it hurts
    Starting and ending a kernel takes most of that: neither occupancy nor memory access nor stalls
    of such a kernel can be improved by much. What runs between the launches, on the host, mostly
    takes longer than they do.

Evidence
    The launches' durations, and their blocks.

Threshold
    Launches of less than 4 µs that take half of the profiled time (ours: twice what an empty kernel
    takes under the profiler, 1.5 to 2 µs). Or several kernels, all of which take less than 10 µs
    and reach a fifth of no throughput, or have fewer blocks than the GPU has SMs (ours: a call that
    launches takes the host 2 to 10 µs, so that none of them can be what a program waits for).

Fix
    Larger work in each launch, fused kernels, or a CUDA graph around the loop.

False positives
    Kernels profiled on a small input on purpose.

References
    Nsight Compute, Kernel Profiling Guide, "Overhead"; CUDA C++ Programming Guide, "CUDA Graphs".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.kernel_bounds import METRICS, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.kernel_estimates import TINY_NS
from sightline.roofline.facts import TIME
from sightline.roofline.launch import count_blocks, count_threads

RULE = Rule("ncu-tiny-kernels", "Kernels hardly longer than an empty one")
MOST = 0.5
SEVERAL, SHORT_NS, LOW_PCT = 5, 10_000, 20.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, which leads: no kernel of these is worth tuning by itself."""
    if run.rows("device_ops"):
        return  # the timeline's rules know what lies between the launches
    every = [c for c in load_cases(run, (TIME, *METRICS), "--set full") if c.facts.ns]
    tiny = [c for c in every if (c.facts.ns or 0) < TINY_NS]
    if len(every) >= SEVERAL and all(_is_short(case) for case in every):
        tiny = every
    whole, spent = (sum(c.facts.ns or 0 for c in cases) for cases in (every, tiny))
    if not tiny or spent < MOST * whole:
        return
    longest = max(tiny, key=lambda c: c.facts.ns or 0)
    shortest = min(tiny, key=lambda c: c.facts.ns or 0)
    blocks, threads = count_blocks(longest.facts), count_threads(longest.facts)
    shape = (
        f", with {format_several(blocks, 'block')} of {format_several(threads, 'thread')}"
        if blocks and threads
        else ""
    )
    each = format_ns(round(longest.facts.ns or 0))
    is_least = (longest.facts.ns or 0) < TINY_NS
    little = (
        "hardly more than an empty kernel takes"
        if is_least
        else "no longer than the call that launches one"
    )
    span = each if len(tiny) == 1 else f"{format_ns(round(shortest.facts.ns or 0))} to {each}"
    yield build_finding(
        RULE,
        f"{format_pct(100 * spent / whole)} of the profiled time is in launches of {span}, "
        f"{little}.",
        Evidence(
            (
                f"{format_several(len(tiny), 'launch', 'launches')} of {len(every)}, "
                f"{format_ns(round(spent))} in all",
                f"the longest is {longest.facts.row['name']}{shape}",
            ),
            where={"kernel": longest.facts.row["name"]},
        ),
        Advice(
            fix="give each launch more work (more elements, several steps), fuse these kernels, or "
            "capture their loop as a CUDA graph; tuning one of them gains next to nothing",
            verify="record a timeline to see what lies between them:  nsys profile ...",
        ),
        # As the cost of a limit, which leads what little the others gain.
        price=(make_price(round(spent), "ns", 100 * spent / whole), None),
        title=RULE.title if is_least else "Kernels too short to matter one by one",
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _is_short(case: Case) -> bool:
    """Whether a launch is over before the next one is launched, and keeps no unit, or few, busy."""
    blocks, sms = count_blocks(case.facts), case.facts.device.get("sm_count")
    is_small = bool(blocks and sms and blocks < sms)
    is_low = case.light is not None and case.light < LOW_PCT
    return (case.facts.ns or 0) < SHORT_NS and (is_low or is_small)
