"""Counts the GPU calls of jobs by eBPF, in a process of its own, which ends with its daemon.

    python -m sightline.capture.counter

Reads a line of JSON a question from standard input, and answers each with one:

    {"watch": {"4711": [4242, 4243]}}   these processes from now on
    {"take": "4711"}                    {"rates": {...}} since the last time, or nothing yet

The first line that it writes says what a counted call takes longer, {"call_ns": ...}, or why none
can be counted, {"problem": ...}. The kernel counts; nothing is sent for a call. Rates are of one
process, a second: what a job has more of is not that it has more processes.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sightline.errors import RequestError
from sightline.record.probe.bpf import Programs
from sightline.record.probe.cost import check_permission, measure_cost
from sightline.record.probe.functions import Function
from sightline.record.probe.processes import is_running
from sightline.record.probe.session import Session

# A library that a program loads is found then; to read its maps takes some ms (ours).
LOOK_S = 5.0
LEAST_S = 1.0  # a rate of less than that is chance
_NICE = 10  # behind the program whose node it is
# What is counted of calls, by their kind (core/model/probe_file.KINDS) and what is added up; waits
# are ns in them.
_SUMS = {
    "graph_launches": ("graph", "entered"),
    "copied_bytes": ("copy", "bytes"),
    "waits_ns": ("wait", "duration_ns"),
    "collectives": ("collective", "entered"),
    "allocations": ("allocate", "entered"),
}
RATES = ("launches", *_SUMS, "failed_calls")


class Counts(Protocol):
    """What a backend counted (record/probe/backend.py)."""

    def read_totals(self) -> Mapping[tuple[int, int], Mapping[str, int]]:
        """By process and function, the sums of its calls."""

    def read_kernels(self) -> Mapping[tuple[int, int], int]:
        """How often each kernel was launched, by process and kernel."""


def sum_counts(counts: Counts, functions: list[Function]) -> dict[int, dict[str, int]]:
    """What each process has done so far, by RATES.

    Of the driver's functions those of a process that calls no runtime: else they are what the
    runtime asked for.
    """
    totals = [
        (pid, functions[number], sums)
        for (pid, number), sums in counts.read_totals().items()
        if number < len(functions)
    ]
    has_runtime = {pid for pid, function, _ in totals if function.layer == "runtime"}
    found: dict[int, dict[str, int]] = {}
    for (pid, _), launches in counts.read_kernels().items():
        own = found.setdefault(pid, dict.fromkeys(RATES, 0))
        own["launches"] += launches
    for pid, function, sums in totals:
        if function.layer == "driver" and pid in has_runtime:
            continue
        own = found.setdefault(pid, dict.fromkeys(RATES, 0))
        own["failed_calls"] += sums["failed"]
        for name, (kind, what) in _SUMS.items():
            if function.kind == kind:
                own[name] += sums[what]
    return found


@dataclass
class _Since:
    """A process when its job's counts were last taken."""

    at: float
    counts: Mapping[str, int]


class Rates:
    """What processes did since their job's counts were last taken."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._since: dict[int, _Since] = {}

    def begin(self, pids: list[int], counts: Mapping[int, Mapping[str, int]]) -> None:
        """Count processes that are new from now on, and forget those that are gone."""
        now, none = self._now(), dict.fromkeys(RATES, 0)
        self._since = {
            pid: self._since.get(pid) or _Since(now, counts.get(pid, none)) for pid in pids
        }

    def take(
        self, pids: list[int], counts: Mapping[int, Mapping[str, int]]
    ) -> dict[str, float] | None:
        """Rates of one process, a second, over those of a job; None: none ran for long enough."""
        now, none = self._now(), dict.fromkeys(RATES, 0)
        sums, seconds = dict.fromkeys(RATES, 0.0), 0.0
        for pid in pids:
            since = self._since.get(pid)
            if since is None or now - since.at < LEAST_S:
                continue
            own = counts.get(pid, none)
            seconds += now - since.at
            for name in RATES:
                sums[name] += own[name] - since.counts[name]
            self._since[pid] = _Since(now, own)
        return {name: value / seconds for name, value in sums.items()} if seconds else None


class Counter:
    """Probes of the processes of some jobs."""

    def __init__(self) -> None:
        """Raises RequestError with the reason where the kernel lets none be placed."""
        check_permission()
        self._backend = Programs(calls=False)
        self._jobs: dict[str, list[int]] = {}
        try:
            self.cost = measure_cost(self._backend)
            self._session = Session(self._backend, self._list_pids, None, self.cost)
        except BaseException:
            self._backend.close()
            raise
        self._rates = Rates()

    def answer(self, question: Any) -> dict[str, Any]:
        """What one question is answered with."""
        if "watch" in question:
            told = question["watch"]
            self._jobs = {str(job): [int(pid) for pid in pids] for job, pids in told.items()}
            self.look()
            return {}
        rates = self._rates.take(self._jobs.get(question["take"], []), self._read())
        return {} if rates is None else {"rates": rates}

    def look(self) -> None:
        """Place probes in what programs have loaded meanwhile."""
        self._session.look()
        self._session.poll()  # names of kernels, which are told and not needed
        self._rates.begin(self._list_pids(), self._read())

    def close(self) -> None:
        """Take all probes away."""
        self._session.finish("the daemon ended")

    def _read(self) -> dict[int, dict[str, int]]:
        return sum_counts(self._backend, self._session.functions)

    def _list_pids(self) -> list[int]:
        return [pid for pids in self._jobs.values() for pid in pids if is_running(pid)]


def _say(told: Mapping[str, Any]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Answer until standard input ends; the exit code."""
    os.nice(_NICE)
    try:
        counter = Counter()
    except RequestError as error:
        _say({"problem": error.what if error.why is None else f"{error.what}: {error.why}"})
        return 2
    try:
        _say({"call_ns": counter.cost.call_ns})
        while True:
            if not select.select([sys.stdin], [], [], LOOK_S)[0]:
                counter.look()
                continue
            line = sys.stdin.readline()
            if not line:
                return 0
            _say(counter.answer(json.loads(line)))
    finally:
        counter.close()


if __name__ == "__main__":
    sys.exit(main())
