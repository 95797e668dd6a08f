"""The device has nothing to do, for a reason that no other rule covers.

Symptom
    Gaps on the device's timeline in which no kernel and no copy runs.

Why it hurts
    Idle time is paid for and does nothing; it is often the cheapest time to win back.

Evidence
    Idle time by cause (`sightline stats idle`): each gap is traced to why the operation that
    ends it did not start earlier (`sightline stats idle_gaps`).

Threshold
    A cause that takes over 5 % of the window, where idle is over 15 % of it in all (TraceLens
    agent, 2026-08: idle flagged above 15 %). Of an unknown cause it is a remark without a gain.

Fix
    By cause. Idle time of unknown cause before the kernels begin to repeat (ten iterations or more,
    `sightline stats iterations`) is start-up: look at --window steady. Loading, synchronization,
    allocation, late and slow launches have rules of their own (`sightline stats idle_rules` says
    which rule speaks for each gap).

False positives
    A window that holds warm-up, checkpoints or evaluation; choose one with --window.

References
    TraceLens analysis agent (AMD-AGI/TraceLens, 2026-08).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.text import capitalize
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, Loss, make_finding
from sightline.diagnosis.gaps import Claim, are_the_profilers
from sightline.diagnosis.one_offs import ONCE
from sightline.diagnosis.operators import find_main_operator
from sightline.replay.gains import sum_windows
from sightline.timeline import causes
from sightline.timeline.host_ranges import list_host_names
from sightline.timeline.pace import DISPLAYS
from sightline.timeline.page_waits import FAULT_NS, HostPass, find_host_pass

RULE = Rule("gpu-idle", "GPU idle", causes=(causes.OTHER_IDLE,), general=4)

IDLE_PCT = 15.0
_OWN_WORK = "host_pass"  # mostly the host's own work on unified memory
_DRAWING = "drawing"  # not_started, beside calls that hand buffers to OpenGL and its like
# What `sightline stats idle` calls causes that are told apart here.
_WINDOWS = "Windows' driver"  # not_started, where launches are handed over in batches
_AS_RECORDED = {
    "read_back": "unknown", _OWN_WORK: "unknown", _DRAWING: "not_started", _WINDOWS: "not_started"
}  # fmt: skip
_WAITS = r"Synchronize|Memcpy"
# Work that is queued starts within microseconds (launch latencies above): what waits for so long on
# average waits for something that is not in the recording (ours).
UNSEEN_NS = 1_000_000
MANY = 10  # iterations that are a loop, and not a program that did something twice

# cause: what happens, what to change. The causes that are not here have rules of their own.
_ADVICE = {
    "launch_latency": (
        "the GPU is idle during launch latency",
        "queue work earlier: launch before synchronizing, or use CUDA graphs",
    ),
    "dependency_wait": (
        "queued work waits for an event of another stream or device",
        "check which events the stream waits for, and overlap independent work",
    ),
    "in_graph": (
        "the GPU is idle between the nodes of a CUDA graph",
        "capture independent nodes on parallel branches, or fuse small nodes",
    ),
    "micro_gap": (
        "the GPU is idle in many short gaps between queued kernels",
        "fuse small kernels, or capture a graph",
    ),
    "slow_launch": (
        "a launch call takes far longer than usual and leaves the GPU idle",
        "identify the call (sightline stats idle_parts): a first launch, a graph upload or a "
        "staged copy; do it once before the loop, or on another thread",
    ),
    "not_recorded": (
        "launched work waits for something that is not in the recording, or unrecorded work "
        "runs: the GPU may be busy",
        "record what is missing: the nodes of graphs (nsys --cuda-graph-trace=node), from before "
        "the work is launched, with larger buffers where some were lost",
    ),
    "not_started": (
        "launched work does not start, although nothing recorded runs",
        "check for kernels that the profiler lost (record again, shorter or with larger buffers), "
        "another process on the GPU (nvidia-smi), a host callback or a driver lock",
    ),
    _WINDOWS: (
        "launched work waits until Windows hands it to the GPU (WDDM collects launches), although "
        "nothing recorded runs",
        "replay chains of small kernels as a CUDA graph; call cudaStreamQuery(stream) after "
        "launches that must start at once, which submits them; turn on hardware-accelerated GPU "
        "scheduling in Windows, or use a GPU without a display in TCC mode, or Linux",
    ),
    _DRAWING: (
        "launched work waits while the GPU draws, which is not in the recording (buffers are "
        "handed to a graphics library and back in each round)",
        "record the graphics, too (nsys --trace=cuda,opengl,vulkan; Nsight Graphics shows the "
        "frame): draw fewer or simpler things, draw less often than is computed, or on another GPU",
    ),
    "start-up": (
        "the GPU is idle before the kernels begin to repeat",
        "see what it does without its start-up:  --window steady;  to shorten the start-up itself, "
        "record CPU activity, too",
    ),
    "read_back": (
        "the GPU is idle while the host works through unified memory that comes back to it page by "
        "page",
        "bring it back in one piece before the host reads it: cudaMemPrefetchAsync to "
        "cudaCpuDeviceId; what remains is the host's own work on it",
    ),
    _OWN_WORK: (
        "the GPU is idle while the host works through unified memory, which comes back to it page "
        "by page",
        "do that work on the GPU too (a kernel that fills or checks; a reduction whose one result "
        "is read), or on all cores and optimized (-O3)",
    ),
    "unknown": (
        "the GPU is idle, and the recording does not show why",
        "record CPU activity too, from before the work is launched",
    ),
    "left_out": (
        "the GPU runs nothing that is in the file, which holds a selection of the program's "
        "kernels",
        "record the whole program, before idle time is judged",
    ),
}


def check(run: Run) -> Iterator[Finding]:
    """One finding per cause, over all devices."""
    if not run.rows("device_ops") or are_the_profilers(run):
        return
    breakdown = run.ask("breakdown")
    idle_pct = 100 * sum_column(breakdown, "idle_ns") / sum_windows(run)
    if idle_pct <= IDLE_PCT:
        return
    gaps = run.ask("idle_rules").filter(pl.col("rule").is_in(RULE.causes))
    reading = find_host_pass(run)
    if reading is not None:
        gaps = _tell_read_back(gaps, reading)
    gaps = _tell_startup(run, gaps)
    for (cause,), mine in gaps.group_by("cause", maintain_order=True):
        cost = int(mine.get_column("duration_ns").sum())
        pct = 100 * cost / sum_windows(run)
        if pct > NOTABLE_PCT:
            found = _make_finding(run, str(cause), _claim(run, mine, cost, pct))
            yield _tell_pass(found, reading) if reading and cause == _OWN_WORK else found


def _claim(run: Run, gaps: pl.DataFrame, cost: int, pct: float) -> Claim:
    # What was launched waits: it is its launch that says whose it is, and not what the host is in
    # by now.
    return Claim(
        gaps,
        cost,
        pct,
        gaps.clear,
        find_operator=lambda some: find_main_operator(run, some.drop("host_op_id")),
    )


def _tell_startup(run: Run, gaps: pl.DataFrame) -> pl.DataFrame:
    """The gaps; unknown ones that end before a rank's iterations become regular are start-up.

    An iteration may hold what came before the others: the first that is no longer than twice the
    median is where they are regular.
    """
    if not (gaps.get_column("cause") == "unknown").any():
        return gaps
    found = run.ask("iterations")
    usual = 2 * pl.col("duration_ns").median()
    regular = found.filter((pl.len() >= MANY) & (pl.col("duration_ns") <= usual).over("rank"))
    begin = regular.group_by("rank").agg(regular_ns=pl.col("start_ns").min())
    is_startup = (pl.col("cause") == "unknown") & (pl.col("end_ns") <= pl.col("regular_ns"))
    cause = pl.when(is_startup).then(pl.lit("start-up")).otherwise("cause")
    return (
        gaps.join(begin, on="rank", how="left", maintain_order="left")
        .with_columns(cause=cause)
        .drop("regular_ns")
    )


def _tell_read_back(gaps: pl.DataFrame, reading: HostPass) -> pl.DataFrame:
    """The gaps, with a cause of their own where the host reads pages that come back to it."""
    ids = reading.gaps.get_column("after_id").implode()
    is_reading = pl.col("after_id").is_in(ids) & (pl.col("cause") == "unknown")
    cause = _OWN_WORK if reading.is_own_work else "read_back"
    return gaps.with_columns(cause=pl.when(is_reading).then(pl.lit(cause)).otherwise("cause"))


def _tell_pass(found: Finding, reading: HostPass) -> Finding:
    """The finding with what of it is the wait for pages; once where no kernel runs behind it."""
    faults = format_several(reading.faults_ns // FAULT_NS, "page fault")
    line = (
        f"{faults} take at most {format_ns(reading.faults_ns)} of it, and cudaMemPrefetchAsync to "
        "cudaCpuDeviceId beforehand saves no more: the rest is the host's own work"
    )
    last = ["it comes after the last kernel, and happens once"] if reading.is_last else []
    return replace(
        found,
        title="The host works through unified memory",
        evidence=(line, *found.evidence[:1], *last),
        confidence="medium",
        where={**found.where, **({ONCE: "after the last kernel"} if reading.is_last else {})},
    )


def _make_finding(run: Run, cause: str, mine: Claim) -> Finding:
    if cause == "not_started" and 2 * _count_handovers(run) >= mine.gaps.height:
        cause = _DRAWING
    elif cause == "not_started" and _hands_over_in_batches(run):
        cause = _WINDOWS
    happens, fix = _ADVICE["left_out" if cause == "unknown" and _is_selection(run) else cause]
    is_queued = cause in ("not_started", _WINDOWS)
    place = _name_waiting(mine) if is_queued else None
    if place:
        happens, fix = place
    unseen = is_queued and not place and mine.cost_ns >= UNSEEN_NS * mine.gaps.height
    found = make_finding(
        run,
        RULE,
        f"{capitalize(happens)}: {format_pct(mine.pct)} of the window.",
        Loss(cost_ns=mine.cost_ns, bound_ns=mine.worst_ns),
        Evidence(
            [*mine.evidence, *(_tell_neighbors(run, mine.gaps) if cause == "unknown" else ())],
            rows=mine.rows,
            where=mine.where(cause),
            calls=mine.calls,
        ),
        Advice(
            fix=fix,
            verify="sightline report AFTER --window steady"
            if cause == "start-up"
            else f"sightline stats idle AFTER: total_ns of {_AS_RECORDED.get(cause, cause)}",
            sources=("TraceLens agent: idle above 15 %",),
        ),
        title=f"{RULE.title}: {cause.replace('_', ' ')}"
        + (f", in {mine.operator.name}" if mine.operator else ""),
        confidence="low" if cause == "unknown" else "high" if mine.gaps.height >= 5 else "medium",
    )
    # One pause before the loop happens once: no step gains by its end.
    is_once = cause == "start-up" and mine.gaps.height == 1
    quiet = ("unknown", "not_recorded", "read_back", _DRAWING)
    if cause not in quiet and not unseen and not is_once:
        return found
    # What was not recorded may have been cut out of the file: it is no problem of the program, and
    # what its end would gain nobody can say; nor how much of its reading the host only waits. Where
    # queued work waits for long, the GPU is most likely busy with something that is not there.
    return replace(found, severity="info", gain=None, method=None)


def _hands_over_in_batches(run: Run) -> bool:
    """Whether the machine's driver collects launches before the GPU gets them."""
    return bool((run.table("quality").get_column("kind") == "windows_driver").any())


