"""The device finishes each operation before the host has launched the next one.

Symptom
    Many short kernels with gaps between them; the queue is empty at most launches.

Why it hurts
    Every launch costs the host several µs, and the framework around it more. When kernels are
    shorter than that, the device waits for the host, and a faster device changes nothing.

Evidence
    Idle time whose cause is a late launch or launch latency; median time between launch calls
    against median kernel length; share of launches that met an empty queue. The gain is a replay in
    which calls and what lies between them take no time. What a graph does not replay stays: the
    time between launches that are further apart than the host's pace, in which it does something
    else, loading data and, where a trace of the system shows it, time in which the thread could not
    run.

Threshold
    Late idle over 15 % of the window (TraceLens agent, 2026-08: idle flagged above 15 %), most of
    it in gaps of up to ten usual launch intervals (longer ones are not pace, but something that the
    host did once: host-late), and launches further apart than kernels are long. It may affect
    only a part of each step: then the queue is empty at fewer than half of the launches.

Fix
    Replay the step as a CUDA graph (torch.compile(mode="reduce-overhead"), torch.cuda.graphs),
    fuse small kernels (torch.compile), or enlarge the batch.

False positives
    The profiler itself slows launches: with Python stacks recorded, the host is slower than
    without. Compare with a recording without stacks before investing much.

References
    PyTorch documentation, "Accelerating PyTorch with CUDA Graphs" (2021);
    NVIDIA, "Getting Started with CUDA Graphs" (2019).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import Advice, Evidence, Loss, abstain, make_finding
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.graph import list_nodes
from sightline.replay.replay import (
    free_calls,
    is_finish,
    is_op,
    select_calls_of,
    shorten_thinking,
)
from sightline.timeline import causes
from sightline.timeline.callers import find_callers
from sightline.timeline.host_ranges import find_long_intervals, measure_held
from sightline.timeline.idle import PACE_INTERVALS, list_system_waits
from sightline.timeline.step_clock import list_steps

RULE = Rule(
    "launch-bound",
    "The host cannot launch kernels fast enough",
    causes=(causes.LAUNCHES,),
    explains_lateness=True,
    general=4,
)


# A loop in Python launches each of its kernels so often in a step; a model of 40 equal layers, of
# which each launches a kernel once or twice, does not (ours).
_LEAST_REPEATS = 100
# Of a quarter of all operations, more than clocks that are fitted once differ by (ours).
_DRIFT_NS = 50_000
_USED = ("host_op_id", "parent_id", "rank", "layer", "name", "start_ns", "end_ns")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    if not run.rows("host_ops"):
        yield abstain(RULE, "no launch calls were recorded; record CPU activity too")
        return
    mine = claim_gaps(run, RULE, least_pct=0.0)
    if mine is None:
        return
    bound = run.ask("launch_pressure").filter("launch_bound").sort("late_idle_ns", descending=True)
    worst = bound.row(0, named=True)

    waits = list_system_waits(run)

    pace = bound.select("rank", "device_id", pace_ns=PACE_INTERVALS * pl.col("median_interval_ns"))

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        held = measure_held(run, nodes, waits)
        at_pace = ~find_long_intervals(nodes, pace, held)
        free = free_calls(nodes, ~is_finish(nodes) & at_pace)
        thought = nodes.get_column("prev_lag_ns").fill_null(0) - held
        return shorten_thinking(free, thought * at_pace.cast(pl.Int64))

    loop = _find_loop(run)
    yield make_finding(
        run,
        RULE,
        "The GPU finishes each operation before the host launches the next one: "
        f"median operation {format_ns(worst['median_op_ns'])}, median launch interval "
        f"{format_ns(worst['median_interval_ns'])}; the queue was empty at "
        f"{format_count(worst['empty_queue'])} of "
        f"{format_several(worst['launches'], 'launch', 'launches')}."
        + (f" Most of the launching is {loop.caller}'s." if loop else ""),
        # Where the graph does not explain why work begins when it does, nor does its replay.
        Loss(
            cost_ns=mine.cost_ns,
            bound_ns=mine.worst_ns,
            change=None if _is_unexplained(run) else without,
        ),
        Evidence(
            [
                *(loop.lines if loop else []),
                *(f"host time in  {line}" for line in _describe_host_time(run, worst["rank"])),
            ],
            rows=mine.rows,
            where={
                **mine.where("host_late"),
                "ranks": bound.get_column("rank").unique().sort().to_list(),
                **({"caller": loop.caller} if loop else {}),
            },
        ),
        Advice(
            fix=(loop.fix if loop else "")
            + choose_fix(
                run,
                "launch less often: merge kernels, give each more work, or replay them as a graph",
                pytorch="replay the step as a CUDA graph: torch.compile(model, "
                'mode="reduce-overhead"), or larger batches if latency allows',
                julia="launch less often: fuse broadcasts (one expression with dots), or capture "
                "the loop (CUDA.@captured)",
                kokkos="launch less often: merge parallel_for regions, or Kokkos::Graph",
                openacc="merge regions, and let them run one after another (async)",
                scripted="launch less often: fuse kernels (cupy.fuse, one kernel of your own), or "
                "capture a graph",
                vllm="let vLLM replay its CUDA graphs: no --enforce-eager, and "
                "cudagraph_capture_sizes that cover your batches; or more requests at once",
                sglang="let SGLang replay its CUDA graphs: no --disable-cuda-graph, and a "
                "--cuda-graph-max-bs that covers your batches; or more requests at once",
                jax="put more of the step under one jax.jit, and loops into jax.lax.scan",
                openmp="merge target regions, and let them run one after another (nowait, depend)",
                native="capture the launches once (cudaStreamBeginCapture) and replay them as a "
                "CUDA graph, or merge kernels",
            ),
            verify="sightline stats breakdown AFTER: idle_pct under 15",
            cause="launching an operation takes longer than executing it" + _describe_steps(run),
            sources=(
                "TraceLens agent: idle above 15 %",
                "PyTorch: Accelerating PyTorch with CUDA Graphs",
            ),
        ),
        confidence="high" if worst["launches"] >= 100 else "medium",
    )


def _is_unexplained(run: Run) -> bool:
    """Whether most of the idle time is delays of operations that were ready and launched.

    So it is where a profiler's clocks of host and device drift apart within a step: operations
    begin before their launch here, and long after it there.
    """
    nodes = list_nodes(run)
    ops = nodes.filter(is_op(nodes))
    early = ops.filter(pl.col("launch_lag_ns") < -_DRIFT_NS).height
    late = ops.select(pl.col("residual_ns").fill_null(0).sum()).item()
    idle = int(run.ask("breakdown").get_column("idle_ns").sum())
    return 4 * early > ops.height and 2 * int(late) > idle


@dataclass(frozen=True)
class Loop:
    """Who launches most: its name, how many launches it makes of how many, and their host time.

    `repeats`: how often it launches each kernel in a step.
    """

    caller: str
    launches: int
    of: int
    pct: float
    repeats: float

    @property
    def lines(self) -> list[str]:
        """What shows it."""
        made, of = format_count(self.launches), format_count(self.of)
        return [
            f"{self.caller} makes {made} of {of} launches, its backward pass included: "
            f"{format_pct(self.pct)} of the launching time"
        ]

    @property
    def fix(self) -> str:
        """What to do before the whole step is made a graph; nothing where each layer is its own."""
        if self.repeats < _LEAST_REPEATS:
            return ""
        return (
            f"do what {self.caller} does piece by piece in one operator over the whole batch: "
            "vectorize its loop, or call the fused or whole-sequence operator; else "
        )


def _find_loop(run: Run) -> Loop | None:
    """The user's range, line or module that most of the launching time is spent in."""
    nodes = list_nodes(run)
    launching = select_calls_of(nodes, is_op(nodes))
    took = pl.col("prev_lag_ns").fill_null(0).clip(0) + pl.col("end_ns") - pl.col("start_ns")
    calls = nodes.filter(launching).select("node", host_op_id="ref_id", ns=took)
    calls = calls.with_columns(caller=find_callers(run, calls.get_column("host_op_id")))
    each = calls.group_by("caller").agg(pl.col("ns").sum(), launches=pl.len()).drop_nulls("caller")
    whole = max(sum_column(calls, "ns"), 1)
    top = each.filter(2 * pl.col("ns") >= whole).sort("caller")
    if top.is_empty():
        return None
    caller, ns, launches = top.row(0)
    own = calls.filter(pl.col("caller") == caller).get_column("node")
    kernels = nodes.filter(pl.col("launch").is_in(own.implode())).get_column("name").n_unique()
    steps = max(list_steps(run).height, 1)
    repeats = launches / max(kernels * steps, 1)
    return Loop(caller, launches, calls.height, 100 * ns / whole, repeats)


