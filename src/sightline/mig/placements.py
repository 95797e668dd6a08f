"""All ways in which instances can lie on a GPU.

A set of instances is valid where no two share a memory slot, their compute slices suffice, no
profile occurs more often than it may, and one at most has media extensions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from typing import NamedTuple

from sightline.mig.models import Family, Shape


class Item(NamedTuple):
    """An instance: its profile's key and its first memory slot."""

    key: str
    start: int


Layout = tuple[Item, ...]  # in order of the first slot
Counts = tuple[tuple[str, int], ...]  # of each profile, in the family's order


@cache
def list_layouts(family: Family, without: frozenset[str] = frozenset()) -> tuple[Layout, ...]:
    """Every valid set of instances, the empty one too, without the profiles of these keys."""
    shapes = [shape for shape in family.shapes if shape.key not in without]
    items = [(shape, start) for shape in shapes for start in shape.starts]
    items.sort(key=lambda item: item[1])

    def extend(chosen: tuple[tuple[Shape, int], ...], from_item: int) -> Iterator[Layout]:
        yield tuple(Item(shape.key, start) for shape, start in chosen)
        for number in range(from_item, len(items)):
            shape, start = items[number]
            # In order of their starts only the last one can overlap with the next.
            if chosen and chosen[-1][1] + chosen[-1][0].memory > start:
                continue
            if _has_room(family, [one for one, _ in chosen], shape):
                yield from extend((*chosen, items[number]), number + 1)

    return tuple(extend((), 0))


def _has_room(family: Family, chosen: Sequence[Shape], shape: Shape) -> bool:
    return (
        sum(one.compute for one in chosen) + shape.compute <= family.compute
        and sum(one.key == shape.key for one in chosen) < shape.most
        and not (shape.has_media and any(one.has_media for one in chosen))
    )


@cache
def list_maximal(family: Family, without: frozenset[str] = frozenset()) -> tuple[Layout, ...]:
    """The layouts to which nothing can be added."""
    layouts = list_layouts(family, without)
    smaller = {
        tuple(item for item in layout if item != left) for layout in layouts for left in layout
    }
    return tuple(layout for layout in layouts if layout not in smaller)


def count_profiles(layout: Layout, family: Family) -> Counts:
    """How often each profile occurs."""
    counts = Counter(item.key for item in layout)
    return tuple((shape.key, counts[shape.key]) for shape in family.shapes if counts[shape.key])


@cache
def list_mixes(family: Family, without: frozenset[str] = frozenset()) -> dict[Counts, Layout]:
    """Counts of profiles to which none can be added, each with one layout that has them.

    A maximal layout may hold fewer instances than another order of them allows (a 1g in slot 1
    keeps a 2g from slots 0 and 1), so what is maximal is decided by counts.
    """
    by_counts: dict[Counts, Layout] = {}
    for layout in list_layouts(family, without):
        by_counts.setdefault(count_profiles(layout, family), layout)
    smaller = {
        tuple((key, n - (key == left)) for key, n in counts if n - (key == left))
        for counts in by_counts
        for left, _ in counts
    }
    return {counts: layout for counts, layout in by_counts.items() if counts not in smaller}


def fill_up(family: Family, layout: Layout) -> Layout:
    """What could still be created beside a layout: most compute slices, then most memory."""
    mine = set(layout)
    best: Layout = ()
    # Media extensions are not offered, but one instance of the layout may have them.
    has_media = any(family.find_shape(item.key).has_media for item in layout)
    for other in list_layouts(family, frozenset() if has_media else frozenset({"1g+me"})):
        if mine <= {*other}:
            more = tuple(item for item in other if item not in mine)
            best = max(best, more, key=lambda items: _weigh(family, items))
    return best


def _weigh(family: Family, items: Layout) -> tuple[int, int, int]:
    shapes = [family.find_shape(item.key) for item in items]
    return sum(s.compute for s in shapes), sum(s.memory for s in shapes), -len(items)


class Waste(NamedTuple):
    """What of a GPU no instance has. `sms` None: not known."""

    compute: int
    memory: int
    sms: int | None
