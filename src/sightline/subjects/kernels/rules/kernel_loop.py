"""The same few tiny kernels run again and again, and keep the GPU with their launches.

Symptom
    Hundreds of kernels of a few µs on one stream, the same one to four in turn, each with far fewer
    blocks than the GPU has room for.

Why it hurts
    Each of them takes its start, a few µs, for next to no work: 768 of them are over two
    milliseconds in which the GPU is "busy" and does nothing. One operator over all turns takes as
    long as a few of them.

Evidence
    Kernels of a stream that follow each other in the same order of at most four, with the same
    grids and blocks. What must remain of them is one turn, and what all of them need of a GPU that
    they fill; in a program of its own, a barrier between its blocks for each launch, too. The gain
    is a replay without the rest, and without what the host does to launch it: an upper bound. Loops
    over an optimizer's parameters are unfused-optimizer's.

Threshold
    32 turns and more (ours: networks have so many layers, of more than four kernels each), kernels
    under 10 µs (TraceLens agent, 2026-08: short kernels) that fill at most half of the GPU. What
    could be saved is over 5 % of the window (the same).

Fix
    Do all turns in one operator: vectorize the loop over its items, call the whole-sequence or
    batched operator, or the foreach variant; where turns need each other's results, a graph
    (torch.compile, CUDA graphs) takes the launches off the host, and one kernel of your own the
    starts off the GPU.

False positives
    Loops with matrix products, convolutions or attention in them are left out: they are layers.
    Turns that depend on each other, as a recurrence's do: only a kernel that keeps its state
    can save their starts.

References
    NVIDIA, "Getting Started with CUDA Graphs" (2019): 2.9 µs kernels; PyTorch Performance Tuning
    Guide, "Fuse operations"; Zhang et al., "A Study of Single and Multi-device Synchronization
    Methods in Nvidia GPUs" (2020): barriers of a grid.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import number_groups
from sightline.core.kernel_labels import shorten_kernel_name
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.kernels.keeping import add_factors
from sightline.subjects.kernels.launch_fill import add_fill
from sightline.subjects.kernels.rules._optimizer import list_optimizer_loops
from sightline.subjects.kernels.rules._shared import (
    escape_braces,
    find_shorter_kernels,
    list_computing,
)
from sightline.timeline.callers import find_callers
from sightline.timeline.kernel_kinds import PRODUCT, name_kinds
from sightline.timeline.world import NATIVE, UNKNOWN, read_world

RULE = Rule("kernel-loop", "Tiny kernels in a loop")
_TURNS, _LONGEST_TURN = 32, 4
_MULTIPLIES = (PRODUCT, "attention", "convolution")
_SHORT_NS, _FREE_SHARE = 10_000, 0.5
# Of a grid on a V100 (Zhang, Wahib, Zhang and Matsuoka, "A Study of Single and Multi-device
# Synchronization Methods in Nvidia GPUs", IPDPS 2020: from 1.4 µs on).
_BARRIER_NS = 1_400
_LANE = ["rank", "device_id", "stream_id"]
_LAUNCH = ["name", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    kernels = list_computing(run)
    if not (kernels.get_column("length") < _SHORT_NS).any():
        return
    loops = _drop_products(_find_loops(kernels))
    if loops.is_empty():
        return
    loops = add_fill(run, loops).drop_nulls("share").filter(pl.col("share") <= _FREE_SHARE)
    if loops.height and run.rows("host_ops"):
        loops = loops.join(list_optimizer_loops(run), on="device_op_id", how="anti")
    loops = loops.filter(pl.len().over("loop") >= _TURNS * pl.col("period"))
    if loops.is_empty():
        return
    loops = _keep_work(run, loops)
    caller = _name_caller(run, loops)
    found = find_shorter_kernels(
        run,
        RULE,
        loops,
        f"{{share}} of the window is tiny kernels in a loop{caller}: "
        f"{format_several(loops.height, 'launch', 'launches')} of the same {_count_kernels(loops)} "
        "over and over.",
        cause="each iteration of a loop launches its own kernels, for a few items",
        fix=choose_fix(
            run,
            "do all iterations of the loop in one kernel; if each needs the previous one's "
            "result, keep the loop inside the kernel",
            pytorch="vectorize the loop: one operator over all its items, or the whole-sequence "
            "operator; if iterations need each other's results, torch.compile it",
            jax="put the loop into jax.vmap, or into jax.lax.scan under one jax.jit",
            scripted="do all items in one array operation, or in one kernel of your own",
        ),
        extra=[
            f"median kernel {format_ns(round(_median(loops)))}, on "
            f"{100 * float(loops.get_column('share').mean() or 0):.1f} % of the GPU"  # type: ignore[arg-type]
        ],
        sources=("NVIDIA: Getting Started with CUDA Graphs (2.9 µs kernels)",),
        is_bound=True,
        with_host=True,
    )
    if found:
        yield found


def _find_loops(kernels: pl.DataFrame) -> pl.DataFrame:
    """Short kernels that repeat at a distance of `period` (1 to 4), by `loop`, a number."""
    lanes, _ = number_groups(kernels, _LANE)
    kinds, _ = number_groups(kernels, [*_LANE, *_LAUNCH])  # so that equal ones share a stream
    free = kernels.get_column("length") < _SHORT_NS
    parts = [kernels.clear().with_columns(loop=pl.lit(0, pl.UInt32), period=pl.lit(0, pl.Int64))]
    for period in range(1, _LONGEST_TURN + 1):
        again = (kinds == kinds.shift(period)).fill_null(value=False)
        # The first turn comes again, too.
        again = (again | again.shift(-period, fill_value=False)) & free
        runs = pl.select(lane=lanes, again=again).select(
            "again", loop=pl.struct("lane", "again").rle_id()
        )
        long = runs.select(pl.col("again") & (pl.len().over("loop") >= _TURNS * period)).to_series()
        if not long.any():
            continue
        free = free & ~long
        offset = kernels.height * period  # numbers of other periods are others
        parts.append(
            kernels.with_columns(
                loop=(runs.get_column("loop") + offset).cast(pl.UInt32),
                period=pl.lit(period, pl.Int64),
            ).filter(long)
        )
    return pl.concat(parts)


def _drop_products(loops: pl.DataFrame) -> pl.DataFrame:
    """Without loops that multiply: they are layers or a solver's steps, and no items of a list."""
    names = loops.get_column("name").unique()
    multiply = names.filter(name_kinds(names).is_in(_MULTIPLIES).fill_null(value=False))
    is_product = pl.col("name").is_in(multiply.implode())
    return loops.filter(~is_product.any().over("loop"))


