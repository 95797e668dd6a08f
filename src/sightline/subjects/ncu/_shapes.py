"""Launches of one kernel over the same threads, in blocks of several shapes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import prod

from sightline.diagnosis.kernel_bounds import Case

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchShape:
    """The blocks of a launch, and how many of them its grid has in each direction."""

    block: Shape
    grid: Shape

    @property
    def threads(self) -> int:
        """Threads of the whole launch."""
        return prod(self.block) * prod(self.grid)


def group_shapes(
    cases: Iterable[Case],
) -> Iterator[tuple[str, LaunchShape, dict[Shape, list[Case]]]]:
    """Launches of one kernel over as many threads, by the shape of their blocks.

    With the kernel's name and the launch over the fewest threads of each group.
    """
    by_name: dict[str, list[tuple[LaunchShape, Case]]] = defaultdict(list)
    for case in cases:
        launch = _read_launch(case)
        if launch is not None:
            by_name[case.facts.row["name"] or ""].append((launch, case))
    for name, each in by_name.items():
        for launch, shapes in _group_alike(each):
            yield name, launch, shapes


def _group_alike(
    cases: Iterable[tuple[LaunchShape, Case]],
) -> Iterator[tuple[LaunchShape, dict[Shape, list[Case]]]]:
    """The launches over as many threads, by shape; each with the one over the fewest."""
    groups: list[tuple[LaunchShape, dict[Shape, list[Case]]]] = []
    for launch, case in sorted(cases, key=lambda row: row[0].threads):
        shapes = next((shapes for first, shapes in groups if _is_alike(first, launch)), None)
        if shapes is None:
            shapes = defaultdict(list)
            groups.append((launch, shapes))
        shapes[launch.block].append(case)
    yield from groups


def _is_alike(one: LaunchShape, other: LaunchShape) -> bool:
    """Whether two launches have as many threads, but for those too many of a last block."""
    if abs(one.threads - other.threads) < max(prod(one.block), prod(other.block)):
        return True
    return all(
        abs(one.block[k] * one.grid[k] - other.block[k] * other.grid[k])
        < max(one.block[k], other.block[k])
        for k in range(3)
    )


def _read_launch(case: Case) -> LaunchShape | None:
    row = case.facts.row
    block = tuple(row.get(f"block_{axis}") or 0 for axis in "xyz")
    grid = tuple(row.get(f"grid_{axis}") or 0 for axis in "xyz")
    if len(block) != 3 or len(grid) != 3 or not all((*block, *grid)):
        return None
    return LaunchShape(block, grid)
