"""Kernels of few blocks leave most of the GPU empty, one after another on one stream.

Symptom
    Kernels that take long, with fewer blocks than the GPU has multiprocessors.

Why it hurts
    A block runs on one multiprocessor: 20 blocks leave 112 of 132 idle. On one stream the next
    kernel waits until the last block is done, though there would be room beside it.

Evidence
    Grids and blocks, the device's multiprocessors (by its name where the file has no number), and
    that no other kernel ran meanwhile. Kernels of different names in a row, each of a tenth to half
    of the multiprocessors, could run side by side if they do not depend on each other, which is not
    recorded: between nothing and all but the longest of them is gained. Any other could be spread
    over the multiprocessors: the gain is a replay in which it takes the share of them that it fills
    now, of their schedulers and of the lanes of its warps; but no less than an empty kernel, nor
    than the same kernel with more blocks in the same recording, which is quoted. Both are upper
    bounds.

Threshold
    Fewer blocks than multiprocessors; with more than half as many, confidence is low: a shared
    limit, such as the memory, may be near. Libraries choose their grids themselves: of theirs only
    kernels of 100 µs and at most a tenth of the multiprocessors (ours: as good as serial). Kernels
    of 10 µs and more, 20 µs for those in a row (ours: several times a launch). What could be saved
    is over 5 % of the window (TraceLens agent, 2026-08).

Fix
    Divide the work of a kernel into more blocks; put kernels that do not depend on each other on
    streams of their own (cudaStreamNonBlocking), or into one launch.

False positives
    Kernels in a row that use each other's results; algorithms that are serial.

References
    CUDA C++ Best Practices Guide, "Concurrent Kernel Execution" and "Thread and Block Heuristics":
    more blocks than multiprocessors.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.subjects.kernels.keeping import add_factors
from sightline.subjects.kernels.launch_words import find_launcher
from sightline.subjects.kernels.rules._launches import (
    DEVICE,
    LEAST_NS,
    describe_launch,
    keep_factor,
    list_filled,
    name_launch,
    pick_longest,
    quote_fuller,
)
from sightline.subjects.kernels.rules._shared import find_shorter_kernels

RULE = Rule("few-blocks", "Kernels of few blocks")

BESIDE_SHARE, SERIAL_SHARE = 0.5, 0.1
BESIDE_NS, LIBRARY_NS = 20_000, 100_000
# A kernel of a chain comes so often, and times that differ by less are one (both ours).
_MANY, _SAME = 100, 0.25
_MERGE = (
    "let one launch do several of these in sequence (more rows or levels a block, a persistent or "
    "cooperative kernel that waits for flags), or run independent ones concurrently: a launch "
    "takes as long with far more blocks, since it lasts as long as one block"
)
_LANE = [*DEVICE, "stream_id"]
_GUIDE = "CUDA C++ Best Practices Guide: Concurrent Kernel Execution, Thread and Block Heuristics"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding for kernels that follow each other, and one for kernels by themselves."""
    if not run.rows("device_ops"):
        return
    kernels = list_filled(run)
    groups = _group_different(kernels)
    for find, small in ((_find_beside, groups), (_find_alone, _list_narrow(kernels, groups))):
        if small.height and (found := find(run, small)):
            yield found


def _group_different(kernels: pl.DataFrame) -> pl.DataFrame:
    """Kernels with `group`: those in a row that have different names and fit beside each other."""
    is_small = (
        pl.col("alone")
        & pl.col("own")
        & pl.col("sms").is_between(SERIAL_SHARE, BESIDE_SHARE, closed="right")
        & (pl.col("length") >= BESIDE_NS)
    )
    # In a row: no other kernel between them on the device.
    small = kernels.with_columns(turn=pl.struct(*_LANE, is_small).rle_id()).filter(is_small)
    group, number, names, filled, turn = [], 0, set[str](), 0.0, None
    for name, sms, row in small.select("name", "sms", "turn").iter_rows():
        if row != turn or name in names or filled + sms > 1:
            number, names, filled = number + 1, set(), 0.0
        turn, filled = row, filled + sms
        names.add(name)
        group.append(number)
    grouped = small.with_columns(pl.Series("group", group, pl.Int64))
    return grouped.filter(pl.len().over("group") > 1)


