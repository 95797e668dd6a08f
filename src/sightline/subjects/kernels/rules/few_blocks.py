"""Kernels of few blocks leave most of the GPU empty, one after another on one stream.

Symptom
    Kernels that take long, with fewer blocks than the GPU has multiprocessors.

Why it hurts
    A block runs on one multiprocessor: 20 blocks leave 112 of 132 idle. On one stream the next
    kernel waits until the last block is done, though there would be room beside it.

Evidence
    Grids, the device's multiprocessors, and that no other kernel ran meanwhile, of kernels that are
    the program's own: libraries choose their grids themselves. Kernels of different names in a row
    could run side by side if they do not depend on each other, which is not recorded: between
    nothing and all but the longest of them is gained. A kernel by itself could be spread over the
    multiprocessors: the gain is a replay in which it takes the share of them that it fills now.
    Both are upper bounds.

Threshold
    At most half of the multiprocessors (two such kernels fit beside each other); for a kernel by
    itself a tenth (ours: it then is as good as serial). Kernels of 20 µs and more (ours: several
    times a launch). What could be saved is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Put kernels that do not depend on each other on streams of their own (cudaStreamNonBlocking), or
    into one launch; divide the work of a single kernel into more blocks.

False positives
    Kernels in a row that use each other's results; algorithms that are serial.

References
    CUDA C++ Best Practices Guide, "Concurrent Kernel Execution" and "Thread and Block Heuristics":
    more blocks than multiprocessors.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_count, format_several
from sightline.subjects.kernels.keeping import add_factors
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_computing
from sightline.timeline.kernel_kinds import name_kinds

RULE = Rule("few-blocks", "Kernels of few blocks")

BESIDE_SHARE, ALONE_SHARE = 0.5, 0.1
LEAST_NS = 20_000
_DEVICE = ["rank", "device_id"]
_LANE = [*_DEVICE, "stream_id"]
_GUIDE = "CUDA C++ Best Practices Guide: Concurrent Kernel Execution, Thread and Block Heuristics"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding for kernels that follow each other, and one for kernels by themselves."""
    if not run.rows("device_ops"):
        return
    kernels = _list_small(run)
    groups = _group_different(kernels)
    for find, small in ((_find_beside, groups), (_find_alone, _drop_grouped(kernels, groups))):
        if small.height and (found := find(run, small)):
            yield found


def _list_small(run: Run) -> pl.DataFrame:
    """The program's own kernels that ran alone and filled at most half of the device.

    With `share`, the part of the multiprocessors that their blocks fill, and `turn`, a number of
    kernels that follow each other on a stream.
    """
    devices = run.table("devices").select(*_DEVICE, "sm_count")
    blocks = pl.col("grid_x") * pl.col("grid_y") * pl.col("grid_z")
    begun = pl.col("end_ns").cum_max().shift(1).over(_DEVICE)
    next_start = pl.col("start_ns").shift(-1).over(_DEVICE)
    known = (
        list_computing(run)
        .join(devices, on=_DEVICE, how="left", maintain_order="left")
        .sort(*_DEVICE, "start_ns", "device_op_id")
        .with_columns(
            share=blocks / pl.col("sm_count"),
            alone=(begun <= pl.col("start_ns")).fill_null(value=True)
            & (pl.col("end_ns") <= next_start).fill_null(value=True),
        )
    )
    names = known.get_column("name").unique()
    own = names.filter(name_kinds(names).is_null())
    is_small = (
        pl.col("alone")
        & (pl.col("share") <= BESIDE_SHARE)
        & (pl.col("length") >= LEAST_NS)
        & pl.col("name").is_in(own.implode())
    ).fill_null(value=False)
    return known.with_columns(turn=pl.struct(*_LANE, is_small).rle_id()).filter(is_small)


def _group_different(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels with `group`: those in a row that have different names and fit beside each other."""
    group, number, names, filled, turn = [], 0, set[str](), 0.0, None
    for name, share, row in kernels.select("name", "share", "turn").iter_rows():
        if row != turn or name in names or filled + share > 1:
            number, names, filled = number + 1, set(), 0.0
        turn, filled = row, filled + share
        names.add(name)
        group.append(number)
    grouped = kernels.with_columns(pl.Series("group", group, pl.Int64))
    return grouped.filter(pl.len().over("group") > 1)


def _drop_grouped(kernels: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    alone = kernels.join(groups, on="device_op_id", how="anti")
    return alone.filter(pl.col("share") <= ALONE_SHARE)


def _find_beside(run: Run, groups: pl.DataFrame) -> Finding | None:
    kept = groups.with_columns(kept_ns=pl.col("length").max().over("group"))
    return find_shorter_kernels(
        run,
        RULE,
        add_factors(kept, "group").filter(pl.col("factor") < 1),
        "{share} of the window could be saved if kernels of few blocks ran beside each other: they "
        "run one after another on one stream.",
        cause="kernels in one stream run one after another, however little of the GPU each fills",
        fix="if they do not depend on each other, put them on streams of their own "
        "(cudaStreamNonBlocking) or into one launch; else give each more blocks",
        verify="sightline stats streams AFTER: streams that overlap",
        sources=(_GUIDE,),
        extra=[
            _describe_grid(groups),
            "between nothing and this is gained: whether one needs the other's result is not "
            "recorded",
        ],
        is_bound=True,
        title="Kernels of few blocks one after another",
    )


def _find_alone(run: Run, small: pl.DataFrame) -> Finding | None:
    return find_shorter_kernels(
        run,
        RULE,
        small.with_columns(factor=pl.col("share")),
        "{share} of the window could be saved if kernels of few blocks filled the GPU.",
        cause="a block runs on one multiprocessor, and these kernels have few",
        fix="divide the work into more blocks than the GPU has multiprocessors (a scan or a "
        "reduction in two levels: cub::DeviceScan, cub::DeviceReduce)",
        sources=(_GUIDE,),
        extra=[_describe_grid(small)],
        is_bound=True,
    )


def _describe_grid(kernels: pl.DataFrame) -> str:
    """'20 blocks of 1,024 threads on 132 multiprocessors', of the kernel that takes longest."""
    row = kernels.row(int(kernels.get_column("length").arg_max() or 0), named=True)
    blocks, threads = (row[f"{of}_x"] * row[f"{of}_y"] * row[f"{of}_z"] for of in ("grid", "block"))
    return (
        f"{format_several(blocks, 'block')} of {format_several(threads, 'thread')} on "
        f"{format_count(row['sm_count'])} multiprocessors"
    )
