"""From what a person asks and what the machine has to what is recorded, and the reasons."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.errors import RequestError
from sightline.record.collect.cupti import INJECTION, names_other
from sightline.record.collect.mpi_calls import is_mpi_job
from sightline.record.inline.hook import LAUNCHERS
from sightline.record.sampling.events import HZ

BACKENDS = (
    "torch",
    "jax",
    "nsys",
    "ncu",
    "cupti",
    "rocprofv3",
    "unitrace",
    "cpu",
    "nvml",
    "lttng",
    "sched",
    "mpi",
)
# What samples CPU stacks: sightline itself through perf_event, or another program.
CPU_TOOLS = ("py-spy", "perf_event", "perf")
# What tells where in a kernel its threads wait.
SAMPLERS = ("cupti", "ncu", "rocprofv3", "unitrace")
QUESTIONS = {
    "timeline": "what ran when, and what waited",
    "kernels": "why single kernels are slow",
    "stalls": "where in the code warps wait, while the program runs",
    "memory": "what is allocated, and when",
    "energy": "power, energy and clocks",
    "system": "what the operating system did with the threads",
}


# PyTorch's profiler keeps all events in memory until it stops. examples/train.py makes 25,000 of
# them in a second of its loop, and each takes 0.4 kB in the trace.
MAX_TORCH_S = 60.0


@dataclass(frozen=True)
class Choice:
    """One backend, taken or not, and why."""

    backend: str
    taken: bool
    why: str


@dataclass
class Plan:
    """What is to be recorded, and how."""

    command: list[str]
    question: str = "timeline"
    choices: list[Choice] = field(default_factory=list)
    torch: dict[str, Any] | None = None
    jax: dict[str, Any] | None = None
    cpu_tool: str | None = None  # one of CPU_TOOLS
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def backends(self) -> list[str]:
        """Those that are taken."""
        return [c.backend for c in self.choices if c.taken]

    def leave_out(self, backend: str, why: str) -> None:
        """Take a backend out again."""
        self.choices = [
            Choice(backend, False, why) if c.backend == backend else c for c in self.choices
        ]
        if backend == "torch":
            self.torch = None
        if backend == "jax":
            self.jax = None


def is_python(command: Sequence[str]) -> bool:
    """Whether a command starts Python in the end, as far as its words say."""
    words = [Path(w).name for w in command]
    if any(w.startswith("python") or w in LAUNCHERS or w.endswith(".py") for w in words):
        return True
    program = shutil.which(command[0])
    if program is None:
        return False
    try:
        with open(program, "rb") as file:  # noqa: PTH123  # a path of any kind
            line = file.readline(200)
            return line.startswith(b"#!") and b"python" in line
    except OSError:
        return False


def is_launched(command: Sequence[str]) -> bool:
    """Whether a launcher stands in the command: its ranks are what is of interest."""
    return any(
        Path(w).name in LAUNCHERS or w in LAUNCHERS or Path(w).name == "srun" for w in command
    )


def make_plan(
    command: Sequence[str],
    facts: dict[str, Any],
    *,
    question: str | None = None,
    backends: Sequence[str] = (),
    options: dict[str, Any] | None = None,
) -> Plan:
    """The plan; `facts` are machine.examine's. Raises RequestError where it cannot be done."""
    if question is not None and question not in QUESTIONS:
        raise RequestError(f"there is no question '{question}'", why=f"there are {_all(QUESTIONS)}")
    unknown = [b for b in backends if b not in BACKENDS]
    if unknown:
        raise RequestError(f"there is no backend '{unknown[0]}'", why=f"there are {_all(BACKENDS)}")
    plan = Plan(list(command), question or "timeline", options=dict(options or {}))
    wanted = backends or _for(plan.question, facts, command)
    if plan.options.get("cpu_stacks") and "cpu" not in wanted:
        wanted = (*wanted, "cpu")
    if not backends and "torch" in wanted and facts.get("jax") is not None:
        wanted = (*wanted, "jax")
    # Nsight Systems and unitrace record MPI's calls themselves.
    if not backends and plan.question == "timeline" and is_mpi_job(command):
        wanted = (*wanted, *(() if {"nsys", "unitrace"} & set(wanted) else ("mpi",)))
    for backend in BACKENDS:
        plan.choices.append(_judged(backend, backend in wanted, plan, facts, bool(backends)))
    _only_one_tracer(plan)
    if plan.question == "kernels" and "ncu" not in plan.backends and not backends:
        ncu = next(c for c in plan.choices if c.backend == "ncu")
        raise RequestError(
            "kernels cannot be profiled here",
            why=ncu.why,
            hint="What is missing, and the remedy:  sightline doctor --for kernels",
        )
    if plan.question == "stalls" and not set(SAMPLERS) & set(plan.backends) and not backends:
        raise RequestError(
            "stalls cannot be recorded here",
            why="; ".join(
                c.why for c in plan.choices if c.backend in wanted and c.backend != "nvml"
            ),
            hint="What is missing, and the remedy:  sightline doctor --for stalls",
        )
    if plan.question == "energy" and "nvml" not in plan.backends:
        raise RequestError(
            "energy cannot be measured here",
            why="no NVIDIA GPU was found",
            hint="What is missing, and the remedy:  sightline doctor --for energy",
        )
    if plan.question == "system" and not {"lttng", "sched"} & set(plan.backends) and not backends:
        raise RequestError(
            "the operating system cannot be traced here",
            why="; ".join(c.why for c in plan.choices if c.backend in ("lttng", "sched")),
            hint="What is missing, and the remedy:  sightline doctor --for system",
        )
    refused = [c for c in plan.choices if c.backend in backends and not c.taken]
    if refused:
        raise RequestError(
            f"{refused[0].backend} cannot record here",
            why=refused[0].why,
            hint=f"What is missing, and the remedy:  sightline doctor --for {refused[0].backend}",
        )
    if "torch" in plan.backends:
        plan.torch = _torch_options(plan)
    if "jax" in plan.backends:
        plan.jax = _torch_options(plan)
    return plan


