"""Problems of jobs that run, told once each: to a webhook, to a command.

A figure near a threshold comes and goes from one round to the next. So a problem is told once it
was there for some rounds in a row, and counts as over only after as many without it; where it comes
again, the job's owner knows already. A round in which a rule cannot judge says neither.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sightline.cluster.config import Telling
from sightline.cluster.documents import split_key
from sightline.cluster.notes import Notes
from sightline.subjects.jobs.job import Job

Tell = Callable[[str, dict[str, object]], None]
BEGAN, ENDED = "began", "ended"


@dataclass
class _Count:
    """Rounds in a row in which a problem was there, or was not."""

    present: int = 0
    absent: int = 0


class Alarms:
    """What was told of which job; kept in the notes, so that a restart tells nothing twice."""

    def __init__(self, telling: Telling, notes: Notes, tell: Tell) -> None:
        """`tell` is given a sentence, and all of it as data."""
        self._telling, self._notes, self._tell = telling, notes, tell
        self._counts: dict[tuple[str, str], _Count] = {}
        self._lock = threading.Lock()

    def heed(self, key: str, job: Job, problems: Sequence[Mapping[str, Any]]) -> None:
        """One round of a job: its problems, with those that could not be judged."""
        if job.row["state"] != "running":
            return
        found = {p["rule"]: p for p in problems if p["judged"]}
        unknown = {p["rule"] for p in problems if not p["judged"]} - found.keys()
        with self._lock:
            for rule in self._telling.on:
                if rule not in unknown:
                    self._count(key, job, rule, found.get(rule))

    def keep_only(self, keys: Collection[str]) -> None:
        """Forget the rounds of jobs that are over."""
        with self._lock:
            self._counts = {of: count for of, count in self._counts.items() if of[0] in keys}

    def _count(self, key: str, job: Job, rule: str, problem: Mapping[str, Any] | None) -> None:
        count = self._counts.setdefault((key, rule), _Count())
        if problem is not None:
            count.present, count.absent = count.present + 1, 0
            if count.present == self._telling.rounds and self._notes.begin_alarm(key, rule):
                self._tell(*_describe(BEGAN, key, job, rule, problem))
        else:
            count.present, count.absent = 0, count.absent + 1
            if count.absent == self._telling.rounds and self._notes.end_alarm(key, rule):
                self._tell(*_describe(ENDED, key, job, rule, {}))


def _describe(
    event: str, key: str, job: Job, rule: str, problem: Mapping[str, Any]
) -> tuple[str, dict[str, object]]:
    cluster, number, _ = split_key(key)
    user, what = job.row["user"], problem.get("text") or f"{rule} is over"
    text = f"job {number} of {user} on {cluster}: {what}"
    data: dict[str, object] = {
        "event": event, "rule": rule, "id": key, "job": number, "cluster": cluster, "user": user,
        "project": job.row["project"], "text": what, "fix": problem.get("fix"),
        "evidence": problem.get("evidence"), "gpu_hours": problem.get("gpu_hours"),
        "core_hours": problem.get("core_hours"),
    }  # fmt: skip
    return text, data
