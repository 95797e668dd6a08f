"""Theoretical occupancy over each launch setting, as curves with the launch's own marked."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.run import Run
from sightline.core.page.declare import Block
from sightline.roofline.facts import Facts, load_facts
from sightline.roofline.launch import METRICS, read_limits_and_launch
from sightline.roofline.occupancy import change_setting, compute_occupancy


def draw_occupancy_curves(run: Run, kernel: int) -> Iterator[Block]:
    """One block of three curves; none where the limits of the device are not known."""
    facts = next(f for f in run.once(_read_facts) if f.row["kernel_id"] == kernel)
    known = read_limits_and_launch(facts)
    if known is None:
        return
    limits, launch = known
    ranges = {
        "registers": range(1, limits.max_registers_per_thread + 1),
        "threads": range(limits.warp_size, limits.max_block_threads + 1, limits.warp_size),
        "shared_bytes": range(0, limits.shared_bytes + 1, limits.shared_unit),
    }
    curves = []
    for setting, values in ranges.items():
        current = getattr(launch, setting)
        others = (
            (v, compute_occupancy(limits, change_setting(launch, setting, v))) for v in values
        )
        steps = _list_steps([(v, other.pct) for v, other in others])
        curves.append(
            {
                "label": _TITLES[setting],
                "x": [x for x, _ in steps],
                "y": [y for _, y in steps],
                "end": values[-1],
                "current": [current, compute_occupancy(limits, launch).pct],
            }
        )
    yield {"kind": "curves", "title": "Theoretical occupancy by launch setting", "curves": curves}


_TITLES = {
    "registers": "registers of a thread",
    "threads": "threads of a block",
    "shared_bytes": "shared memory of a block, bytes",
}


def _list_steps(points: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The points at which the value becomes another."""
    return [p for i, p in enumerate(points) if i == 0 or points[i - 1][1] != p[1]]


def _read_facts(run: Run) -> list[Facts]:
    return load_facts(run, METRICS)
