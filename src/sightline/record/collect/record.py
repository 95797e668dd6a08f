"""Records a program: the folder, the environment, what watches, and what is left behind."""

from __future__ import annotations

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sightline.core.model import run_folder, stack_file
from sightline.core.redaction import show_command
from sightline.core.units import format_ns
from sightline.errors import RequestError
from sightline.record.collect import commands, conditions, cupti, finishing, mpi_calls
from sightline.record.collect.child import Child, Ended
from sightline.record.collect.clock_lock import BY_HAND, ClockLock
from sightline.record.collect.doing import Doing, EndingWatch
from sightline.record.collect.hosts import is_on_several_hosts
from sightline.record.collect.look import find_program
from sightline.record.collect.lttng import Lttng
from sightline.record.collect.plan import Plan
from sightline.record.collect.situation import is_python
from sightline.record.collect.sleeps import SleepSampler
from sightline.record.collect.watchers import Gpus, Iaprof, Perf, PySpy
from sightline.record.inline import clock
from sightline.record.inline.rank import make_host_mark
from sightline.record.inline.session import VARIABLE
from sightline.record.nvml.library import Unavailable
from sightline.record.nvml.summary import describe_unread
from sightline.record.sampling.events import HZ, STACK_BYTES
from sightline.record.sampling.sampler import StackSampler

SITE = Path(__file__).resolve().parents[1] / "inline" / "site"
_NAMES_FUNCTIONS = "PYTHONPERFSUPPORT"  # docs.python.org/3/howto/perf_profiling.html
_CLOCK_FILE = ".clock"  # where a host of the job answers; removed when the recording ends


@dataclass
class Recording:
    """What is being recorded, and what has been noted of it."""

    plan: Plan
    folder: Path  # as the program, its other hosts and what wraps it see it
    ranks: tuple[int, ...] = ()
    every: int = 1
    timeout_s: float | None = None
    mark: str = field(default_factory=make_host_mark)
    notes: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, int] = field(default_factory=dict)
    shifts: dict[str, int] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # more for the program's environment
    mpi_recorder: Path | None = None  # as it was built for this recording
    keep_identity: bool = False  # whole command lines, with whatever is in them
    say: Callable[[str], None] = lambda _: None  # what a person is told meanwhile
    # The program has ended, and how long its profilers were writing then, ns.
    on_end: Callable[[Ended, int], None] = lambda _, __: None
    held: Path | None = None  # the folder as this process writes to it (foreign_files.hold_folder)

    def note(
        self, kind: str, text: str, severity: str = "warning", remedy: str | None = None
    ) -> None:
        """Something that the report is to say."""
        self.notes.append({"kind": kind, "severity": severity, "text": text, "remedy": remedy})

    @property
    def place(self) -> Path:
        """The folder, for what sightline itself writes."""
        return self.held or self.folder

    @property
    def name(self) -> str:
        """The stem of this recording's own file in the folder."""
        return f"{self.mark}-{os.getpid()}"

    @property
    def names_functions(self) -> bool:
        """Whether the program's Python is to tell the names of its functions, for stacks."""
        is_sampled = self.plan.cpu_tool == "perf_event" and "cpu" in self.plan.backends
        return is_sampled and is_python(self.plan.command) and _NAMES_FUNCTIONS not in os.environ

    @property
    def session(self) -> str:
        """The name of its session of LTTng."""
        return f"sightline-{self.name}"


def environment(recording: Recording, base: Mapping[str, str], address: Any) -> dict[str, str]:
    """The program's environment: as it is, with the plan and the path of the hook."""
    told: dict[str, Any] = {"folder": str(recording.folder)}
    if recording.ranks:
        told["ranks"] = recording.ranks
    if recording.every > 1:
        told["every"] = recording.every
    if recording.plan.torch is not None:
        told["torch"] = {k: v for k, v in recording.plan.torch.items() if v not in (None, False)}
    if recording.plan.jax is not None:
        kept = ("steps", "after_s", "seconds", "stacks")
        told["jax"] = {k: v for k in kept if (v := recording.plan.jax.get(k)) not in (None, False)}
    for tool in ("ncu", "nsys"):
        if tool in recording.plan.backends:
            told["nvtx"] = tool
    if recording.plan.cpu_tool == "py-spy" and "cpu" in recording.plan.backends:
        told["traced"] = True
    if recording.plan.options.get("oom_snapshot"):
        told["oom_snapshot"] = True
    if address is not None:
        told["clock"] = address
    own: dict[str, str] = {}
    if "cupti" in recording.plan.backends:
        who = {"folder": recording.folder, "mark": recording.mark}
        who |= {"ranks": recording.ranks, "every": recording.every}
        chosen = {**recording.plan.options, "question": recording.plan.question}
        own = cupti.make_variables(who, chosen, base)
    if recording.mpi_recorder is not None:
        who = {"folder": recording.folder, "mark": recording.mark}
        who |= {"ranks": recording.ranks, "every": recording.every}
        own |= mpi_calls.make_variables(recording.mpi_recorder, who, base)
    if recording.names_functions:
        own[_NAMES_FUNCTIONS] = "1"  # Python before 3.12 does not know it
    path = os.pathsep.join([str(SITE), *filter(None, [base.get("PYTHONPATH")])])
    return {
        **base,
        **recording.variables,
        **own,
        VARIABLE: json.dumps(told, separators=(",", ":")),
        "PYTHONPATH": path,
    }


