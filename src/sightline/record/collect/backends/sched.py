"""The kernel's events of threads by perf, on all CPUs: who runs, who wakes whom, and why."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sightline.record.collect.backend import Backend, Facts, Missing, Verdict, always
from sightline.record.collect.backends._perf import LEVEL, PERF, check_perf
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    facts = situation.facts
    if facts["perf"] is None:
        return Verdict(False, "perf is not installed")
    if facts["lttng_kernel"] and not situation.is_asked:
        return Verdict(False, "LTTng traces the kernel")
    level = facts["perf_event_paranoid"]
    # perf_event_open(2): events of the whole system and raw tracepoints need -1, or root.
    if os.geteuid() != 0 and (level is None or level > -1):
        return Verdict(False, f"perf_event_paranoid is {level}, and this is not root")
    what = "context switches, wake-ups, interrupts, disks, locks"
    return Verdict(True, f"perf {facts['perf']}: {what}")


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    yield from check_perf(facts, root)
    level = facts["perf_event_paranoid"]
    if facts["perf"] is not None and not root and (level is None or level > -1):
        yield Missing(
            f"perf_event_paranoid is {level}: perf may not trace the whole system",
            (
                "sudo sysctl kernel.perf_event_paranoid=-1     # until the next start",
                "sudo sightline run --for system -- ...        # or as root",
            ),
            "https://docs.kernel.org/admin-guide/perf-security.html",
        )


BACKEND = Backend(
    "sched",
    order=110,
    is_of_gpu=False,
    judge=_judge,
    answers={"system": always},
    carries=("system",),
    facts=(PERF, LEVEL),
    needs=("sched",),
    checks={"sched": _check},
)