def _list_narrow(kernels: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
    """Kernels with fewer blocks than multiprocessors, which nothing else could run beside.

    Of several streams in turn, kernels that fit beside each other are left to serialized-streams.
    """
    serial = pl.col("sms") <= SERIAL_SHARE
    other = [pl.col("stream_id").shift(by).over(DEVICE) != pl.col("stream_id") for by in (1, -1)]
    in_turn = pl.any_horizontal(*other).fill_null(value=False) & (pl.col("sms") <= BESIDE_SHARE)
    return (
        kernels.filter(pl.col("length") >= LEAST_NS)
        .filter(
            pl.col("alone") & (pl.col("sms") < 1),
            pl.col("own") | (serial & (pl.col("length") >= LIBRARY_NS)),
            serial | ~in_turn,
        )
        .join(groups, on="device_op_id", how="anti")
    )


def _find_beside(run: Run, groups: pl.DataFrame) -> Finding | None:
    kept = groups.with_columns(kept_ns=pl.col("length").max().over("group"))
    return find_shorter_kernels(
        run,
        RULE,
        add_factors(kept, "group").filter(pl.col("factor") < 1),
        "Kernels of few blocks run one after another on one stream, and take {share} of the window "
        "more than if they ran concurrently.",
        cause="kernels in one stream run one after another, however little of the GPU each fills",
        fix="if they do not depend on each other, put them on streams of their own "
        "(cudaStreamNonBlocking) or into one launch; else give each more blocks",
        verify="sightline stats streams AFTER: streams that overlap",
        sources=(_GUIDE,),
        extra=[
            describe_launch(pick_longest(groups)),
            "the gain is between zero and this: the recording does not show whether one needs "
            "the other's result",
        ],
        is_bound=True,
        title="Kernels of few blocks one after another",
    )


def _is_flat(narrow: pl.DataFrame, longest: dict[str, Any]) -> bool:
    """Whether a kernel that runs again and again takes as long with far more blocks.

    Then a block's own time is what a launch takes, and many small launches are what there is.
    """
    if longest["fuller_ns"] is None or (narrow.get_column("name") == longest["name"]).sum() < _MANY:
        return False
    is_same = abs(longest["fuller_ns"] - longest["length"]) <= _SAME * longest["length"]
    return bool(is_same and longest["fuller_blocks"] >= 2 * longest["blocks"])


def _find_alone(run: Run, narrow: pl.DataFrame) -> Finding | None:
    kept = narrow.with_columns(factor=keep_factor(pl.col("share")))
    longest = pick_longest(kept)
    launcher = find_launcher(longest["name"])
    return find_shorter_kernels(
        run,
        RULE,
        kept,
        f"{name_launch(longest)}, and takes {{share}} of the window more than on a full GPU.",
        cause="a block runs on one multiprocessor, and these kernels have few",
        fix=_MERGE
        if longest["own"] and _is_flat(narrow, longest)
        else launcher.more_blocks
        if longest["own"]
        else "a library chose this launch: give the call more independent work at once (a batch), "
        "or use a call that divides it",
        sources=(_GUIDE, launcher.source),
        extra=quote_fuller(kept),
        confidence=_grade_confidence(kept),
        is_bound=True,
    )


def _grade_confidence(kept: pl.DataFrame) -> str:
    """High where the recording itself shows the kernel on a full GPU; low near to all blocks."""
    lost = (1 - pl.col("factor")) * pl.col("length")
    near, shown, whole = kept.select(
        near=lost.filter(pl.col("sms") > BESIDE_SHARE).sum(),
        shown=lost.filter(pl.col("fuller_ns").is_not_null()).sum(),
        whole=lost.sum(),
    ).row(0)
    if 2 * shown > whole:
        return "high"
    return "low" if 2 * near > whole else "medium"