def record_program(recording: Recording) -> Ended:
    """Run the program and record it; how it ended. The folder exists and is writable."""
    plan, folder = recording.plan, recording.place
    machine, devices = conditions.read_host(), conditions.list_gpus()
    lock, changed = _lock_clocks(recording)
    recording.notes += conditions.list_notes(machine, devices, changed)
    recording.facts = {
        "sightline": sys.modules["sightline"].__version__,
        "command": list(plan.command) if recording.keep_identity else show_command(plan.command),
        "question": plan.question,
        "backends": plan.backends,
        "host_mark": recording.mark,
        "machine": machine,
        "gpus": devices,
        "environment": conditions.read_environment(),
        "changed": changed,
        "state": "running",
    }
    server, address = _clock(recording)
    _build_mpi_recorder(recording)
    _write(recording)
    words = commands.wrap_command(
        plan.command,
        plan.backends,
        recording.folder,
        f"host-{recording.mark}.{os.getpid()}",
        list_options(recording),
    )
    began = time.monotonic_ns()
    child = Child(words, environment(recording, os.environ, address))
    perf, gpus = _before(recording, child)
    eus = _start_iaprof(recording, child)
    stacks = _start_stacks(recording, child)
    system = _trace_system(recording, child)
    recording.costs["before_ns"] = time.monotonic_ns() - began
    child.open_gate()
    spies = _after_start(recording, child)
    sleeps = SleepSampler(folder, recording.mark) if is_python(plan.command) else None
    watch = EndingWatch(folder, recording.mark, recording.say)
    try:
        lttng = system[1]
        on_signal = {} if lttng is None else lttng.on_signal
        ended = child.wait(recording.timeout_s, lambda: _timed_out(recording), on_signal)
        began = time.monotonic_ns()
    finally:
        writing = watch.stop()
        if lock is not None:
            lock.stop()
        with Doing(recording.say, "tools that watched the system end"):
            _stop_system(recording, *system)
        if sleeps is not None:
            sleeps.stop()
    if ended.started:
        recording.on_end(ended, writing)
    with Doing(recording.say, "samples of stacks are written"):
        _stop(recording, (perf, *spies, stacks), gpus)
    problem = None if eus is None else eus.stop()
    if problem is not None:
        recording.note("iaprof", problem)
    if stacks is not None and recording.names_functions:
        finishing.remove_maps(stacks.list_maps())
    if recording.mpi_recorder is not None:
        recording.mpi_recorder.unlink(missing_ok=True)
    if server is not None:
        server.close()
        (folder / _CLOCK_FILE).unlink(missing_ok=True)
    large = finishing.measure_large(folder, recording.mark)
    with Doing(recording.say, "traces are compressed", lambda: (large.measure_done(), large.bytes)):
        finishing.finish_files(folder, recording.mark, child.pid)
    if plan.torch is not None and not any(folder.glob("*.torch-0.*")):
        recording.note("torch_absent", _torch_absent(recording), "info")
    if recording.mpi_recorder is not None and not any(folder.glob(f"*-{recording.mark}-*.mpi")):
        text = (
            "MPI's calls were not recorded: no rank on this host used MPI from C, C++ or mpi4py, "
            "or the launcher did not hand LD_PRELOAD on"
        )
        remedy = "Name the variables to Open MPI's launcher:  mpirun -x LD_PRELOAD ..."
        recording.note("mpi_absent", text, "info", remedy)
    if "cupti" in plan.backends and not any(folder.glob("*.cupti*")):
        text = "CUPTI recorded nothing: no recorded process used CUDA"
        recording.note("cupti_absent", text, "info")
    recording.costs["after_ns"] = time.monotonic_ns() - began
    recording.facts.update(state="ended", exit_code=ended.code, wall_ns=ended.wall_ns)
    if ended.signal is not None and not ended.timed_out:
        recording.note("program_killed", f"the program was ended by signal {ended.signal}")
    _say_costs(recording)
    _write(recording)
    return ended