def _count_handovers(run: Run) -> int:
    """How often buffers are handed to a graphics library, or back."""
    return int(list_host_names(run).match(DISPLAYS).sum()) if run.rows("host_ops") else 0


def _tell_neighbors(run: Run, gaps: pl.DataFrame) -> Iterator[str]:
    """Between which operations most of the time lies, where they are the same again and again."""
    names = run.table("device_ops", ["device_op_id", "name"])
    before = names.rename({"device_op_id": "before_id", "name": "before"})
    after = names.rename({"device_op_id": "after_id", "name": "after"})
    placed = gaps.join(before, on="before_id").join(after, on="after_id")
    pairs = placed.group_by("before", "after").agg(pl.len(), ns=pl.col("duration_ns").sum())
    if pairs.is_empty():
        return
    first, then, count, ns = pairs.sort(
        "ns", "before", "after", descending=[True, False, False]
    ).row(0)
    if count >= MANY and 2 * ns >= sum_column(gaps, "duration_ns"):
        yield (
            f"{format_ns(ns)} of it in {format_several(count, 'gap')} between "
            f"{shorten_kernel_name(first)} and {shorten_kernel_name(then)}: the host is working "
            "there, in each round"
        )


def _name_waiting(mine: Claim) -> tuple[str, str] | None:
    """What happens and what to change, where the host waits in one operator for what it launched.

    Each wait pays the way to the device and back again, however long that is on this machine.
    """
    if mine.operator is None or not re.search(_WAITS, mine.host_op or ""):
        return None
    name, calls = mine.operator.name, mine.operator.calls
    return (
        f"work that {name} launched does not start yet, while the host waits for it in "
        f"{mine.host_op} ({format_several(calls, 'call')} of the operator, "
        f"{format_several(mine.gaps.height, 'gap')})",
        (mine.operator.hint or f"call {name} less often, or once before the loop")
        + "; every wait of the host costs a round trip to the GPU",
    )


def _is_selection(run: Run) -> bool:
    """Whether the importer found that most of the program's kernels are not in the file."""
    return (run.table("quality").get_column("kind") == "missing_dispatches").any()
