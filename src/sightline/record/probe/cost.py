"""What a probe costs a program: measured on a function of our own, before others are probed."""

from __future__ import annotations

import os
from typing import NamedTuple

from sightline.errors import RequestError
from sightline.record.probe.backend import Backend
from sightline.record.probe.functions import NO_FACTOR, NO_WORD, Function
from sightline.record.probe.placement import MOST_STEP_NS
from sightline.record.probe.processes import find_file, read_mappings
from sightline.record.probe.processors import find_processor
from sightline.record.probe.targets import Site

_CALLS, _ROUNDS = 4_000, 10  # 40 ms in all
# The number of the function in the kernel's part, the last that it has room for.
NUMBER = 1023
_TARGET = Function("sightline_probe_target", "", "other", 0, (NO_WORD,) * 5, 0, 255, NO_FACTOR, 0)


class Cost(NamedTuple):
    """What a probed call costs more than one that is not: its entry and its return."""

    call_ns: float
    hit_ns: float


def measure_cost(backend: Backend, rounds: int = _ROUNDS) -> Cost:
    """Probe the function, call it, and take the probe away.

    Raises RequestError where the kernel refuses, or shows calls of another process than this one:
    then this process numbers processes otherwise than the kernel's programs do.
    """
    from sightline._native import find_probe_target

    address, pid = find_probe_target(), os.getpid()
    mapping = next((m for m in read_mappings(pid) if m.start <= address < m.end), None)
    file = None if mapping is None else find_file(pid, mapping)
    if mapping is None or file is None:
        raise RequestError("probes are for x86-64 and AArch64 only")
    offset = address - mapping.start + mapping.offset
    bare = _time_call(rounds)
    backend.tell_function(NUMBER, _TARGET)
    site = Site(_TARGET, mapping.file, "", offset)
    for _, error in backend.attach(file.path, [(site, NUMBER)], pid):
        raise explain_refusal(error) from error
    probed = _time_call(rounds)
    backend.detach()
    backend.read_calls()
    seen = {key[0] for key in backend.read_totals() if key[1] == NUMBER}
    if pid not in seen:
        raise RequestError(
            "the kernel's process ids differ from those here",
            why="sightline runs in a container with its own process ids",
            hint="Run it on the host, or in a container with:  docker run --pid=host --privileged",
        )
    call_ns = max(probed - bare, 0.0)
    return Cost(call_ns, call_ns / 2)


def has_cheap_steps(cost: Cost) -> bool:
    """Whether the kernel steps over an instruction in little time: what is measured here is one.

    On x86-64 it is not: there the function that is measured begins with an emulated instruction.
    """
    processor = find_processor()
    return bool(processor and processor.steps_may_be_cheap and cost.hit_ns <= MOST_STEP_NS)


def explain_refusal(error: OSError) -> RequestError:
    """Why the kernel placed no probe, and what to do."""
    return RequestError(
        "the kernel refuses to place probes",
        why=f"{(error.strerror or str(error)).lower()} (perf_event_open, type uprobe)",
        hint="sightline probe needs CAP_SYS_ADMIN, a kernel with CONFIG_UPROBE_EVENTS, and in a "
        "container a seccomp profile that\nallows perf_event_open and bpf:  docker run --pid=host "
        "--privileged",
    )


def _time_call(rounds: int) -> float:
    """What a call takes: of several rounds the fastest, as others use the processor, too."""
    from sightline._native import time_probe_target

    return min(time_probe_target(_CALLS) for _ in range(rounds)) / _CALLS


_CAP_SYS_ADMIN = 21  # include/uapi/linux/capability.h


def has_permission() -> bool:
    """Whether this process has CAP_SYS_ADMIN; CAP_PERFMON and CAP_BPF are not enough for uprobes.

    Tried on Linux 6.18: perf_event_open of a uprobe with these two only is EACCES.
    """
    with open("/proc/self/status") as file:  # noqa: PTH123  # one line of a pseudo-file
        line = next(line for line in file if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> _CAP_SYS_ADMIN & 1)


def check_permission() -> None:
    """Raise RequestError where this process may place no probes."""
    if not has_permission():
        raise RequestError(
            "probes cannot be placed",
            why="that needs CAP_SYS_ADMIN, which this process does not have",
            hint="Run it as root:  sudo $(which sightline) probe ...",
        )
