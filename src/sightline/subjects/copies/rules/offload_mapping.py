"""Each target region maps its arrays to the device and back again.

Symptom
    Copies to the device before a region of OpenMP or OpenACC and back after it, region by region,
    with the runtime's own work between them.

Why it hurts
    A region without a data environment around it allocates, copies in and copies out all that it
    names. From pageable memory the runtime moves each array through a buffer of its own, which the
    processor fills or empties piece by piece: that takes as long as the copies.

Evidence
    Copies between host and device that lie before and behind at least three groups of kernels, with
    the idle gaps between two copies in one direction that no call of the program explains. The gain
    is a replay without these copies and that work; what the program reads on the host between the
    regions must still be sent (`target update`).

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: copies flagged above 5 % of the time).

Fix
    One data environment around the loop: target data or target enter data, acc data or acc enter
    data; update self and update device for what the host needs in between.

False positives
    A host that computes on all of these arrays between the regions: then move that work, too.

References
    OpenMP 5.2, 13.5 and 13.6 (target data, target enter data); OpenACC 3.3, 2.6 (data environment);
    NVIDIA HPC Compilers User's Guide, "Staging".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.algebra.window import select_starting_in
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_count, format_ns, format_pct, format_several
from sightline.diagnosis.advice import choose_fix
from sightline.diagnosis.build import (
    NOTABLE_PCT,
    Advice,
    Evidence,
    Loss,
    keep_notable,
    make_finding,
)
from sightline.diagnosis.gaps import claim_gaps
from sightline.replay.gains import sum_windows
from sightline.replay.replay import remove_ops
from sightline.subjects.copies.mapping import COPIES, count_groups, maps_again
from sightline.subjects.copies.rules._shared import separate_calls
from sightline.timeline import causes
from sightline.timeline.copies import select_copies

RULE = Rule(
    "offload-mapping",
    "Arrays are mapped again for each region",
    causes=(causes.MAPPING,),
)

_LENGTH = pl.col("end_ns") - pl.col("start_ns")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not maps_again(run):
        return
    exposed = run.ask("copy_exposure").filter(pl.col("rule").is_in(COPIES))
    alone = sum_column(exposed, "total_ns")
    mine = claim_gaps(run, RULE, extra_ns=alone, least_pct=NOTABLE_PCT)
    if mine is None:
        return
    copies = select_copies(run, COPIES)
    ids = _drop_ends(run, copies).get_column("device_op_id")
    following = _list_following(run, copies)

    def without(nodes: pl.DataFrame) -> pl.DataFrame:
        return remove_ops(separate_calls(run, nodes, following), ids)

    staged = sum_column(mine.gaps, "duration_ns")
    ways = copies.group_by("copy_kind").agg(
        n=pl.len(), ns=_LENGTH.sum(), size=pl.col("bytes").sum()
    )
    yield from keep_notable(
        run,
        make_finding(
            run,
            RULE,
            f"Copies for offloaded regions run alone for "
            f"{format_pct(100 * alone / sum_windows(run))} of the window"
            + (
                f", and for {format_pct(100 * staged / sum_windows(run))} more the runtime "
                "prepares them while the GPU is idle."
                if staged
                else "."
            ),
            Loss(
                cost_ns=mine.cost_ns,
                bound_ns=find_largest(exposed, "total_ns") + mine.worst_ns,
                change=without,
            ),
            Evidence(
                [
                    *(
                        f"{format_count(n)} × {way}, {format_bytes(size or 0)} in {format_ns(ns)}"
                        for way, n, ns, size in ways.sort("ns", descending=True).rows()
                    ),
                    *(
                        [
                            f"{format_several(mine.gaps.height, 'gap')} between two copies one "
                            f"way, {format_ns(staged)} in all"
                        ]
                        if staged
                        else []
                    ),
                    f"kernels run in {format_several(count_groups(run), 'group')}, with copies "
                    "before and after",
                ],
                rows=mine.rows,
                where=mine.where("mapping"),
                calls=mine.calls,
            ),
            Advice(
                fix=choose_fix(
                    run,
                    "keep arrays on the device: one data environment around the loop",
                    openmp="keep arrays on the device: target data, or target enter data, around "
                    "the loop, and target update for what the host reads in between",
                    openacc="keep arrays on the device: acc data, or acc enter data, around the "
                    "loop, and acc update for what the host reads in between",
                ),
                verify=f"sightline stats breakdown AFTER: exposed_copy_pct under {NOTABLE_PCT:.0f}",
                cause="each region maps its arrays and unmaps them again; for pageable memory "
                "the runtime stages the copies through its own buffer",
                sources=(
                    "OpenMP 5.2, target data constructs; OpenACC 3.3, data environment",
                    "NVIDIA HPC Compilers User's Guide: Staging",
                ),
            ),
            confidence="medium",
        ),
    )


def _drop_ends(run: Run, copies: pl.DataFrame) -> pl.DataFrame:
    """Without what is sent before the first kernel of a device, or fetched behind the last."""
    place = ["rank", "device_id"]
    kernels = run.table("device_ops", [*place, "kind", "start_ns"]).filter(
        pl.col("kind") == "kernel"
    )
    kernels = select_starting_in(kernels, run.ask("windows"))
    ends = kernels.group_by(place).agg(
        first=pl.col("start_ns").min(), last=pl.col("start_ns").max()
    )
    return copies.join(ends, on=place).filter(pl.col("start_ns").is_between("first", "last"))


def _list_following(run: Run, copies: pl.DataFrame) -> pl.Series:
    """Those of the copies that follow another one way on their device: their ids."""
    place = ["rank", "device_id"]
    ops = run.table("device_ops", [*place, "device_op_id", "kind", "copy_kind", "start_ns"])
    ops = ops.filter(pl.col("kind") != "memset").sort(*place, "start_ns")
    follows = pl.col("copy_kind") == pl.col("copy_kind").shift(1).over(place)
    return ops.filter(follows, pl.col("device_op_id").is_in(copies["device_op_id"].implode()))[
        "device_op_id"
    ]