def _describe_steps(run: Run) -> str:
    """Whether the steps launch the same number of operations: then a graph can be captured."""
    if not run.rows("host_ops"):
        return ""
    counts = run.ask("steps").filter(pl.col("launched_ops") > 0).get_column("launched_ops")
    if counts.len() < 2:
        return ""
    low, high = int(counts.min() or 0), int(counts.max() or 0)  # type: ignore[arg-type]
    if low == high:
        return (
            f"; all {format_several(counts.len(), 'step')} launch "
            f"{format_several(low, 'operation')}, so a graph of one step can be captured and "
            "replayed"
        )
    return f"; steps launch {format_count(low)} to {format_several(high, 'operation')}"


def _describe_host_time(run: Run, rank: int) -> list[str]:
    """Where the launching rank's host time goes, in the window: by operators' and calls' own."""
    window = run.ask("windows").filter(pl.col("rank") == rank)
    begin = window.get_column("window_start_ns").min()
    end = window.get_column("window_end_ns").max()
    host = (
        run.table("host_ops", _USED)
        .filter(pl.col("rank") == rank, pl.col("layer").is_in(["op", "runtime", "driver"]))
        .filter(pl.col("end_ns") > begin, pl.col("start_ns") < end)
        .select(
            "host_op_id",
            "parent_id",
            "name",
            ns=pl.min_horizontal("end_ns", pl.lit(end))
            - pl.max_horizontal("start_ns", pl.lit(begin)),
        )
    )
    # What lies below a range is taken from its name's sum: names are few, ranges many.
    above = find_rows(host.get_column("host_op_id"), host.get_column("parent_id"))
    below = host.select(name=pl.col("name").gather(above), ns=-pl.col("ns")).drop_nulls("name")
    own = (
        pl.concat([host.select("name", "ns"), below])
        .group_by("name")
        .agg(own=pl.col("ns").sum())
        # Waiting for the device is no work of the host.
        .filter(~pl.col("name").str.contains("Synchronize"))
        .sort("own", "name", descending=[True, False])
    )
    whole = max(sum_column(own, "own"), 1)
    return [f"{name} {format_pct(100 * ns / whole)}" for name, ns in own.head(4).rows()]
