"""A part of a run that is too large for its panels, opened as a run of its own."""

from __future__ import annotations

from sightline.answer.cache import identify_run
from sightline.core.model.run import Run
from sightline.core.model.span import Span
from sightline.core.model.store import Part, read_facts
from sightline.opening import cache
from sightline.opening.save import fill_excerpt


def open_part(run: Run, span: Span) -> Run:
    """What of the run lies in a span, in ns on its clock: from the cache, or made and kept there.

    Raises StoreError where the run's store is damaged or nothing can be kept.
    """
    name = f"part-{identify_run(run)}-{span[0]}-{span[1]}"
    entry = cache.find_entry(name, None) or cache.keep_entry(
        name, None, lambda folder: fill_excerpt(run, span, folder)
    )
    # Ranks and clocks are those of the run, and are not found out again from less.
    parts = [
        Part(entry, number, facts["rank"], whole.rank, number, facts)
        for number, (facts, whole) in enumerate(zip(read_facts(entry), run.parts, strict=True))
    ]
    return Run(parts, run.window)
