"""The host is busy with something else, and launches the next work late.

Symptom
    Gaps that end with a launch that came late, while the launches around it come fast enough.

Why it hurts
    The device waits for one thread. What that thread does instead (Python, garbage collection,
    logging, locks, file access) is paid at the price of the device.

Evidence
    Gaps whose launch call began after the device had run dry, with no wait, loader or allocation
    on its thread that explains it; `host_op` names what the thread was doing, or CPU samples that
    fell there do, or the calls before and after. The gain is a replay in which the long pauses
    between calls beside these gaps are as short as the usual one, and so are calls that launch
    nothing.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08). Silent where the device is launch-bound
    (that rule reports it), where a trace of the system shows that the thread had no CPU core or
    slept for I/O or a lock (preempted-launch-thread, cpu-oversubscribed, blocked-on-io,
    futex-contention), or where most of it lies in the first step (first-iteration-included).

Fix
    Move the work to another thread or process or out of the step: logging every n steps, metrics
    on the device, gc.freeze() or gc.disable() around steps, checkpoints asynchronously.

False positives
    Evaluation, checkpoints and profiling code inside the window; the profiler's own cost per
    range, which is highest with Python stacks.

References
    HolisticTraceAnalysis, idle time breakdown (host_wait); PyTorch Performance Tuning Guide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_pct, format_several
from sightline.diagnosis.build import Advice, Evidence, Loss, keep_notable, make_finding
from sightline.diagnosis.gaps import LOOK_PCT, NO_RANGE, Claim, claim_gaps
from sightline.diagnosis.ranking import NARROW
from sightline.replay.replay import shorten_calls, shorten_thinking
from sightline.subjects.idle.rules._loading import (
    LOAD_AHEAD,
    PREPARES_INPUT,
    advise_input,
    find_input,
)
from sightline.subjects.idle.rules._thinking import (
    OWN_CODE,
    describe_thinking,
    find_function,
    find_runtime,
    split_by_function,
    split_by_runtime,
)
from sightline.subjects.idle.rules._variants import Variants, find_variants
from sightline.timeline import causes
from sightline.timeline.host_ranges import (
    list_host_names,
    measure_long_calls,
    measure_long_thinking,
)
from sightline.timeline.idle import list_system_waits
from sightline.timeline.runtimes import Runtime
from sightline.timeline.sleeps import list_states
from sightline.timeline.world import read_world

RULE = Rule(
    "host-late",
    "The host launches late",
    causes=(causes.HOST,),
    explains_lateness=True,
    # What the recorder cost the host is known to a quarter (replay/unrecorded.py): within that,
    # what has a narrower name comes first.
    general=4 / 3,
)

_TITLE_WIDTH = 48
# The C library's and Python's functions that read a line or a character from whoever types it.
_PROMPTS = r"^(?:f?getc(?:har)?|_IO_getc|f?gets|f?scanf|getline|readline)\b|built-in function input"
_ELSE = "does something else."
_ON_ITS_OWN = "The host works on its own between GPU calls"
_MAYBE_AWAY = "computing, or was not scheduled"

_MANAGED = r"^(?:cudaMallocManaged|cuMemAllocManaged|hipMallocManaged)(?:_v\d+)?$"
_KEEP_PAGES = (
    "where it touches managed memory, keep that work on the GPU, or copy what it needs "
    "(cudaMemPrefetchAsync, cudaMemAdvise); nsys profile --cuda-um-cpu-page-faults=true "
    "--cuda-um-gpu-page-faults=true  records the migrations. Else "
)

# What CPython acquires a lock with that has a timeout (Python/thread_pthread.h).
_TIMED_WAIT = r"^(?:sem_(?:timed|clock)wait|pthread_cond_(?:timed|clock)wait)$"
_LEAST_BATCHES = 5  # fewer are not loops (ours)
_HANDS_OVER = (
    "a copy to the GPU follows each wait: the loader's thread that pins memory hands over a batch"
)

# Allocations in stream order, from a pool.
_POOLED = (
    r"^(?:cudaMallocAsync|cudaMallocFromPoolAsync|cuMemAlloc(?:FromPool)?Async|hipMallocAsync)"
)
_KEEP_POOL = (
    "let the pool keep its memory: at each synchronization it returns free memory to the driver, "
    "unless its cudaMemPoolAttrReleaseThreshold is raised (cudaMemPoolSetAttribute); or "
    "allocate once before the loop"
)

_CALL = re.compile(r"^(?:cuda|cu|hip|nvml|nccl|ze)[A-Z]\w*$")  # one call of a library


def check(run: Run) -> Iterator[Finding]:
    """What one range or function of the host holds up, if it is most of it, and the rest."""
    every = claim_gaps(run, RULE, least_pct=LOOK_PCT)
    if every is None:
        return
    if every.host_op is None:
        for some, runtime in split_by_runtime(run, every):
            for each in [some] if runtime else split_by_function(run, some):
                if each.cost_ns:
                    holds = runtime if each is some else find_runtime(run, each)
                    yield from _describe(run, each, holds)
        return
    held = every.is_in_host_op
    for part in (held, ~held):
        claim = every.select_part(run, part)
        if claim.cost_ns:
            yield from _describe(run, claim, find_runtime(run, claim))


def _describe(run: Run, mine: Claim, runtime: Runtime | None) -> Iterator[Finding]:
    waits = list_system_waits(run)
    variants = find_variants(run, mine.host_op, mine.gaps)
    lines = [*describe_thinking(run, mine), *(variants.lines if variants else ())]
    sampled = None if mine.place or runtime else find_function(run, mine)
    place = mine.place or sampled
    # Of Python it is not known whether its own code or the interpreter's callees took the time.
    on_its_own = not (runtime or place) and _is_in_own_code(lines) and not _is_python(run)

    managed = 0 if runtime or place else _count_managed(run)
    if managed:
        lines = [
            *lines,
            f"the program takes {format_several(managed, 'buffer')} of managed memory, and no "
            "migration was recorded: pages that the host touches come back from the GPU one by one",
        ]

    loads = _is_next_batch(run, mine)
    if loads:
        lines = [*lines, _HANDS_OVER]
    feeds = None if runtime or place or loads else find_input(run, mine)
    if feeds:
        lines = [*lines, feeds]

    title = _name(runtime.deed if runtime else None, place)
    if runtime:
        fix = runtime.avoid
    elif loads:
        title, fix = "Waiting for the DataLoader", LOAD_AHEAD
    elif feeds and not on_its_own:
        title, fix = PREPARES_INPUT, advise_input(run, NO_RANGE in lines, _name_how(run))
    elif on_its_own:
        title, fix = _ON_ITS_OWN, (_KEEP_PAGES if managed else "") + _shorten_own(run)
    elif variants and variants.nothing:
        fix = _leave_to_gpu(variants)
    else:
        fix = _advise(run, mine, place, lines)

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        shorter = shorten_thinking(nodes, measure_long_thinking(run, nodes, mine.gaps, waits))
        return shorten_calls(shorter, measure_long_calls(nodes, mine.gaps, waits))

    found = make_finding(
        run,
        RULE,
        f"The GPU is idle for {format_pct(mine.pct)} of the window "
        + (
            "while the host works in the program's own code, without a call to the GPU."
            if on_its_own
            else "because the host launches the next work late: the launching thread "
            + (f"{runtime.deed}." if runtime else f"is in {place}." if place else _ELSE)
        ),
        Loss(cost_ns=mine.cost_ns, bound_ns=mine.worst_ns, change=without),
        Evidence(
            lines,
            rows=mine.rows,
            where={
                **mine.where("host_late"),
                "op": place,
                **({NARROW: True} if sampled or _CALL.match(place or "") else {}),
            },
            calls=mine.calls,
        ),
        Advice(
            fix=fix,
            verify="sightline stats idle AFTER: total_ns of host_late",
            cause=f"by its CPU samples the thread was in {runtime.runtime}"
            if runtime and not mine.place
            else "no wait, data loading or allocation is recorded there: the thread was "
            + ("computing, or asleep" if _is_known_why_away(run) else _MAYBE_AWAY),
            sources=("HolisticTraceAnalysis: host_wait",),
        ),
        confidence="medium",
        title=title,
    )
    if mine.place and re.search(_PROMPTS, mine.place):
        found = replace(
            found,
            title="The program waits for input",
            severity="info",
            gain=Price(0, "ns"),
            fix="nothing to speed up: a person or another program has to answer; exclude this "
            "from the measured part",
        )
    yield from keep_notable(run, found)


def _name(deed: str | None, place: str | None) -> str | None:
    """What the host does, as a title; None where nothing is known of it."""
    if deed:
        return f"The host {deed}"
    return f"The host is in {fit_text(place, _TITLE_WIDTH)} between launches" if place else None


def _advise(run: Run, mine: Claim, place: str | None, lines: list[str]) -> str:
    """What to do: about what is named, or how to have it named."""
    if mine.operator and mine.operator.hint:
        return mine.operator.hint
    if re.search(_POOLED, place or ""):
        return _KEEP_POOL
    if mine.operator:
        return (
            f"see what {place} does before it launches: its first call may set up a library (call "
            "it once before the measured part), later ones compute on the CPU or build tensors"
        )
    if place and place != mine.place:  # a function, by samples
        return (
            f"shorten {fit_text(place, _TITLE_WIDTH)} (all cores, -O3), do it on the GPU or ahead "
            "on another thread, or exclude it from the timed part if it only checks or prints"
        )
    if place:
        return (
            f"shorten {fit_text(place, _TITLE_WIDTH)}, do it once before the loop, or let another "
            "thread or process do it ahead while the GPU works"
        )
    if NO_RANGE in lines:
        return _name_first(run)
    return (
        "see what the host was running (host_op in sightline stats idle_rules), and move it to "
        "another thread or process, or out of the step"
    )


def _is_next_batch(run: Run, mine: Claim) -> bool:
    """Whether the thread waits, with a limit of time, before most batches of a PyTorch program.

    Its DataLoader's `__next__` gets what the thread that pins memory hands over through a queue
    (torch/utils/data/dataloader.py: _try_get_data).
    """
    if not re.search(_TIMED_WAIT, mine.place or "") or read_world(run).framework != "pytorch":
        return False
    ops = run.table("device_ops", ["device_op_id", "copy_kind"])
    after = find_rows(ops.get_column("device_op_id"), mine.gaps.get_column("after_id"))
    sent = (ops.get_column("copy_kind").gather(after) == "HtoD").fill_null(value=False)
    return mine.gaps.height >= _LEAST_BATCHES and 2 * int(sent.sum()) > mine.gaps.height


def _leave_to_gpu(variants: Variants) -> str:
    """What to do where some of the ranges of one name leave the GPU without work."""
    return (
        f"let the GPU do what the host does in these {format_count(variants.nothing)}, as the "
        f"others do ({format_count(variants.all)} in all), or exclude them from the measurement"
    )


def _name_first(run: Run) -> str:
    """What to do where nothing recorded names what the host did."""
    return (
        f"find out what the host runs there ({_name_how(run)}; host_op in sightline stats "
        "idle_rules has what is known), and move it to another thread or process, or out of the "
        "step"
    )


def _count_managed(run: Run) -> int:
    """How many buffers the host and the device share by pages, where nothing says what moved."""
    moved = run.columns("device_ops", ("copy_kind",)).get_column("copy_kind").cast(pl.String)
    if moved.str.starts_with("UVM").any():
        return 0
    names = list_host_names(run)
    return int(names.match(_MANAGED).sum())


def _shorten_own(run: Run) -> str:
    """What to do about a program's own work between two calls."""
    return (
        "shorten what the program does there (checking results, preparing data, files): on all "
        "cores with -O3, on the GPU or ahead on another thread; exclude it from the timed part "
        f"if it only checks; {_name_how(run)}"
    )


def _name_how(run: Run) -> str:
    """Which recording names what the host does."""
    if _is_kineto(run):
        return "profile(with_stack=True) names the lines"
    if _is_python(run):
        return "sightline run --cpu-stacks py-spy -- PROGRAM  names the lines"
    return "sightline run --cpu-stacks perf_event -- PROGRAM  names the functions"


def _is_in_own_code(lines: list[str]) -> bool:
    return any(line.endswith(OWN_CODE) for line in lines)


def _is_kineto(run: Run) -> bool:
    return bool((run.table("recordings").get_column("format") == "kineto").any())


def _is_python(run: Run) -> bool:
    return _is_kineto(run) or read_world(run).language == "python"


def _is_known_why_away(run: Run) -> bool:
    """Whether the scheduler was recorded, with the states in which threads left their cores."""
    if not run.rows("sched_events"):
        return False
    return "off_cpu" not in list_states(run).get_column("state")
