"""Launching a kernel takes longer than running it, by a table of sums.

Symptom
    Kernels of a few microseconds, and a row cudaLaunchKernel that is longer than theirs.

Why it hurts
    The GPU is done before the next kernel is there: the host sets the pace.

Evidence
    The mean of the launching calls, and of calls that wait after each launch, beside the mean
    kernel.

Threshold
    100 launches or more, whose mean is above that of the kernels, or which take twice as long as
    these with the waits behind them; 5 % of the summed time.

Fix
    A larger problem, fewer and larger kernels, or a CUDA graph; no wait after each launch.

False positives
    The profiler itself makes each launch longer by some microseconds.

References
    CUDA C++ Programming Guide, "CUDA Graphs"; "Asynchronous Concurrent Execution".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding, price_part
from sightline.timeline.sum_facts import LAUNCHES, WAITS, read_sums

RULE = Rule("summed-launches", "Launches take longer than kernels")

LEAST_LAUNCHES = 100
# Ours: so many waits a launch are a habit, not an end of the program.
_WAIT_EACH = 0.2
_TIMES = 2  # ours: launches and the waits for them, of which the kernels themselves are one


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    facts = read_sums(run)
    if facts is None:
        return
    launches, launch_ns = facts.sum_calls(LAUNCHES)
    kernels = sum_column(facts.kernels, "calls")
    if launches < LEAST_LAUNCHES or not kernels:
        return
    launch, kernel = launch_ns / launches, facts.kernel_ns / kernels
    waits, wait_ns = facts.sum_calls(WAITS)
    waits_each = waits >= _WAIT_EACH * launches
    # A wait has the kernel's own time in it.
    is_held = waits_each and launch_ns + wait_ns >= _TIMES * facts.kernel_ns
    if launch <= kernel and not is_held:
        return
    cost = launch_ns + (wait_ns if waits_each else 0)
    if 100 * cost < NOTABLE_PCT * facts.repeated_ns:
        return
    lines = [
        f"{format_several(launches, 'launching call')}: {format_ns(launch_ns)}, "
        f"{format_ns(round(launch))} each",
        f"{format_several(kernels, 'kernel')}: {format_ns(facts.kernel_ns)}, "
        f"{format_ns(round(kernel))} each",
    ]
    if waits_each:
        lines.append(f"{format_several(waits, 'synchronizing call')}: {format_ns(wait_ns)}")
    yield build_finding(
        RULE,
        f"A launch {'and the wait for it take' if is_held else 'takes'} "
        f"{format_ns(round(cost / launches if is_held else launch))} and a kernel "
        f"{format_ns(round(kernel))} on average: the host sets the pace.",
        Evidence(lines),
        Advice(
            fix=("do not wait after each launch; " if waits_each else "")
            + choose_fix(
                run,
                "give a kernel more to do (a problem of real size, several items at once), or put "
                "the launches into a CUDA graph",
                pytorch="a larger batch, torch.compile(mode='reduce-overhead'), or a CUDA graph",
            ),
            verify="sightline stats call_tally AFTER: total_ns of cudaLaunchKernel",
        ),
        price=price_part(cost, max(cost - facts.gpu_ns, 0), facts.repeated_ns, "ns"),
        confidence="medium",
        title="The host waits for each launch" if launch <= kernel else None,
        method="bound from sums: no launch takes longer than the GPU's own work",
    )
