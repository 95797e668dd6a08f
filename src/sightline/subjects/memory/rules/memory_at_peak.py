"""What the memory holds at its peak, and what makes each kind of it smaller.

Symptom
    A recording of the memory in which nothing is wrong, and which is still full.

Why it hurts
    It need not: it says what would have to be smaller.

Evidence
    The blocks at the peak by what they hold (`sightline stats peak_blocks`), and how much lower the
    peak would be without each kind (`sightline stats memory_what_if`).

Threshold
    None: a remark, about recordings without a timeline.

Fix
    Of the largest kind: in a smaller type, divided over GPUs, computed again, or not made at all.

False positives
    None: it judges nothing.

References
    PyTorch, "Understanding CUDA Memory Usage"; Rajbhandari et al., ZeRO (arXiv 1910.02054),
    section 3, "Where did all the memory go?".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._kinds import advise_less, sum_kinds
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    list_places,
    locate_device,
    name_device,
    select_device,
    write_share,
)
from sightline.subjects.memory.tensor_kinds import EARLIER

RULE = Rule("memory-at-peak", "What fills the memory at its peak")
_MOST = 4
# So much of the peak in a few blocks of one place: what is made there is large as a whole (ours).
_LARGE_PCT, _FEW_BLOCKS = 40.0, 3
_OF_EARLIER = advise_less(EARLIER)
_IN_PIECES = (
    "make it in pieces: of a model's logits take the loss in chunks (a fused linear cross-entropy) "
    "or those of the last position alone, hold them in half precision, and free the last round's "
    "(del) before the next is computed"
)


def check(run: Run) -> Iterator[Finding]:
    """One remark for each device of a recording of the memory alone."""
    if run.rows("device_ops") or run.rows("host_ops"):
        return
    if not (run.columns("memory_events", ["action"]).get_column("action") == "alloc").any():
        return  # without a history there is no peak, but what is held: memory-held
    for peak in find_device_peaks(run).iter_rows(named=True):
        whole = peak["allocated_bytes"]
        blocks = select_device(run.ask("peak_blocks"), peak)
        kinds = sum_kinds(run, peak, blocks)
        if kinds.is_empty():
            continue
        most, size = kinds.row(0)
        shares = ", ".join(
            f"{kind} {write_share(b, whole)}" for kind, b in kinds.head(_MOST).rows()
        )
        without = select_device(run.ask("memory_what_if"), peak).filter(
            pl.col("of") == "kind", pl.col("without") == most
        )
        lower = sum_column(without, "gain_bytes")
        place = _find_large(blocks, whole)
        seen = _find_seen(run, peak, blocks) if most == EARLIER else None
        yield build_finding(
            RULE,
            f"At the peak of {format_bytes(whole)} on {name_device(peak)}: {shares}."
            + (f" {place}" if place else ""),
            Evidence(
                [
                    *list_places(blocks.filter(pl.col("kind") == most)),
                    *(
                        [f"without {most}, the peak would be {format_bytes(lower)} lower"]
                        if without.height
                        else []
                    ),
                    *(seen.lines if seen else ()),
                ],
                where=locate_device(peak),
            ),
            Advice(
                fix="where less is needed: "
                + (_IN_PIECES if place else seen.fix if seen else advise_less(most)),
                verify="sightline stats memory_peak AFTER: allocated_bytes",
                sources=("PyTorch, Understanding CUDA Memory Usage", "ZeRO (arXiv 1910.02054)"),
            ),
            price=price_part(size, None, whole, "bytes"),
            method="the blocks that are allocated at the peak",
            severity="info",
        )


class _Seen(NamedTuple):
    """Of a peak that is mostly from before the recording: what in it the recording saw made."""

    lines: tuple[str, ...]
    fix: str


def _find_seen(run: Run, peak: dict[str, Any], blocks: pl.DataFrame) -> _Seen | None:
    """None where that is little; else its largest places, and the one without which most is won."""
    whole = peak["allocated_bytes"]
    known = blocks.filter(pl.col("kind") != EARLIER)
    size = sum_column(known, "bytes")
    if 100 * size < NOTABLE_PCT * whole:
        return None
    places = select_device(run.ask("memory_what_if"), peak).filter(pl.col("of") == "place")
    best = places.sort("gain_bytes", "without", descending=[True, False]).head(1)
    of_best = known.filter(pl.col("place").is_in(best.get_column("without").to_list()))
    blocks_of_best = sum_column(of_best, "blocks")
    gain = sum_column(best, "gain_bytes")
    lines = [f"while it was recorded, {format_bytes(size)} of it were made:", *list_places(known)]
    if of_best.is_empty() or 100 * gain < NOTABLE_PCT * whole:
        kind = known.group_by("kind").agg(pl.col("bytes").sum()).sort("bytes", "kind").item(-1, 0)
        return _Seen(tuple(lines), f"{advise_less(kind)}; of what is from earlier: {_OF_EARLIER}")
    place = best.item(0, "without")
    lines.append(f"without {place}, the peak would be {format_bytes(gain)} lower")
    way = _IN_PIECES if blocks_of_best <= _FEW_BLOCKS else advise_less(of_best.item(0, "kind"))
    return _Seen(tuple(lines), f"begin with {place}: {way}; of what is from earlier: {_OF_EARLIER}")


def _find_large(blocks: pl.DataFrame, whole: int) -> str | None:
    """What a few blocks of one place are that are most of the peak by themselves."""
    places = (
        blocks.filter(
            pl.col("place").is_not_null() & pl.col("kind").is_in(["temporary", "activation"])
        )
        .group_by("place")
        .agg(pl.col("bytes", "blocks").sum())
        .filter(pl.col("blocks") <= _FEW_BLOCKS, 100 * pl.col("bytes") >= _LARGE_PCT * whole)
        .sort("bytes", "place")
    )
    if places.is_empty():
        return None
    place, size, count = places.row(-1)
    return f"{place} holds {format_bytes(size)} of it in {format_several(count, 'block')}."
