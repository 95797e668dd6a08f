"""Lines of the source files that a recording carries."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from sightline.core.model.run import Run


def read_source_lines(
    run: Run, places: Iterable[tuple[str | None, int | None]]
) -> list[str | None]:
    """The text of each (file, line), without its indent; None where nobody has it."""
    asked = list(places)
    known = run.scan("source_files").filter(
        pl.col("file").is_in(list({file for file, _ in asked if file is not None}))
        & pl.col("content").is_not_null()
    )
    texts = {f: c.splitlines() for f, c in known.select("file", "content").collect().iter_rows()}
    return [
        texts[file][line - 1].strip()
        if file is not None and line is not None and 0 < line <= len(texts.get(file, ()))
        else None
        for file, line in asked
    ]
