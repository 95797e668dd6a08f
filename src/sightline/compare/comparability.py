"""Whether two sides may be compared at all, asked before any number is believed.

What blocks makes the answer 'not comparable': another contract was measured. What limits is said
beside the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl

from sightline.analyses.slow_clocks import CLOCK
from sightline.compare.sample import Sample
from sightline.units import format_count, format_pct, format_several

# Boost clocks move in steps of 15 MHz, one percent; more than 5 % is another operating point
# (analyses/slow_clocks.py; ROCm/FlyDSL#924 saw 14 % between bands, and kernels follow).
CLOCK_NOTE, CLOCK_BLOCK = 0.01, 0.05
# Under half of the calls with the same inputs it is another workload; from 95 % on, as a kernel
# tuner or a last short batch changes, it is the same (ours).
SHAPES_SAME_PCT, SHAPES_BLOCK_PCT = 95.0, 50.0
# Less of the time than this in operations that are on both sides: hardly the same program (ours).
MATCHED_BLOCK_PCT, MATCHED_NOTE_PCT = 50.0, 90.0


@dataclass(frozen=True)
class Check:
    """One thing that was looked at: `effect` is ok, limits or blocks; `text` says what was found.

    `before` and `after` are what the sides have.
    """

    check: str
    effect: str
    text: str
    before: Any = None
    after: Any = None


def check_sides(before: Sequence[Sample], after: Sequence[Sample]) -> list[Check]:
    """All checks that need no matched operations, in the order of their weight."""
    return [
        check
        for look in (_devices, _count, _steps, _clocks, _shapes, _tools, _options, _edges, _losses)
        for check in look(before, after)
    ]


def check_matched(before_ns: int, after_ns: int, busy: tuple[int, int]) -> Check:
    """How much of both sides' busy time is in operations that are on both sides, ns of a step."""
    shares = [100 * ns / max(all_, 1) for ns, all_ in zip((before_ns, after_ns), busy, strict=True)]
    least = min(shares)
    if not all(busy):
        return Check("operations", "ok", "nothing ran on one of the sides", *shares)
    effect = "ok" if least >= MATCHED_NOTE_PCT else "limits"
    text = (
        f"{format_pct(shares[0])} of the time before and {format_pct(shares[1])} after is in "
        "operations that are on both sides"
    )
    if least < MATCHED_BLOCK_PCT:
        return Check("operations", "blocks", f"only {text}: hardly the same program", *shares)
    return Check("operations", effect, text, *shares)


def find_clock(samples: Sequence[Sample]) -> float | None:
    """The median SM clock of a side's runs in their windows, MHz, where it was sampled."""
    return _agree(samples, _read_clock, median)


