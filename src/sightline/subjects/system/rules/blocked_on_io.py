"""The thread that launches work sleeps until a disk or the network has served it.

Symptom
    Gaps on the device in which the launching thread sleeps in a call that reads or writes.

Why it hurts
    A disk takes 0.1 to 10 ms for a request, and the device has nothing to do meanwhile.

Evidence
    Context switches and wake-ups of the threads that launch: sleeps inside the gaps that an
    interrupt of a disk or of the network ended, and uninterruptible sleeps in calls on files
    (`sightline stats sleep_causes`, `disk_times`). Those in a DataLoader, a checkpoint, a compiler
    or another cause of `sightline stats idle_parts` are that one's. The gain is a bound from the
    timeline: that time on the device that lost most.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Read ahead in another thread or process (a data loader with workers, io_uring, prefetch to host
    memory); write checkpoints and logs asynchronously; keep the data on a local disk.

False positives
    An uninterruptible sleep in a call on a file may be for a lock of the file system.

References
    Linux, Documentation/filesystems/proc.rst, state D; LTTng, tracepoints block_rq_issue and
    block_rq_complete.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns
from sightline.diagnosis.build import Advice
from sightline.subjects.system.rules._blame import (
    find_blame,
    list_parts_of_sleeps,
    name_victim,
    report_blame,
    sum_by,
)
from sightline.timeline import causes
from sightline.timeline.system_waits import list_waits_for_io

RULE = Rule(
    "blocked-on-io",
    "The launching thread waits for I/O",
    causes=(causes.INPUT_OUTPUT,),
    explains_lateness=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("sched_events") or not (run.rows("wakeups") or run.rows("host_ops")):
        return
    waits = list_waits_for_io(run)
    blame = find_blame(run, waits, cause="blocked_io")
    if blame is None:
        return
    parts = list_parts_of_sleeps(run, blame, waits)
    lost, thread = name_victim(run, blame)
    what = sum_by(parts, "what")[0][0]
    calls, ends = sum_by(parts, "call"), sum_by(parts, "source_name")
    inside = f" in {calls[0][0]}" if calls else ""
    yield from report_blame(
        run,
        RULE,
        blame,
        f"{lost} because {thread} waits for the {what}{inside}.",
        [
            *(f"{format_ns(ns)} in {format_count(n)} × {call}" for call, ns, n in calls[:3]),
            *(f"{format_ns(ns)} ended by {name}" for name, ns, _ in ends[:2]),
        ],
        Advice(
            fix="read ahead in another thread or process, and write checkpoints and logs "
            "asynchronously",
            verify="sightline stats sleep_causes AFTER: source disk and network of the thread",
            cause=f"the launching thread waits for the {what} itself",
            sources=("Linux, Documentation/filesystems/proc.rst: state D",),
        ),
        confidence="high" if (parts.get_column("source") == what).all() else "medium",
    )
