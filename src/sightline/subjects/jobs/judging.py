"""All judges in the order in which a person should hear of problems: what costs most time first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sightline.subjects.jobs.job import Job
from sightline.subjects.jobs.judges import asked, course, gpus, processors
from sightline.subjects.jobs.verdict import Verdict

JUDGES: tuple[Callable[[Job], Verdict | None], ...] = (
    gpus.judge_idle,
    course.judge_hang,
    gpus.judge_little,
    gpus.judge_unequal,
    gpus.judge_clocks,
    processors.judge_serial,
    processors.judge_low,
    processors.judge_unequal,
    course.judge_slow_node,
    course.judge_stalls,
    processors.judge_high,
    course.judge_network,
    asked.judge_growth,
    asked.judge_memory,
    asked.judge_time,
)


def judge_job(job: Job) -> Iterator[Verdict]:
    """What each rule says of a job; nothing where its question does not arise."""
    for judge in JUDGES:
        verdict = judge(job)
        if verdict is not None:
            yield verdict
