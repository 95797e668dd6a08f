"""The same kernel with as many threads in blocks of another shape was much faster.

Symptom
    Launches of one kernel over the same number of threads, in blocks of different shapes, of which
    one is much slower than the other. The number may differ by what a last block, in each
    direction of the grid, has too many of.

Why it hurts
    The shape decides which addresses the threads of a warp touch together, how many blocks an SM
    holds, and how the work divides. The recording itself holds the faster choice.

Evidence
    Median time of the launches by block shape. Whether occupancy or access is the reason, the
    metrics of the two tell, where they were recorded.

Threshold
    1.2 times the time of the fastest shape (ours: launches of one shape differ by less under locked
    clocks). What is above the fastest shape's time is the gain.

Fix
    Launch with the shape of the fastest.

False positives
    Launches that do another amount of work with as many threads.

References
    CUDA C++ Best Practices Guide, "Thread and Block Heuristics": choose the shape by experiment.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.diagnosis.kernel_bounds import WAITS, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.profiled import NOTE_PCT
from sightline.roofline.chart import shorten_name
from sightline.roofline.facts import TIME
from sightline.subjects.ncu._shapes import Shape, group_shapes

RULE = Rule(
    "ncu-block-shape",
    "Another block shape is faster",
    explains=(*WAITS, "ncu-occupancy-limit", "ncu-occupancy-achieved", "ncu-bank-conflicts"),
)
TIMES = 1.2


def check(run: Run) -> Iterator[Finding]:
    """One finding per kernel that was launched in several shapes."""
    every = [c for c in load_cases(run, (TIME,), "--section LaunchStats") if c.facts.ns]
    total = sum(c.time_ns for c in every) or 1.0
    for name, launch, shapes in group_shapes(every):
        found = _judge(name, launch.threads, shapes, total, len(every))
        if found is not None:
            yield found


def _judge(
    name: str, threads: int, shapes: dict[Shape, list[Case]], total: float, count: int
) -> Finding | None:
    times = {shape: median(c.time_ns for c in cases) for shape, cases in shapes.items()}
    best = min(times, key=lambda shape: times[shape])
    slow = [s for s in times if times[s] >= TIMES * times[best]]
    if not slow:
        return None
    gain = sum(max(0.0, c.time_ns - times[best]) for s in slow for c in shapes[s])
    worst = max(slow, key=lambda s: times[s])
    launches = sum(len(shapes[s]) for s in slow)
    lines = [
        f"{_name(shape)}: {format_ns(round(took))}, "
        f"{format_several(len(shapes[shape]), 'launch', 'launches')}"
        for shape, took in sorted(times.items(), key=lambda row: row[1])
    ]
    pct = 100 * gain / total
    return build_finding(
        RULE,
        f"With blocks of {_name(worst)} it takes {times[worst] / times[best]:.1f} times as long as "
        f"with {_name(best)}, over the same {format_several(threads, 'thread')}.",
        Evidence(
            lines,
            where={
                "kernel": name,
                "kernel_ids": [c.kernel_id for s in slow for c in shapes[s]],
                "fastest": list(best),
            },
        ),
        Advice(
            fix=f"launch it in blocks of {_name(best)}; the memory sections of both (ncu --set "
            "full) show why the others are slower: which addresses the threads of a warp touch "
            "together, or how many blocks an SM holds",
            verify="sightline stats launch_shape AFTER: one shape, the fastest",
            cause=f"{format_several(launches, 'launch', 'launches')} of {count} in slower shapes",
        ),
        price=(make_price(round(gain), "ns", pct), make_price(round(gain), "ns")),
        title=f"{RULE.title}: {shorten_name(name)}",
        severity="warning" if pct >= NOTE_PCT else "info",
        confidence="medium",
    )


def _name(shape: Shape) -> str:
    return " × ".join(str(size) for size in shape if size > 1 or size == shape[0])