def _build_mpi_recorder(recording: Recording) -> None:
    """Build what the ranks preload, where MPI's calls are to be recorded."""
    mpicc = find_program("mpicc") if "mpi" in recording.plan.backends else None
    if mpicc is None:
        return
    target = recording.folder / f".mpi-{recording.name}.so"
    problem = mpi_calls.build_recorder(mpicc, target)
    if problem is None:
        recording.mpi_recorder = target
    else:
        recording.note("mpi_absent", f"MPI's calls were not recorded: {problem}")


def _torch_absent(recording: Recording) -> str:
    """Why there is no trace, as far as it is known from outside."""
    chosen = ""
    if recording.ranks:
        chosen = f" (chosen: --ranks {','.join(map(str, recording.ranks))})"
    elif recording.every > 1:
        chosen = f" (chosen: --every {recording.every})"
    return (
        f"PyTorch was not recorded: no recorded process{chosen} imported it, or none reached its "
        "schedule"
    )


def _lock_clocks(recording: Recording) -> tuple[ClockLock | None, list[str]]:
    """Lock the clocks where that is asked for; what was changed. ncu does it by itself."""
    plan = recording.plan
    if not plan.options.get("lock_clocks"):
        return None, []
    if "ncu" in plan.backends:
        return None, ["clocks locked to base by ncu"]
    try:
        lock = ClockLock()
    except Unavailable as error:
        recording.note("clocks", f"the GPUs' clocks were not locked: {error}", remedy=BY_HAND)
        return None, []
    return lock, [f"{', '.join(lock.names)} locked to their base clocks while it ran"]


def list_options(recording: Recording) -> dict[str, Any]:
    """What a backend's command line is made of."""
    plan = recording.plan
    return {
        "ranks": recording.ranks,
        "every": recording.every,
        **plan.options,
        "question": plan.question,
        "mpi": any(Path(w).name in ("mpirun", "mpiexec", "srun") for w in plan.command),
    }


def _write(recording: Recording) -> None:
    """Put down what is known so far. A full disk must not stop the program."""
    document = {
        **recording.facts,
        "notes": recording.notes,
        "costs": recording.costs,
        "shifts_ns": recording.shifts,
    }
    try:
        run_folder.write_facts(recording.place, recording.name, document)
    except OSError as error:
        recording.note("disk", f"the run's metadata could not be written: {error.strerror}")


def _before(recording: Recording, child: Child) -> tuple[Perf | None, Gpus | None]:
    """Start what must be ready before the program is."""
    plan, folder, perf, gpus = recording.plan, recording.place, None, None
    if "cpu" in plan.backends and plan.cpu_tool == "perf" and "nsys" not in plan.backends:
        perf = _start_perf(recording, child, "cpu", child.pid)
    if "nvml" in plan.backends:
        try:
            gpus = Gpus(folder / f"host-{recording.mark}.{child.pid}.nvml")
        except (Unavailable, OSError) as error:
            recording.note("nvml", f"the GPUs were not sampled: {error}")
    return perf, gpus


def _start_iaprof(recording: Recording, child: Child) -> Iaprof | None:
    if "iaprof" not in recording.plan.backends:
        return None
    try:
        eus = Iaprof(recording.place / f"host-{recording.mark}.{child.pid}.iaprof")
    except OSError as error:
        recording.note("iaprof", f"iaprof could not be started: {error.strerror}")
        return None
    child.watchers.add(eus.pid)
    return eus


def _start_perf(recording: Recording, child: Child, what: str, pid: int | None) -> Perf | None:
    """perf of a process, or (`pid` None) of the whole system; None where it did not start."""
    perf = None
    data = recording.place / f"host-{recording.mark}.{child.pid}.{what}.perf.data"
    try:
        perf = Perf(pid, data, data.with_suffix(".log"))
        child.watchers.add(perf.pid)
        if not perf.ready:
            recording.note("perf", f"perf was not ready in time; part of {what} may be missing")
    except OSError as error:
        recording.note("perf", f"perf could not be started: {error.strerror}")
    # perf writes monotonic times; the run's clock is the wall clock.
    shift = time.time_ns() - time.monotonic_ns()
    for name in (data.name, data.name.removesuffix(".data") + ".txt"):
        recording.shifts[name] = shift
    _write(recording)  # also for whoever reads the samples of a recording that was killed
    return perf


