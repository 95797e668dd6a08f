"""What a reader must know of a critical path, in the words and figures of the report."""

from __future__ import annotations

import polars as pl

from sightline.answer.answer import note_ladder, note_segments
from sightline.answer.summary import list_ladder, list_segments
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.units import format_pct
from sightline.replay import critical_path as path

# The parts of a path that end with what a rung of the ladder frees (subjects/whole_run: limits).
_FREED = {
    "host": (path.HOST, path.CALL, path.LAUNCH, path.RETURN, path.UNRECORDED),
    "copies": (path.COPY,),
    "communication": (path.COMM,),
}
# In % of the window (ours): from here on a share of the path misleads without what its end gains.
_APART_PCT = 10.0


def list_path_notes(run: Run, pieces: pl.DataFrame) -> list[str]:
    """Of which part the path is, what would end with its parts, and which of them are not alone."""
    ladder = list_ladder(run)
    whole = max(sum_column(pieces, "duration_ns"), 1)
    notes = [note_segments(list_segments(run)), note_ladder(ladder)]
    for row in ladder:
        parts = _FREED.get(row["free"], ())
        mine = sum_column(pieces.filter(pl.col("part").is_in(parts)), "duration_ns")
        share = 100 * mine / whole
        if share - row["gain_pct"] >= _APART_PCT:
            notes.append(
                f"{row['free'].capitalize()}: {format_pct(share)} of this path, but freeing it "
                f"shortens the window by {format_pct(row['gain_pct'])} only: other work takes "
                "nearly as long beside it."
            )
    return [note for note in notes if note]
