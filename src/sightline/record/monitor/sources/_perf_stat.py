"""Counters of processors by `perf stat`, which knows each processor's events by their names.

Which instructions are how many operations: likwid's groups FLOPS_DP, FLOPS_SP and MEM (5.2.2:
skylakeX, ICX, zen, zen2, zen3). Names are perf's own (tools/perf/pmu-events of Linux) and the
kernel's (uncore_imc, amd_df). A line is, by perf-stat(1), CSV FORMAT:
time;CPU;value;unit;event;time that it ran;share of the time
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sightline.core.text import clean_text

_PATIENCE_S = 10.0
_UNSUPPORTED = "<not supported>"
_UNKNOWN = "perf knows no"
_LINE_BYTES = 64  # of a transfer between a memory controller and its memory
_UNITS = {"": 1.0, "MiB": 1024.0**2}  # uncore_imc: the kernel's scale is of MiB


class Count(NamedTuple):
    """A metric, its events, and how much of it one of each is. `dp` and `sp` make `any`."""

    metric: str
    events: tuple[tuple[str, float], ...]


DOUBLE, SINGLE = "FLOP rate, double precision", "FLOP rate, single precision"
ANY, MEMORY = "FLOP rate", "memory bandwidth"
INSTRUCTIONS, CYCLES = "instructions", "cycles"
_INTEL = "fp_arith_inst_retired"
# The first of each metric that perf knows on this processor counts.
CHOICES: tuple[Count, ...] = (
    Count(DOUBLE, (
        (f"{_INTEL}.scalar_double", 1), (f"{_INTEL}.128b_packed_double", 2),
        (f"{_INTEL}.256b_packed_double", 4), (f"{_INTEL}.512b_packed_double", 8),
    )),
    Count(DOUBLE, (  # before AVX-512
        (f"{_INTEL}.scalar_double", 1), (f"{_INTEL}.128b_packed_double", 2),
        (f"{_INTEL}.256b_packed_double", 4),
    )),
    Count(SINGLE, (
        (f"{_INTEL}.scalar_single", 1), (f"{_INTEL}.128b_packed_single", 4),
        (f"{_INTEL}.256b_packed_single", 8), (f"{_INTEL}.512b_packed_single", 16),
    )),
    Count(SINGLE, (
        (f"{_INTEL}.scalar_single", 1), (f"{_INTEL}.128b_packed_single", 4),
        (f"{_INTEL}.256b_packed_single", 8),
    )),
    Count(ANY, (("fp_ret_sse_avx_ops.all", 1),)),  # Zen: of any precision
    Count(MEMORY, (("uncore_imc/cas_count_read/", 64), ("uncore_imc/cas_count_write/", 64))),
    Count(MEMORY, (("umc_cas_cmd.rd", 64), ("umc_cas_cmd.wr", 64))),  # Zen 4 and later
    Count(MEMORY, tuple(  # Zen 1 to 3, in NPS1 mode: zen3/MEM1.txt
        (f"dram_channel_data_controller_{n}", _LINE_BYTES) for n in range(8)
    )),
    Count(INSTRUCTIONS, ((INSTRUCTIONS, 1),)),
    Count(CYCLES, ((CYCLES, 1),)),
)  # fmt: skip
METRICS = (ANY, DOUBLE, SINGLE, MEMORY, "instructions per cycle")
Ask = Callable[[str], str]


@dataclass(frozen=True)
class Plan:
    """What is counted, and why the rest is not, by metric."""

    counts: tuple[Count, ...]
    missing: dict[str, str]


def ask_event(event: str) -> str:
    """Why an event is not counted on all processors here; empty where it is."""
    program = shutil.which("perf")
    if program is None:
        return "perf is not on the PATH (Debian: linux-perf; Ubuntu: linux-tools-generic)"
    command = [program, "stat", "-a", "-x", ";", "-e", event, "--", "true"]
    try:
        done = subprocess.run(  # noqa: S603  # fixed arguments, no shell
            command, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"perf does not answer: {error}"
    said = done.stderr.decode(errors="replace")
    return explain(event, said, failed=done.returncode != 0)


def explain(event: str, said: str, *, failed: bool) -> str:
    """What perf's words about an event mean; empty where it counts it."""
    if "perf_event_paranoid" in said:
        return (
            "the kernel does not let this user count events of all processors: run as root or "
            "with CAP_PERFMON, or set sysctl kernel.perf_event_paranoid=0"
        )
    if "event syntax error" in said or "Cannot find PMU" in said:
        return f"{_UNKNOWN} {event} on this processor"
    if _UNSUPPORTED in said:
        return f"this machine does not count {event}: virtual machines mostly have no counters"
    if failed:
        lines = [line.strip() for line in said.splitlines() if line.strip()]
        return f"perf fails: {clean_text(lines[0])[:200] if lines else 'it said nothing'}"
    return ""


