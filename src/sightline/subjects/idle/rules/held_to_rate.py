"""The program is held to a rate by a display, a timer or a sensor.

Symptom
    Its kernels come at even distances, and between them the device has nothing to do.

Why it hurts
    It does not: the program does all that is asked of it, and waits for the next frame or tick.
    What makes its work shorter makes its waits longer.

Evidence
    The kernel that comes most often begins at even distances (nine of ten within a tenth of the
    median, twenty or more), and either the host hands images to a display in each (calls of
    graphics interoperability) at a rate that displays have, or the thread that launches sleeps or
    polls for most of the time in which the device idles.

Threshold
    The device is busy for at most half of the window (ours: beyond, the work may set the rate).

Fix
    None, where the rate is meant. To save energy, lower clocks; to do more, take the limit away:
    vertical synchronization off, a shorter sleep, events instead of polling.

False positives
    A benchmark that sleeps between measurements.

References
    CUDA Runtime API, "Graphics Interoperability"; MODEL of waiting between steps: work from outside
    (a request, a timer, a display) is a segment of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.price import HELD
from sightline.timeline.pace import find_pace

RULE = Rule("held-to-rate", "Held to a rate")


def check(run: Run) -> Iterator[Finding]:
    """At most one remark."""
    if not run.rows("device_ops"):
        return
    pace = find_pace(run)
    if pace is None:
        return
    busy = 100 - float(run.ask("breakdown").get_column("idle_pct").min())  # type: ignore[arg-type]
    by = "the display or a camera" if pace.is_display else "a timer or what it polls for"
    yield build_finding(
        RULE,
        f"The program does {pace.hz:.1f} rounds a second, limited by {by}: the GPU is busy for "
        f"{format_pct(busy)} of the time, and nothing that it computes sets the rate.",
        Evidence(
            [
                f"{format_several(pace.periods, 'period')} of {format_ns(pace.period_ns)}",
                f"in each of them  {pace.calls}"
                if pace.is_display
                else f"the launching thread sleeps for {format_ns(pace.asleep_ns)} of the "
                f"{format_ns(pace.idle_ns)} in which the GPU idles, mostly in  {pace.calls}",
            ],
            where={HELD: pace.hz, "ranks": [pace.rank]},
        ),
        Advice(
            fix="nothing to speed up at this rate; to do more per second, remove the limit "
            "(vertical synchronization, the sleep, polling); to save energy, lower the clocks",
            verify="sightline stats breakdown AFTER: compute_pct, at the intended rate",
            cause=f"each round waits for {by}",
        ),
        severity="info",
        title=f"Held to {pace.hz:.1f} rounds a second",
        states_limit=True,
        confidence="high" if pace.is_display else "medium",
        price=(None, None),
    )
