"""One function holds most of the CPU time of a program of which only samples are known.

Symptom
    A profiler of call stacks (py-spy, perf, sightline's own samples) found the same function
    running again and again; no operator, call or device was recorded beside it.

Why it hurts
    The rest of the program together takes less: no other change can save more than that.

Evidence
    Samples that end in the function itself, and the source line where most of them fell, if the
    recording has lines: Python's always, those of C and C++ from some profilers.

Threshold
    Half of the sampled CPU time (ours: then no other function can hold as much).

Fix
    Look at the line. A loop of Python over elements of arrays becomes one operation on whole
    arrays, or is compiled (Numba, Cython). Of C and C++, `perf annotate` shows the instructions.

False positives
    A function that is the work itself, already as fast as the machine allows: what limits it only
    hardware counters tell.

References
    Brendan Gregg, "Systems Performance", 2nd edition, chapter 6: CPU profiling.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_ns, format_pct
from sightline.diagnosis.build import Advice, Evidence, build_finding

RULE = Rule("hot-function", "One function holds the CPU")

MOST_PCT = 50.0
# Ours: below, one sample more or less is a share of five points; samplers take 100 a second.
LEAST_SAMPLES, LEAST_NS = 20, 200_000_000
_FUNCTION = ("layer", "function", "file")
# Of the program: not the kernel, nor regions that it marked. What has no symbol is no function.
_LAYERS, _NO_SYMBOL = ("python", "native"), r"^\[|^0x|^$"
_SAY_MORE = ("host_ops", "device_ops", "profiled_kernels", "pc_samples")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all threads; none where a timeline says more."""
    if any(run.rows(table) for table in _SAY_MORE):
        return
    weights, timed = _weigh_stacks(run)
    whole = float(weights.get_column("weight").sum())
    if whole < (LEAST_NS if timed else LEAST_SAMPLES):
        return
    leaves = _find_leaves(run, weights)
    by = pl.col("weight").sum()
    is_function = pl.col("layer").is_in(_LAYERS) & ~pl.col("function").str.contains(_NO_SYMBOL)
    functions = leaves.filter(is_function).group_by(_FUNCTION).agg(by)
    if functions.is_empty():
        return
    top = functions.sort("weight", "function", descending=[True, False]).row(0, named=True)
    share = 100 * top["weight"] / whole
    if share < MOST_PCT:
        return
    mine = pl.all_horizontal(pl.col(c).eq_missing(pl.lit(top[c])) for c in _FUNCTION)
    lines = leaves.filter(mine).drop_nulls("line").group_by("line").agg(by)
    place = _describe_line(top["file"], lines.sort("weight", "line", descending=[True, False]))
    took = format_ns(int(top["weight"])) if timed else f"{format_count(top['weight'])} samples"
    is_python = top["layer"] == "python" or (top["file"] or "").endswith(".py")
    yield build_finding(
        RULE,
        f"{top['function']} itself takes {format_pct(share)} of the sampled CPU time{place}.",
        Evidence([f"{took} in the function itself"]),
        Advice(
            fix="do what it loops over in fewer, larger calls (whole arrays with NumPy, whole "
            "texts), or compile it (Numba, Cython); sightline flame shows who calls it"
            if is_python
            else f"see which instructions wait:  perf record PROGRAM;  perf annotate "
            f"{top['function']};  sightline flame shows who calls it",
            verify="sightline findings AFTER: this is gone",
            cause="all other functions together take less",
            sources=("Gregg, Systems Performance, 2nd edition, chapter 6: CPU profiling",),
        ),
        severity="info",
        confidence="high",
        states_limit=True,
    )


def _weigh_stacks(run: Run) -> tuple[pl.DataFrame, bool]:
    """Stacks (`stack_id`) of running threads with their `weight`, and whether it is a time, ns."""
    samples = run.table("cpu_samples").filter(pl.col("on_cpu").fill_null(value=True))
    if samples.height:
        timed = samples.get_column("weight_ns").count() > 0
        weight = pl.col("weight_ns").fill_null(0) if timed else pl.lit(1, pl.Int64)
        return samples.select("stack_id", weight=weight), timed
    added = run.table("stack_weights")
    for metric in ("cpu_time_ns", "samples"):
        if (rows := added.filter(metric=metric)).height:
            return rows.select("stack_id", weight="value"), metric == "cpu_time_ns"
    return pl.DataFrame(schema={"stack_id": pl.Int64, "weight": pl.Int64}), False


def _find_leaves(run: Run, weights: pl.DataFrame) -> pl.DataFrame:
    """The weights, each with the function and the line that its stack ends in."""
    stacks = run.table("stacks").select("stack_id", "frame_id")
    frames = run.table("frames").select("frame_id", *_FUNCTION, "line")
    return weights.join(stacks, on="stack_id", how="left").join(frames, on="frame_id", how="left")


def _describe_line(file: str | None, lines: pl.DataFrame) -> str:
    """', most of it in np1.py:6', where lines are known."""
    if lines.is_empty():
        return ""
    line, weight = lines.row(0)
    share = 100 * weight / max(lines.get_column("weight").sum(), 1)
    name = (file or "").rsplit("/", 1)[-1]
    return f", {format_pct(share)} of that at {name}:{line}" if name else f" (line {line})"
