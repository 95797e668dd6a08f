"""One recording given twice, as a copy or as a report and its export: it is read once."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from sightline.core.model.declare import Quality
from sightline.opening.given import EPOCH_NS, Given, name_both
from sightline.opening.recognise import list_importers


def drop_repeats(given: Sequence[Given]) -> tuple[list[Given], list[Quality]]:
    """What was given without what stands in it twice, and notes that say which of two is read.

    Two are one where their bytes are the same, or where one tool says in two formats of a session
    that it began and ended at the same nanoseconds. What states another rank is another recording
    whatever its bytes are.
    """
    # Of a report and its export the one is kept that holds more, as in a folder.
    weight = {importer.name: len(importer.supersedes) for importer in list_importers()}
    by_weight = sorted(
        given, key=lambda one: -max((weight.get(f, 0) for f in one.formats), default=0)
    )
    known: dict[Hashable, Given] = {}
    gone: set[int] = set()
    notes: list[Quality] = []
    for one in by_weight:
        marks = list(_list_marks(one))
        twins = (known[mark] for mark in marks if mark in known)
        twin = next((other for other in twins if _is_twin(one, other)), None)
        if twin is None:
            known.update(dict.fromkeys(marks, one))
            continue
        gone.add(id(one))
        what = "are files of one session" if one.formats != twin.formats else "have the same bytes"
        name, first = name_both(one, twin)
        text = f"{name} is left out: it and {first} {what}"
        notes.append(Quality("repeated_recording", "info", text))
    return [one for one in given if id(one) not in gone], notes


def _list_marks(one: Given) -> Iterator[Hashable]:
    """What only a repeat of it has in common with it."""
    if not one.has_timeline:  # counters and snapshots of two machines can be alike
        return
    contents = one.list_facts("content")
    if contents and len(contents) == len(one.members):
        yield ("content", *contents, one.ranks)
    if len(one.members) == 1 and one.list_facts("start_ns") and one.list_facts("end_ns"):
        begin, end = one.span
        if end > begin >= EPOCH_NS:
            yield ("session", *one.list_facts("tool"), begin, end, one.ranks)


def _is_twin(one: Given, other: Given) -> bool:
    """Whether the two are of one format and content, or of two formats and one session."""
    same = one.list_facts("content") == other.list_facts("content")
    return same or one.formats.isdisjoint(other.formats)