def _start_stacks(recording: Recording, child: Child) -> StackSampler | None:
    """Sample the program's stacks from its first instruction on; None where that is not to be."""
    plan = recording.plan
    if plan.cpu_tool != "perf_event" or "cpu" not in plan.backends or "nsys" in plan.backends:
        return None
    path = recording.place / f"host-{recording.mark}.{child.pid}.cpu{stack_file.SUFFIX}"
    size = plan.options.get("cpu_stack_bytes")
    stacks = None
    try:
        stacks = StackSampler(
            path,
            plan.options.get("cpu_rate") or HZ,
            stack_bytes=STACK_BYTES if size is None else size,
            on_exec=True,
        )
        stacks.attach([child.pid])
    except (OSError, RequestError) as error:
        if stacks is not None:
            stacks.stop()
        why = error.why if isinstance(error, RequestError) else error.strerror
        recording.note("cpu_samples", f"CPU stacks could not be sampled: {why}")
        return None
    stacks.start()
    return stacks


def _trace_system(recording: Recording, child: Child) -> tuple[Perf | None, Lttng | None]:
    """Start what traces the whole system, before the program starts."""
    plan, perf, lttng = recording.plan, None, None
    stem = recording.place / f"host-{recording.mark}.{child.pid}"
    if "sched" in plan.backends:
        perf = _start_perf(recording, child, "sched", None)
    if "lttng" in plan.backends:
        options = {
            k: plan.options[k]
            for k in ("snapshot", "snapshot_on", "rotate", "events")
            if plan.options.get(k)
        }
        try:
            lttng = Lttng(stem.with_name(f"{stem.name}.lttng"), recording.session, **options)
            if lttng.pid is not None:
                child.watchers.add(lttng.pid)
        except OSError as error:
            recording.note("lttng", f"LTTng could not be started: {error}")
    return perf, lttng


def _stop_system(recording: Recording, perf: Perf | None, lttng: Lttng | None) -> None:
    if lttng is not None:
        lttng.stop(keep_identity=recording.keep_identity)
        for text in lttng.notes:
            recording.note("lttng", text)
    problem = perf.stop() if perf is not None else None
    if problem is not None:
        recording.note("sched", problem)


def _after_start(recording: Recording, child: Child) -> tuple[PySpy, ...]:
    """What samples Python from outside: threads that run, and all threads."""
    if "cpu" not in recording.plan.backends or recording.plan.cpu_tool != "py-spy":
        return ()
    if "nsys" in recording.plan.backends:
        return ()
    name = recording.place / f"host-{recording.mark}.{child.pid}"
    return tuple(
        PySpy(
            child.pid,
            name.with_name(f"{name.name}.{kind}.speedscope.json"),
            name.with_name(f"{name.name}.{kind}.log"),
            child.watchers,
            recording.keep_identity,
            idle=kind == "wall",
        )
        for kind in ("cpu", "wall")
    )


def _stop(
    recording: Recording,
    watchers: tuple[Perf | PySpy | StackSampler | None, ...],
    gpus: Gpus | None,
) -> None:
    for watcher in watchers:
        problem = watcher.stop() if watcher is not None else None
        if problem is not None:
            recording.note("cpu_samples", problem)
    if gpus is not None:
        cost, devices = gpus.stop()
        recording.costs["nvml_ns"] = cost
        recording.facts["gpu_summary"] = devices
        for severity, text in describe_unread(devices):
            recording.note("gpu_not_read", text, severity)


def _timed_out(recording: Recording) -> None:
    recording.note(
        "timed_out", f"the program was ended after {recording.timeout_s:g} s (--timeout)"
    )


def _say_costs(recording: Recording) -> None:
    before, after = recording.costs["before_ns"], recording.costs["after_ns"]
    text = f"before the program {format_ns(before)}, after it {format_ns(after)}"
    if "nvml_ns" in recording.costs:
        text += f"; reading NVML {format_ns(recording.costs['nvml_ns'])} on a thread of sightline"
    recording.note("overhead_outside", f"recording cost outside the program: {text}", "info")


def _clock(recording: Recording) -> tuple[clock.Server | None, Any]:
    """The clock that hosts compare theirs with: the first one serves it, the others ask."""
    place = recording.place / _CLOCK_FILE
    try:
        known = json.loads(place.read_text())
    except (OSError, ValueError):
        known = None
    if known is not None:
        if known[3] != recording.mark:
            try:
                offset, bound = clock.measure(known[0], known[1], bytes.fromhex(known[2]))
                recording.facts["clock"] = {
                    "clock_offset_ns": offset,
                    "clock_uncertainty_ns": bound,
                }
            except OSError as error:
                recording.note("clock_failed", f"the hosts' clocks could not be compared: {error}")
        return None, known
    if not is_on_several_hosts(recording.plan.command, os.environ):
        return None, None
    token = secrets.token_bytes(clock.TOKEN_BYTES)
    try:
        server = clock.Server(token)
        address = [clock.find_own_address(), server.port, token.hex(), recording.mark]
        place.touch(0o600)
        place.write_text(json.dumps(address))
    except OSError as error:
        recording.note("clock_failed", f"the hosts' clocks cannot be compared: {error}")
        return None, None
    return server, address