def _all(names: Any) -> str:
    return ", ".join(names)


def _for(question: str, facts: dict[str, Any], command: Sequence[str]) -> tuple[str, ...]:
    """The backends that answer a question, before it is known whether they can work."""
    python, gpu = is_python(command), bool(facts["gpus"])
    if question == "kernels":
        return ("ncu", "nvml")
    if question == "stalls":
        if _has_only(facts, "amd_gpus"):
            return ("rocprofv3",)
        if _has_only(facts, "intel_gpus"):
            return ("unitrace",)
        # While the program runs, without a second run of any kernel; else ncu, which needs both.
        return ("cupti", "nvml") if _may_sample(facts) else ("ncu", "nvml")
    if question == "energy":
        return ("nvml",)
    if question == "system":
        gpus = ("torch", "nvml") if python and gpu else ("nvml",)
        return ("lttng", "sched", *gpus)
    if question == "memory":
        return ("torch", "nvml") if python else ("nsys", "nvml")
    if python:
        # Where there is a GPU, its timeline is the answer; ranks have too many processes to sample.
        return ("torch", "nvml") if gpu or is_launched(command) else ("torch", "cpu")
    if gpu and facts["nsys"] is not None and not _has_only(facts, "amd_gpus"):
        return ("nsys", "nvml")
    if _has_only(facts, "amd_gpus") and facts["rocprofv3"] is not None:
        return ("rocprofv3", "cpu")
    if _has_only(facts, "intel_gpus") and facts["unitrace"] is not None:
        return ("unitrace", "cpu")
    return ("cupti", "cpu", "nvml") if gpu and facts["cupti_injection"] else ("cpu", "nvml")


def _has_only(facts: dict[str, Any], vendor: str) -> bool:
    """Whether the machine has GPUs of this vendor (amd_gpus, intel_gpus), and none of another."""
    others = len(facts["gpus"]) - len(facts["amd_gpus"])  # NVIDIA's
    if vendor == "intel_gpus":
        return bool(facts[vendor]) and not facts["gpus"]
    return bool(facts[vendor]) and not others


def _may_sample(facts: dict[str, Any]) -> bool:
    """Whether PC samples can be taken through CUPTI."""
    return bool(facts["cupti_injection"]) and not (
        facts["counters_need_admin"] and os.geteuid() != 0
    )