def _keep_work(run: Run, loops: pl.DataFrame) -> pl.DataFrame:
    """With `factor`: of each loop one turn stays, and what all need of a GPU that they fill.

    Of a program of its own, whose turns mostly need each other's results, a barrier between blocks
    stays for each launch of several.
    """
    is_own = read_world(run).framework in (NATIVE, UNKNOWN)
    barrier = pl.when(pl.lit(is_own) & (pl.col("blocks") > 1)).then(_BARRIER_NS).otherwise(0)
    turn = pl.col("length").mean().over("loop") * pl.col("period")
    filled = (pl.col("length") * pl.col("share") + barrier).sum().over("loop")
    kept = loops.with_columns(kept_ns=pl.max_horizontal(turn, filled))
    return add_factors(kept, "loop")


def _count_kernels(loops: pl.DataFrame) -> str:
    """'3 kernels'; of loops of several kinds the longest turn."""
    return format_several(int(loops.get_column("period").max() or 1), "kernel")  # type: ignore[arg-type]


def _median(loops: pl.DataFrame) -> float:
    return float(loops.get_column("length").median() or 0)  # type: ignore[arg-type]


def _name_caller(run: Run, loops: pl.DataFrame) -> str:
    """' in box_loss', where one range or line launches most of them; else the kernel."""
    calls = loops.get_column("launch_id").drop_nulls()
    if calls.len() and run.rows("host_ops"):
        names = find_callers(run, calls).drop_nulls()
        if names.len():
            top = names.value_counts(sort=True).row(0)
            if 2 * top[1] >= loops.height:
                return f" in {escape_braces(top[0])}"
    name = loops.get_column("name").value_counts(sort=True).item(0, 0)
    return f" (`{escape_braces(shorten_kernel_name(name))}`)"
