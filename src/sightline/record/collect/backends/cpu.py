"""CPU stacks: by py-spy, by sightline itself through perf_event, or by perf."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.backends._perf import LEVEL, PERF, check_perf
from sightline.record.collect.situation import Situation

PY_SPY_HZ = 100  # py-spy's own default


def _judge(situation: Situation) -> Verdict:
    wanted = situation.options.get("cpu_stacks")
    # py-spy reads Python's own frames, of any version and also of threads that hold no CPU.
    tools = TOOLS if situation.is_python else TOOLS[1:]
    missing = []
    for tool in [wanted] if wanted else tools:
        verdict = _JUDGES[tool](situation)
        if verdict.possible:
            return Verdict(True, verdict.why, {"cpu_tool": tool})
        missing.append(verdict.why)
    return Verdict(False, "; ".join(missing))


def _judge_py_spy(situation: Situation) -> Verdict:
    facts = situation.facts
    if facts["py_spy"] is None:
        return Verdict(False, "py-spy is not installed")
    scope = facts["ptrace_scope"]
    if (scope or 0) >= 2:
        return Verdict(False, f"ptrace_scope is {scope}: py-spy may read no other process")
    return Verdict(True, f"py-spy {facts['py_spy']}: Python stacks, 100 times a second")


def _judge_perf_event(situation: Situation) -> Verdict:
    from sightline.record.sampling.events import HZ  # which loads numpy

    problem = situation.facts["perf_event_problem"]
    if problem is not None:
        return Verdict(False, f"stacks cannot be sampled: {problem}")
    rate = situation.options.get("cpu_rate") or HZ
    also = ", Python's from 3.12 on" if situation.is_python else ""
    return Verdict(True, f"perf_event: native stacks{also}, {rate} times a second of CPU time")


def _judge_perf(situation: Situation) -> Verdict:
    facts = situation.facts
    level = facts["perf_event_paranoid"]
    if facts["perf"] is None:
        return Verdict(False, "perf is not installed")
    if level is not None and level > 2 and os.geteuid() != 0:
        return Verdict(False, f"perf_event_paranoid is {level}, and this is not root")
    return Verdict(True, f"perf {facts['perf']}: native stacks, 199 times a second")


_JUDGES = {"py-spy": _judge_py_spy, "perf_event": _judge_perf_event, "perf": _judge_perf}
TOOLS = tuple(_JUDGES)


def _is_picked(situation: Situation) -> bool:
    """Where there is a GPU, its timeline is the answer; ranks have too many processes to sample."""
    if situation.is_python:
        return not situation.has_gpu and not situation.is_launched
    return situation.vendor_tool != "nsys"  # which can sample by itself


def _describe_perf_event(facts: Facts) -> Way:
    what = "CPU stacks (sightline's own)"
    problem = facts["perf_event_problem"]
    if problem is not None:
        return Way(what, False, problem)
    return Way(what, True, "perf_event; Python functions from Python 3.12 on")


def _describe_perf(facts: Facts) -> Way:
    what = "CPU samples (perf)"
    level = facts["perf_event_paranoid"]
    if facts["perf"] is None:
        return Way(what, False, "perf is not on the PATH")
    # Documentation/admin-guide/sysctl/kernel.rst: above 2 unprivileged use is refused (Debian: 3).
    if level is not None and level > 2:
        return Way(what, False, f"perf_event_paranoid is {level}: root, or set it to 1")
    return Way(what, True, facts["perf"])


def _describe_py_spy(facts: Facts) -> Way:
    what = "Python stacks from outside (py-spy)"
    if facts["py_spy"] is None:
        return Way(what, False, "py-spy is not installed:  pip install py-spy")
    # Documentation/admin-guide/LSM/Yama.rst: 1 allows children, 2 and 3 need root or nothing.
    if (facts["ptrace_scope"] or 0) >= 1:
        return Way(what, True, "programs it starts itself; others need root (ptrace_scope)")
    return Way(what, True, facts["py_spy"])


def _check_py_spy(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["py_spy"] is None:
        yield Missing(
            "py-spy, which samples Python, is not installed",
            ("pip install py-spy",),
            "https://github.com/benfred/py-spy",
        )


def _check_ptrace(facts: Facts, root: bool) -> Iterator[Missing]:
    scope = facts["ptrace_scope"] or 0
    if scope >= 2 and not root:
        yield Missing(
            f"ptrace_scope is {scope}: py-spy may not read another process",
            (
                "sudo sysctl kernel.yama.ptrace_scope=1        # until the next start",
                "docker run --cap-add=SYS_PTRACE ...           # in a container",
            ),
            "https://docs.kernel.org/admin-guide/LSM/Yama.html",
        )


def _check_perf_event(facts: Facts, root: bool) -> Iterator[Missing]:
    problem = facts["perf_event_problem"]
    if problem is not None:
        yield Missing(
            f"sightline may not sample CPU stacks: {problem}",
            (
                "sudo setcap cap_perfmon,cap_sys_ptrace=ep $(readlink -f $(which python3))",
                "docker run --cap-add=PERFMON ...              # in a container",
                "sudo sysctl kernel.perf_event_paranoid=1      # until the next start",
                "echo kernel.perf_event_paranoid=1 | sudo tee /etc/sysctl.d/99-perf.conf  # always",
            ),
            "https://docs.kernel.org/admin-guide/perf-security.html",
        )


def run_py_spy(program: str, pid: int | str, output: Path, *, idle: bool = False) -> list[str]:
    """`py-spy record` attached to a process and its children, until they end (its README).

    With `idle`, threads that hold no CPU are sampled, too: what they wait in.
    """
    return [
        program, "record", "--pid", str(pid), "--subprocesses", "--format", "speedscope",
        "--output", str(output), "--rate", str(PY_SPY_HZ), "--duration", "unlimited",
        # Stacks are read without stopping the program: one may be torn, none delays it.
        "--nonblocking",
        *(["--idle"] if idle else []),
    ]  # fmt: skip


BACKEND = Backend(
    "cpu",
    order=80,
    is_of_gpu=False,
    judge=_judge,
    reads=("cpu_stacks", "cpu_rate", "cpu_stack_bytes"),
    answers={"timeline": _is_picked},
    option="cpu_stacks",
    facts=(
        PERF,
        Fact("py_spy", 110, lambda look: look.find_version("py-spy")),
        Fact("perf_event_problem", 160, lambda look: look.try_sampling()),
        LEVEL,
        Fact(
            "ptrace_scope",
            162,
            lambda look: look.read_number("proc/sys/kernel/yama/ptrace_scope"),
        ),
    ),
    ways=(_describe_perf_event, _describe_perf, _describe_py_spy),
    needs=("py-spy|perf_event|perf", "ptrace", "perf_event"),
    checks={
        "py-spy": _check_py_spy,
        "perf": check_perf,
        "ptrace": _check_ptrace,
        "perf_event": _check_perf_event,
    },
)
