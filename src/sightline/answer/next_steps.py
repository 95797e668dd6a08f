"""What is known of a program, as a checklist of eleven, and what is worth recording next.

The list is that of a profiling guide ("Hardware-Level Profiling and Tracing", Checklist): timeline,
counters of hot kernels, speed of light, roofline, stalls, markers, communication of all ranks,
intermediate states, memory over time, the order of events, a trace for other viewers. What comes
next follows the largest part of the time that the recordings do not explain: no timeline first,
then the ranks that are missing behind exposed communication, the code behind idle time, the
counters behind computing time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.run import Run
from sightline.diagnosis.build import NOTABLE_PCT
from sightline.errors import MissingDataError
from sightline.timeline.communication_names import PATTERN

DONE, OPEN, NOT_NEEDED = "done", "open", "not needed"
_PROGRAM = "COMMAND"
_LAUNCHES = 5  # of one kernel: ncu replays each some forty times for its full set


@dataclass(frozen=True)
class Check:
    """One point of the list: its state, why, and the command line that does it."""

    name: str
    title: str
    state: str
    why: str
    command: str = ""


@dataclass(frozen=True)
class Known:
    """What recordings hold. Shares are % of all devices' windows, zero where nothing ran."""

    on_gpu: bool
    timeline: bool
    idle: float
    compute: float
    communication: float
    ranks: int
    world: int
    collectives: bool
    stacks: bool
    markers: bool
    counters: bool
    stalls: bool
    states: bool
    memory: bool
    system: bool
    kernel: str | None
    vendor: str | None


def examine(run: Run) -> Known:
    """Look at tables and at the breakdown; nothing is computed twice."""
    host = run.table("host_ops", ["layer", "name"]) if run.rows("host_ops") else None
    layers = set() if host is None else set(host.get_column("layer").unique())
    names = pl.Series([], dtype=pl.String) if host is None else host.get_column("name")
    recordings = run.table("recordings")
    world = recordings.get_column("world_size").drop_nulls().max() or 0
    idle, compute, communication = _measure_shares(run)
    on_gpu = run.rows("device_ops") > 0
    calls = layers & {"op", "runtime", "driver", "annotation", "library", "mpi", "python", "other"}
    vendors = run.table("devices", ["vendor"]).get_column("vendor").drop_nulls()
    return Known(
        on_gpu=on_gpu,
        timeline=bool(calls) if on_gpu else "op" in layers,
        idle=idle,
        compute=compute,
        communication=communication,
        ranks=run.table("recordings", ["rank"]).get_column("rank").n_unique(),
        world=int(world),  # type: ignore[arg-type]
        collectives=run.rows("collectives") > 0 or communication > 0,
        # Backtraces of the operating system's calls tell where a thread slept, and not what it ran.
        stacks="python" in layers or run.rows("cpu_samples") > 0,
        markers=bool(layers & {"annotation", "step"}),
        counters=run.rows("profiled_kernels") > 0,
        stalls=run.rows("pc_samples") > 0,
        states=bool(names.str.starts_with("sightline.checkpoint").any()),
        memory=run.rows("memory_events") > 0,
        system=run.rows("sched_events") > 0,
        kernel=_find_kernel(run) if on_gpu else None,
        vendor=vendors[0] if vendors.len() else None,
    )


def _measure_shares(run: Run) -> tuple[float, float, float]:
    """Idle, computing and exposed communication, % of all windows."""
    try:
        table = run.ask("breakdown")
    except MissingDataError:
        return 0.0, 0.0, 0.0
    whole = sum_column(table, "window_ns") or 1
    parts = ("idle_ns", "compute_ns", "exposed_comm_ns")
    idle, compute, communication = (100 * sum_column(table, part) / whole for part in parts)
    return idle, compute, communication


def _find_kernel(run: Run) -> str | None:
    """The kernel that computes most of the time, as it is recorded."""
    try:
        table = run.ask("kernels")
    except MissingDataError:
        return None
    # A graph that was recorded whole is no kernel's name, and what communicates waits for others.
    left_out = f"^(?:CUDA|HIP) graph|{PATTERN}"
    longest = table.filter(~pl.col("name").str.contains(left_out)).sort("total_ns", descending=True)
    return longest.item(0, "name") if longest.height else None


def list_checks(run: Run) -> list[Check]:
    """The eleven, what is worth doing next first, then what else is open, then what is done."""
    known = examine(run)
    checks = list(_judge(known))
    order = list(dict.fromkeys(_rank(known)))
    first = {name: place for place, name in enumerate(order)}

    def place(check: Check) -> tuple[bool, int, int]:
        at = first.get(check.name, len(order))
        return check.state != OPEN, check.state == NOT_NEEDED, at

    return sorted(checks, key=place)