def plan_counts(ask: Ask = ask_event) -> Plan:
    """The first choice of each metric that works; of others what was said of the last one."""
    told: dict[str, str] = {}
    found: dict[str, Count] = {}
    why: dict[str, str] = {}
    for choice in CHOICES:
        if choice.metric in found:
            continue
        reasons = []
        for event, _ in choice.events:
            if event not in told:
                told[event] = ask(event)
            if told[event]:
                reasons.append(told[event])
                break
        if reasons:
            why[choice.metric] = reasons[0]
        else:
            found[choice.metric] = choice
    missing = {name: why[name] for name in (DOUBLE, SINGLE, MEMORY) if name not in found}
    if ANY in found:  # Zen tells precisions apart by no event that is retired
        missing |= dict.fromkeys(
            set(missing) & {DOUBLE, SINGLE}, "this processor counts both precisions together"
        )
    elif not {DOUBLE, SINGLE} <= found.keys():
        # Where perf knows one of the events, what it says of that one tells more.
        reasons = sorted(why.values(), key=lambda text: text.startswith(_UNKNOWN))
        missing[ANY] = next(text for text in reasons if text in (why[ANY], *missing.values()))
    if not {INSTRUCTIONS, CYCLES} <= found.keys():
        missing["instructions per cycle"] = why.get(CYCLES) or why[INSTRUCTIONS]
    return Plan(tuple(found.values()), missing)


class Reading(NamedTuple):
    """One line: seconds since perf began, the processor, the event, how often; NaN: unknown."""

    end_s: float
    cpu: int
    event: str
    value: float


def read_line(line: str) -> Reading | None:
    """A line of perf's; None of one that is something else."""
    cells = line.strip().split(";")
    if len(cells) < 5 or re.fullmatch(r"CPU[0-9]{1,5}", cells[1]) is None:
        return None
    scale = _UNITS.get(cells[3])
    try:
        end = float(cells[0])
        value = math.nan if cells[2].startswith("<") else float(cells[2])
    except ValueError:
        return None
    if scale is None or not 0 <= end < 1e12 or not (math.isnan(value) or 0 <= value < 1e30):
        return None
    # With the kernel's scale a value is of bytes already, and no longer of transfers.
    value *= scale / _LINE_BYTES if cells[3] else 1.0
    return Reading(end, int(cells[1][3:]), cells[4], value)


def sum_rates(plan: Plan, lines: Iterable[Reading], length_s: float) -> dict[int, dict[str, float]]:
    """Values by metric of each processor that has its events; NaN where one was not counted."""
    held: dict[tuple[int, str], float] = {}
    for one in lines:
        key = one.cpu, one.event
        held[key] = held.get(key, 0.0) + one.value
    found: dict[int, dict[str, float]] = {}
    for cpu in sorted({cpu for cpu, _ in held}):
        values = found.setdefault(cpu, {})
        for count in plan.counts:
            terms = [held[cpu, e] * weight for e, weight in count.events if (cpu, e) in held]
            if len(terms) == len(count.events):
                values[count.metric] = sum(terms) / length_s
        if ANY not in values and {DOUBLE, SINGLE} <= values.keys():
            values[ANY] = values[DOUBLE] + values[SINGLE]
    return found


def read_sockets(root: Path) -> dict[int, int]:
    """The socket of each processor, by sysfs (ABI/stable/sysfs-devices-system-cpu of Linux)."""
    found = {}
    for path in (root / "devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id"):
        try:
            found[int(path.parent.parent.name[3:])] = max(0, int(path.read_text()))
        except (OSError, ValueError):
            continue
    return found


def write_command(plan: Plan, period_ms: int) -> Sequence[str]:
    """The command that counts on all processors until it is ended."""
    events = dict.fromkeys(event for count in plan.counts for event, _ in count.events)
    asked = [word for event in events for word in ("-e", event)]
    return ["perf", "stat", "-a", "-A", "-x", ";", "-I", str(period_ms), *asked]