def _judged(backend: str, wanted: bool, plan: Plan, facts: dict[str, Any], asked: bool) -> Choice:
    judge = _JUDGES[backend]
    possible, why = judge(plan, facts, asked)
    if not wanted:
        return Choice(backend, False, "not needed for this question")
    return Choice(backend, possible, why)


def _torch(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    return _judge_framework(plan, asked, "PyTorch", "torch")


def _jax(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    return _judge_framework(plan, asked, "JAX", "jax")


def _judge_framework(plan: Plan, asked: bool, name: str, module: str) -> tuple[bool, str]:
    """Of a profiler that is switched on inside the program, where that imports the framework."""
    if not asked and not is_python(plan.command):
        return False, "the command is not a Python program"
    chosen = plan.options
    if chosen.get("steps"):
        wait, warm_up, active = chosen["steps"]
        return True, f"{name}'s profiler, for {active} steps after {wait + warm_up}"
    seconds = chosen.get("seconds") or MAX_TORCH_S
    return True, f"{name}'s profiler, {seconds:g} s at most, once the program imports {module}"


def _nsys(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if facts["nsys"] is None:
        return False, "nsys is not on the PATH"
    if not facts["gpus"] and not asked:
        return False, "no GPU was found"
    return True, f"Nsight Systems {facts['nsys']}"


def _ncu(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if facts["ncu"] is None:
        return False, "ncu is not on the PATH"
    if not facts["gpus"] and not asked:
        return False, "no GPU was found"
    if facts["counters_need_admin"] and os.geteuid() != 0:
        return False, "the driver gives its counters to root only (ERR_NVGPUCTRPERM)"
    return True, f"Nsight Compute {facts['ncu']}: every kernel is run several times"


def _cupti(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if not facts["cupti_injection"]:
        return False, "sightline was built without CUPTI's headers"
    other = names_other(os.environ)
    if other is not None:
        return False, f"{INJECTION} is {other}: the driver loads one profiler"
    if not facts["gpus"] and not asked:
        return False, "no GPU was found"
    samples = plan.options.get("sampling") or plan.question == "stalls"
    if samples and not _may_sample(facts):
        return False, "the driver gives PC samples to root only (ERR_NVGPUCTRPERM)"
    what = "kernels, copies, API calls, waits" + (", where warps stall" if samples else "")
    return True, f"CUPTI, through sightline's own library: {what}"


_IN_CYCLES = "--period counts cycles, and this GPU is sampled by time"


def _rocprofv3(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if facts["rocprofv3"] is None:
        return False, "rocprofv3 is not on the PATH"
    if not facts["amd_gpus"] and not asked:
        return False, "no AMD GPU was found"
    if plan.question != "stalls":
        return True, f"rocprofv3 {facts['rocprofv3']}: kernels, copies, HIP calls, RCCL, ROCTx"
    if facts["amd_gpus"] and facts["amd_sampling"] is None:
        return False, "rocprofv3 --list-avail names no way to sample these GPUs (MI200 and later)"
    if facts["amd_sampling"] == "host_trap" and plan.options.get("period"):
        return False, _IN_CYCLES
    plan.options |= {"samples": True, "amd_sampling": facts["amd_sampling"]}
    what = "where waves stall" if facts["amd_sampling"] != "host_trap" else "where waves are"
    return True, f"rocprofv3 {facts['rocprofv3']}: {what}, by PC sampling, which AMD calls beta"


def _unitrace(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if facts["unitrace"] is None:
        return False, "unitrace is not on the PATH"
    if not facts["intel_gpus"] and not asked:
        return False, "no Intel GPU was found"
    if plan.question != "stalls":
        return True, f"unitrace {facts['unitrace']}: kernels, copies, Level Zero calls"
    if plan.options.get("period"):
        return False, _IN_CYCLES
    plan.options["samples"] = True
    return True, f"unitrace {facts['unitrace']}: where EUs stall (Data Center GPU Max and later)"


def _cpu(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    wanted = plan.options.get("cpu_stacks")
    # py-spy reads Python's own frames, of any version and also of threads that hold no CPU.
    tools = CPU_TOOLS if is_python(plan.command) else CPU_TOOLS[1:]
    missing = []
    for tool in [wanted] if wanted else tools:
        found, why = _CPU_JUDGES[tool](plan, facts)
        if found:
            plan.cpu_tool = tool
            return True, why
        missing.append(why)
    return False, "; ".join(missing)


def _py_spy(plan: Plan, facts: dict[str, Any]) -> tuple[bool, str]:
    if facts["py_spy"] is None:
        return False, "py-spy is not installed"
    if (facts["ptrace_scope"] or 0) >= 2:
        return False, f"ptrace_scope is {facts['ptrace_scope']}: py-spy may read no other process"
    return True, f"py-spy {facts['py_spy']}: Python stacks, 100 times a second"


def _perf_event(plan: Plan, facts: dict[str, Any]) -> tuple[bool, str]:
    if facts["perf_event_problem"] is not None:
        return False, f"stacks cannot be sampled: {facts['perf_event_problem']}"
    rate = plan.options.get("cpu_rate") or HZ
    also = ", Python's from 3.12 on" if is_python(plan.command) else ""
    return True, f"perf_event: native stacks{also}, {rate} times a second of CPU time"


def _perf(plan: Plan, facts: dict[str, Any]) -> tuple[bool, str]:
    level = facts["perf_event_paranoid"]
    if facts["perf"] is None:
        return False, "perf is not installed"
    if level is not None and level > 2 and os.geteuid() != 0:
        return False, f"perf_event_paranoid is {level}, and this is not root"
    return True, f"perf {facts['perf']}: native stacks, 199 times a second"


_CPU_JUDGES = {"py-spy": _py_spy, "perf_event": _perf_event, "perf": _perf}


def _nvml(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if not facts["gpus"] and not asked:
        return False, "no NVIDIA GPU was found"
    return True, "power, clocks, memory and utilization, 20 times a second"


def _lttng(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if facts["lttng"] is None:
        return False, "lttng is not on the PATH"
    of_kernel = "the kernel and " if facts["lttng_kernel"] else ""
    return True, f"LTTng {facts['lttng']}: events of {of_kernel}user space"


def _sched(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if facts["perf"] is None:
        return False, "perf is not installed"
    if facts["lttng_kernel"] and not asked:
        return False, "LTTng traces the kernel"
    level = facts["perf_event_paranoid"]
    # perf_event_open(2): events of the whole system and raw tracepoints need -1, or root.
    if os.geteuid() != 0 and (level is None or level > -1):
        return False, f"perf_event_paranoid is {level}, and this is not root"
    return True, f"perf {facts['perf']}: context switches, wake-ups, interrupts, disks, locks"


def _mpi(plan: Plan, facts: dict[str, Any], asked: bool) -> tuple[bool, str]:
    if facts.get("mpicc") is None:
        return False, "mpicc, which builds the recorder for this MPI, is not on the PATH"
    return True, "MPI's calls: who sends, receives and waits, through its profiling interface"


_JUDGES = {
    "torch": _torch,
    "jax": _jax,
    "nsys": _nsys,
    "ncu": _ncu,
    "cupti": _cupti,
    "rocprofv3": _rocprofv3,
    "unitrace": _unitrace,
    "cpu": _cpu,
    "nvml": _nvml,
    "lttng": _lttng,
    "sched": _sched,
    "mpi": _mpi,
}


def _only_one_tracer(plan: Plan) -> None:
    """CUPTI has one subscriber before 13.3, and some tools let no other in later.

    CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED (CUPTI documentation, result codes).
    """
    tools = [t for t in ("nsys", "ncu", "cupti", "rocprofv3", "unitrace") if t in plan.backends]
    own = [b for b in ("torch", "jax") if tools and b in plan.backends]
    for left in [*tools[1:], *own]:
        plan.leave_out(left, f"{tools[0]} records, and only one tool can trace a GPU at a time")


def _torch_options(plan: Plan) -> dict[str, Any]:
    chosen = plan.options
    is_memory = plan.question == "memory"
    bounded = chosen.get("seconds") or chosen.get("steps")
    return {
        "steps": chosen.get("steps"),
        "after_s": chosen.get("after_s"),
        "seconds": chosen.get("seconds") if bounded else MAX_TORCH_S,
        "limited": not bounded,
        "shapes": chosen.get("shapes", True),
        # An allocation is told by the line that made it.
        "stacks": chosen.get("stacks", False) or is_memory,
        "memory": chosen.get("memory", False) or is_memory,
    }