def _devices(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    sides = [{sample.has_device for sample in side} for side in (before, after)]
    if sides[0] | sides[1] == {True, False}:
        text = "one side has a GPU's timeline, the other has none"
        yield Check("timeline", "blocks", text, *(sorted(side) for side in sides))
        return
    names = [sorted({n for s in side for n in list_device_names(s)}) for side in (before, after)]
    if not all(names):
        if sides[0] == {True}:
            yield Check("GPU", "limits", "a side does not say on which GPU it ran", *names)
        return
    told = [" and ".join(side) for side in names]
    if names[0] != names[1]:
        text = f"before ran on {told[0]}, after on {told[1]}"
        yield Check("GPU", "blocks", text, *told)
    else:
        yield Check("GPU", "ok", f"both ran on {told[0]}", *told)


def list_device_names(sample: Sample) -> list[str]:
    """What the GPUs are called that did something in a run.

    Where they are numbered otherwise than those that the recording describes, and these are all
    alike, it is those.
    """
    used = sample.run.table("device_ops").select("rank", "device_id").unique()
    devices = sample.run.table("devices").drop_nulls("name")
    mine = devices.join(used, on=["rank", "device_id"], how="semi").get_column("name").unique()
    every = devices.get_column("name").unique()
    return sorted(mine if mine.len() else every if every.len() == 1 else [])


def _count(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    counts = [sorted({sample.devices for sample in side}) for side in (before, after)]
    worlds = [
        sorted({size for sample in side if (size := _read_world(sample)) is not None})
        for side in (before, after)
    ]
    text = " and ".join
    told = [text(map(str, side)) for side in counts]
    if counts[0] != counts[1] and before[0].has_device:
        yield Check("devices", "blocks", f"before ran on {told[0]} GPUs, after on {told[1]}", *told)
    elif all(worlds) and worlds[0] != worlds[1]:
        told = [text(map(str, side)) for side in worlds]
        yield Check(
            "ranks", "blocks", f"the job had {told[0]} ranks before and {told[1]} after", *told
        )


def _read_world(sample: Sample) -> int | None:
    size = sample.run.table("recordings").get_column("world_size").max()
    return size if isinstance(size, int) else None


def _steps(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    sources = [{sample.source for sample in side} for side in (before, after)]
    counts = [sum(len(sample.steps) for sample in side) for side in (before, after)]
    if None in sources[0] | sources[1]:
        if sources[0] != sources[1]:
            text = "one side has steps and the other has none: a step is no whole recording"
            yield Check("steps", "blocks", text, *counts)
            return
        text = "no steps are known on either side: whole recordings are compared"
        yield Check("steps", "limits", text, *counts)
        return
    if sources[0] != sources[1]:
        told = [" and ".join(sorted(map(str, side))) for side in sources]
        text = f"steps are known from {told[0]} before, and from {told[1]} after"
        yield Check("steps", "limits", text, *told)
        return
    several = [format_several(n, "step") for n in counts]
    yield Check("steps", "ok", f"{several[0]} before, {several[1]} after", *counts)


def _clocks(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    sides = [find_clock(side) for side in (before, after)]
    if sides[0] is None or sides[1] is None:
        if before[0].has_device:
            text = "clocks were not recorded on both sides: a change of clock would look like one"
            yield Check("clock", "limits", text, *sides)
        return
    change = sides[1] / sides[0] - 1
    word = "lower" if change < 0 else "higher"
    size = abs(change)
    text = (
        f"the SM clock was {format_pct(100 * size)} {word} after "
        f"({sides[1]:.0f} instead of {sides[0]:.0f} MHz)"
    )
    effect = "blocks" if size > CLOCK_BLOCK else "limits" if size > CLOCK_NOTE else "ok"
    yield Check("clock", effect, text, *sides)


def _read_clock(sample: Sample) -> float | None:
    if not sample.has_device:
        return None
    counters = sample.run.scan("counters").filter(
        pl.col("metric").str.contains(CLOCK), pl.col("value") > 0
    )
    since, until = _find_span(sample)
    known = counters.filter(pl.col("time_ns") <= until).sort("time_ns").collect()
    inside = known.filter(pl.col("time_ns") >= since)
    # A clock that changed before the window, and was not sampled since, is still that.
    value = (inside if inside.height else known.tail(1)).get_column("value").median()
    if not isinstance(value, float):
        return None
    return value / 1e6 if value >= 1e6 else value  # some tools count Hz


def _find_span(sample: Sample) -> tuple[int, int]:
    """From the first device's window to the last one's, ns."""
    windows = sample.run.ask("windows")
    span = windows.select(pl.col("window_start_ns").min(), pl.col("window_end_ns").max())
    return span.row(0)


def _agree(
    samples: Sequence[Sample],
    read: Callable[[Sample], float | None],
    merge: Callable[[list[float]], float],
) -> float | None:
    values = [value for sample in samples if (value := read(sample)) is not None]
    return merge(values) if values else None


def _shapes(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    """How many calls of operators that both sides know have inputs that the other side has."""
    one, other = (_count_shapes(side[0]) for side in (before, after))
    if one.is_empty() or other.is_empty():
        return
    known = [
        mine.join(theirs.select("name").unique(), on="name", how="semi")
        for mine, theirs in ((one, other), (other, one))
    ]
    both = known[0].join(known[1], on=["name", "input_shapes"], how="inner")
    same = both.select(pl.min_horizontal("calls", "calls_right").sum()).item()
    most = max(k.get_column("calls").sum() for k in known)
    if not most:
        return
    pct = 100 * same / most
    text = f"{format_pct(pct)} of the operators' calls have the same input shapes on both sides"
    if pct < SHAPES_BLOCK_PCT:
        yield Check("shapes", "blocks", f"only {text}: another workload", pct, pct)
    else:
        yield Check("shapes", "ok" if pct >= SHAPES_SAME_PCT else "limits", text, pct, pct)


def _count_shapes(sample: Sample) -> pl.DataFrame:
    """Calls of operators per step in the window, by name and shapes of their inputs."""
    run = sample.run
    host = run.scan("host_ops").filter(
        pl.col("layer") == "op", pl.col("input_shapes").is_not_null()
    )
    if sample.has_device and sample.source is not None:
        since, until = _find_span(sample)
        host = host.filter(pl.col("start_ns").is_between(since, until, closed="left"))
    return (
        host.group_by("name", "input_shapes")
        .agg(calls=pl.len() / max(sample.count, 1))
        .collect()
        .with_columns(calls=pl.col("calls").round(3))
    )


def _tools(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    for column, what in (("tool", "profilers"), ("tool_version", "versions of the profiler")):
        sides = [_list_values(side, column) for side in (before, after)]
        if all(sides) and sides[0] != sides[1]:
            text = f"other {what} cost other time: {', '.join(sides[0])} and {', '.join(sides[1])}"
            yield Check(column.replace("_", " "), "limits", text, *sides)
            return


def _list_values(side: Sequence[Sample], column: str) -> list[str]:
    values = {
        v for s in side for v in s.run.table("recordings").get_column(column).drop_nulls().to_list()
    }
    return sorted(map(str, values))


_OPTIONS = {"has_stacks": "Python stacks", "has_shapes": "input shapes"}


def _options(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    """What only one side recorded costs that side's host time."""
    for column, what in _OPTIONS.items():
        sides = [
            {v for s in side for v in s.run.table("recordings").get_column(column).to_list()}
            for side in (before, after)
        ]
        if True in sides[0] ^ sides[1]:
            where = "before" if True in sides[0] else "after"
            text = f"{what} were recorded {where} only, which costs its host time"
            yield Check(what, "limits", text, *(True in side for side in sides))


def _edges(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    """What ran on at the recording's begin is part of something before it."""
    counts = [sum(sample.left_out for sample in side) for side in (before, after)]
    for name, count in zip(("before", "after"), counts, strict=True):
        if count:
            text = (
                f"{name}: {format_several(count, 'operation')} launched before the recording "
                "began left out"
            )
            yield Check("left out", "limits", text, *counts)


def _losses(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    """What importers could not read."""
    for name, side in (("before", before), ("after", after)):
        rows = pl.concat([sample.run.table("quality") for sample in side])
        lost = rows.filter(pl.col("severity") == "error").unique("kind", maintain_order=True)
        for row in lost.iter_rows(named=True):
            count = "" if row["count"] is None else f"{format_count(row['count'])} "
            yield Check(str(row["kind"]), "limits", f"{name}: {count}{row['text']}")
