"""The thread that launches work sleeps for a lock that another thread holds.

Symptom
    Gaps on the device in which the launching thread sleeps in `futex`, until another thread of the
    program wakes it.

Why it hurts
    Whatever the holder does with the lock, the device waits for it.

Evidence
    Context switches, wake-ups and system calls of the threads that launch: sleeps in futex inside
    the gaps that another thread's wake-up ended; that thread had what was waited for
    (`sightline stats lock_waits`). Those in a call that waits for the device, a DataLoader or
    another cause of `sightline stats idle_parts` are that one's. The gain is a bound from the
    timeline: that time on the device that lost most.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Hold the lock for less time, or not at all: in Python the holder has the interpreter's lock, so
    move its work to another process; copy under the lock and work outside of it; a lock per device.

False positives
    A thread that waits for work on a condition sleeps in futex, too: then who wakes it is late, not
    a holder of a lock. The recording does not tell the two apart.

References
    futex(2); Giraldeau and Dagenais, "Wait Analysis of Distributed Systems Using Kernel Tracing",
    IEEE TPDS 27 (8), 2016.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.build import Advice
from sightline.subjects.system.rules._blame import (
    describe_others,
    find_blame,
    list_parts_of_sleeps,
    name_thread,
    name_victim,
    report_blame,
    sum_by,
)
from sightline.timeline import causes
from sightline.timeline.system_calls import list_system_calls
from sightline.timeline.system_waits import list_waits_for_lock

RULE = Rule(
    "futex-contention",
    "The launching thread waits for a lock",
    causes=(causes.LOCK,),
    explains_lateness=True,
)


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("wakeups") or not run.rows("host_ops"):
        return
    waits = list_waits_for_lock(run)
    blame = find_blame(run, waits, cause="lock_wait")
    if blame is None:
        return
    addresses = list_system_calls(run).select(call_id="host_op_id", lock="payload")
    parts = list_parts_of_sleeps(run, blame, waits).join(addresses, on="call_id", how="left")
    lost, thread = name_victim(run, blame)
    holder = name_thread(run, int(sum_by(parts, "waker_tid")[0][0]))
    locks = sum_by(parts, "lock")
    yield from report_blame(
        run,
        RULE,
        blame,
        f"{lost} because {thread} sleeps until {holder} releases a lock or signals it.",
        [
            *describe_others(run, parts, "waker_tid", "until woken by"),
            *([f"mostly the futex at {locks[0][0]}"] if locks else []),
        ],
        Advice(
            fix=f"see what {holder} does meanwhile (sightline stats thread_critical_path), and "
            "take it out of the lock or to another process",
            verify="sightline stats lock_waits AFTER: total_ns of the launching thread",
            cause="another thread holds what the launching thread waits for",
            sources=("futex(2)",),
        ),
        confidence="medium",
    )
