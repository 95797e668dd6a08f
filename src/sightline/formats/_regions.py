"""Regions that warps marked within a kernel: paths by nesting, with what is each one's own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from sightline.core.model.stack_trie import Frame
from sightline.core.text import replace_surrogates


def list_regions(
    spans: Iterable[tuple[Hashable, float, float, str]],
) -> Iterator[tuple[tuple[Frame, ...], int]]:
    """Each region's path within its warp, and its own length: without that of regions in it.

    `spans`: lane (a warp), start, end and name. A region that ends behind the one in which it
    begins lies in none.
    """
    lanes: dict[Hashable, list[tuple[float, float, str]]] = {}
    for lane, start, end, name in spans:
        lanes.setdefault(lane, []).append((start, end, name))
    for listed in lanes.values():
        listed.sort(key=lambda s: (s[0], -s[1]))
        open_: list[tuple[float, tuple[Frame, ...]]] = []
        own: dict[tuple[Frame, ...], float] = {}
        for start, end, name in listed:
            while open_ and (open_[-1][0] <= start or end > open_[-1][0]):
                open_.pop()
            above = open_[-1][1] if open_ else ()
            path = (*above, Frame("phase", replace_surrogates(name)))
            own[path] = own.get(path, 0.0) + end - start
            if above:
                own[above] -= end - start
            open_.append((end, path))
        yield from ((path, round(length)) for path, length in own.items() if length >= 0)