def _rank(known: Known) -> Iterator[str]:
    """Open points in the order of what they would explain."""
    if not known.timeline:
        yield "timeline"
    parts = {
        "communication": known.communication,
        "host": known.idle if known.on_gpu else 100.0,
        "kernels": known.compute,
    }
    for part in sorted(parts, key=lambda name: -parts[name]):
        if parts[part] < NOTABLE_PCT:
            continue
        if part == "communication":
            yield "ranks"
        elif part == "host":
            yield from ("stacks", "markers")
        else:
            yield from ("kernels", "stalls")
    yield from ("memory", "markers", "stacks", "kernels", "stalls", "ranks", "states")


def _judge(known: Known) -> Iterator[Check]:
    run = "sightline run"
    yield _check(
        "timeline",
        "Timeline of host and GPU",
        known.timeline,
        "what ran when, and what waited" if known.on_gpu or known.timeline else "no timeline yet",
        f"{run} -- {_PROGRAM}",
    )
    hot = None if known.kernel is None else shorten_kernel_name(known.kernel)
    why = "no kernel is known yet" if hot is None else f"{known.compute:.0f} % computing; {hot}"
    of_kernel = _profile_kernel(known)
    needed = known.on_gpu or known.counters
    for name, title in (
        ("kernels", "Counters of the hot kernels"),
        ("speed of light", "Speed of light: compute or memory"),
        ("roofline", "Place under the roofline"),
    ):
        command = of_kernel if name == "kernels" else f"sightline {_ASKED[name]} RECORDING"
        command = command if known.counters or name == "kernels" else of_kernel
        yield _check(name, title, known.counters, why, command, needed=needed)
    yield _check(
        "stalls",
        "Where warps wait, by instruction",
        known.stalls,
        why,
        f"{run} --for stalls -- {_PROGRAM}",
        needed=needed,
    )
    yield _check(
        "markers",
        "Steps and regions marked in the code",
        known.markers,
        "reports costs by step and region",
        f"# sl.step() in the loop, with sl.annotate('forward'):   then  {run} -- {_PROGRAM}",
    )
    yield _check(
        "stacks",
        "The code behind the host's time",
        known.stacks,
        f"the GPU is idle for {known.idle:.0f} % of the time"
        if known.on_gpu
        else "which code calls the operators",
        f"{run} --stacks -- {_PROGRAM}",
    )
    several = known.world > 1 or known.ranks > 1 or known.collectives
    world = f" of {known.world}" if known.world else ""
    yield _check(
        "ranks",
        "Communication of all ranks",
        known.ranks > 1 and known.ranks >= known.world,
        f"{known.communication:.0f} % exposed communication, {known.ranks} rank{world} recorded",
        f"{run} -- torchrun --nproc-per-node {max(known.world, 2)} {_PROGRAM}",
        needed=several,
    )
    yield _check(
        "states",
        "Intermediate states",
        known.states,
        "memory and shapes at points of the program",
        f"# sl.checkpoint('after forward', shapes=batch)   then  {run} -- {_PROGRAM}",
    )
    yield _check(
        "memory",
        "Memory over time",
        known.memory,
        "what is allocated, by which line",
        f"{run} --for memory -- {_PROGRAM}",
    )
    yield _check(
        "events", "Order of events, as text", known.timeline, "", "sightline events RECORDING"
    )


_ASKED = {"speed of light": "stats speed_of_light", "roofline": "roofline"}


def _check(
    name: str, title: str, done: bool, why: str, command: str, *, needed: bool = True
) -> Check:
    state = DONE if done else OPEN if needed else NOT_NEEDED
    return Check(name, title, state, why, command)


def _profile_kernel(known: Known) -> str:
    """The command line for counters of the hottest kernel."""
    base = "" if known.kernel is None else _name_function(known.kernel)
    if known.vendor == "amd":
        chosen = f" -k {shlex.quote(base)}" if base else ""
        return f"rocprof-compute profile --name hot{chosen} -- {_PROGRAM}"
    chosen = f" --kernel {shlex.quote(re.escape(base))}" if base else ""
    return f"sightline run --for kernels{chosen} --launch-count {_LAUNCHES} -- {_PROGRAM}"


def _name_function(kernel: str) -> str:
    """The name of a kernel's function without types, namespaces and parameters, as ncu matches."""
    text = re.sub(r"^void ", "", kernel.strip())
    end = min((at for at in (text.find("<", 1), text.find("(", 1)) if at > 0), default=len(text))
    name = text[:end].split("::")[-1].split()[-1:] or [""]
    return name[0]
