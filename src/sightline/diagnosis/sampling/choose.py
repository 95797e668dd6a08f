"""Which steps of a long run are asked for causes: those that together stand for all of it.

A run longer than what is cheap repeats its steps. Of each regime that change points of the steps'
lengths tell apart (of two halves where there is one) the block of neighboring steps is taken that
is most like the regime's mean: in length, in the time of each class, in short and in long idle
gaps. Where these do not make the run's totals, the blocks around its slowest, first and fastest
steps come in.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import polars as pl

from sightline.core.algebra.lookup import find_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.model.span import Span
from sightline.diagnosis.sampling.weights import measure_miss, weigh
from sightline.timeline.classes import COMMUNICATION, COMPUTE, COPY, classify_run
from sightline.timeline.engine_steps import list_engine_steps
from sightline.timeline.step_clock import list_steps

# A block has as many steps as fill so many rows: up to there a rule's time is that of its queries,
# and not of its rows (ours: 30,000 rows take 1.4 to 1.8 s where 150,000 take 1.7 to 2.2).
BLOCK_ROWS = 30_000
# The recorder's cost is told from the steady steps of a block, and warm-up from four of them.
LEAST_STEPS = 5
# More than so many excerpts take as long as the whole of a run that is just too large.
MOST_EXCERPTS = 4
# Excerpts that hold more of a run than this are not worth their seams.
_MOST_SHARE = 0.5
# Of the window the steps must hold so much: what lies outside of them is in no excerpt (ours).
_LEAST_COVERED = 0.9
# Excerpts stand for the run where each total is met to so much of the window (ours).
_MOST_MISS = 0.02
# Idle gaps from here on are pauses, and no part of launching: a launch takes 3 to 50 us, so that a
# thousandth of a second is none (ours).
_LONG_GAP_NS = 1_000_000
# Change points are looked for among so many values at most, the medians of neighboring steps: what
# a permutation test takes grows with them (ours).
_MOST_VALUES = 200
_MOST_REGIMES = 3

LENGTH, IDLE, PAUSES = "length", "idle", "pauses"
# What is known exactly of the run and of each excerpt, ns; the length of all devices is the first.
SUMS = (LENGTH, COMPUTE, COMMUNICATION, COPY, IDLE, PAUSES)


@dataclass(frozen=True)
class Excerpt:
    """A block of neighboring steps: why it was taken, and what lies in it.

    `first` and `last` number steps of the run from 0, `names` are theirs; `span` is in ns on the
    run's clock; `sums` are those of SUMS. It stands `weight` times in the run.
    """

    kind: str
    first: int
    last: int
    names: tuple[str, str]
    span: Span
    sums: tuple[float, ...]
    # How much of its length lies in each regime, where there are several; of the totals likewise.
    regimes: tuple[float, ...] = ()
    weight: float = 0.0

    @property
    def known(self) -> tuple[float, ...]:
        """All that its weight is found from, ns."""
        return (*self.sums, *(share * self.sums[0] for share in self.regimes))


@dataclass(frozen=True)
class Sample:
    """The excerpts of a run, how many steps it has, and its exact totals, those of SUMS.

    `weights` are the excerpts' and, behind them, those without each of them, which say by how much
    an answer rests on one excerpt.
    """

    excerpts: tuple[Excerpt, ...]
    steps: int
    totals: tuple[float, ...]
    weights: tuple[tuple[float, ...], ...]

    @property
    def asked(self) -> int:
        """How many steps lie in excerpts, each counted once."""
        return len({n for e in self.excerpts for n in range(e.first, e.last + 1)})


def choose_excerpts(run: Run, *, is_small: bool = False) -> Sample | None:
    """The excerpts that stand for a run with device operations; None where all is to be asked.

    That is a run of several ranks, or one whose steps are not known, are an inference engine's, or
    leave much of its window out. Of one that `is_small`, for tests, excerpts may be most of it.
    """
    steps = _list_even_steps(run)
    if steps is None:
        return None
    per_step = max((run.rows("device_ops") + run.rows("host_ops")) // steps.height, 1)
    size = max(LEAST_STEPS, min(BLOCK_ROWS // per_step, steps.height // 8), _measure_ahead(steps))
    # Two that overlap by less than half are two, where there are not more steps.
    least = 1.5 * size if is_small else 2 * size / _MOST_SHARE
    if least > steps.height:
        return None
    return _choose(steps, _list_sums(run), size, is_small=is_small)


def _list_even_steps(run: Run) -> pl.DataFrame | None:
    """The steps in the run's window, if they are one rank's, sure, and hold nearly all of it."""
    windows = run.ask("windows")
    if windows.get_column("rank").n_unique() != 1 or list_engine_steps(run).height:
        return None
    begin, end = (
        windows.get_column("window_start_ns").min(),
        windows.get_column("window_end_ns").max(),
    )
    steps = list_steps(run).filter((pl.col("end_ns") > begin) & (pl.col("start_ns") < end))
    if steps.height < 2 * LEAST_STEPS - 2 or (steps.get_column("confidence") == "low").any():
        return None
    inside = pl.min_horizontal("end_ns", pl.lit(end)) - pl.max_horizontal("start_ns", pl.lit(begin))
    covered = sum_column(steps.select(ns=inside), "ns")
    return steps if covered >= _LEAST_COVERED * (end - begin) else None  # type: ignore[operator]


def _measure_ahead(steps: pl.DataFrame) -> int:
    """So many steps that a block holds most of its operations' launches, also of a host far ahead.

    That is twice as many steps as the host is ahead of the device, as it is for most.
    """
    length = (pl.col("end_ns") - pl.col("start_ns")).median()
    ahead = (pl.col("start_ns") - pl.col("host_start_ns")).median()
    return math.ceil(2 * float(steps.select(ahead / length).item() or 0))


def _list_sums(run: Run) -> pl.DataFrame:
    """Each device operation with its time by class and the idle gap before it, ns.

    Only those that start in their device's window, in order of device and time; `called_ns` is
    when the host launched it, null where that is unknown.
    """
    device = ["rank", "device_id"]
    took = pl.col("end_ns") - pl.col("start_ns")
    gap = (
        (pl.col("start_ns") - pl.col("end_ns").cum_max().shift(1).over(device)).clip(0).fill_null(0)
    )
    windows = run.ask("windows").select(*device, "window_start_ns", "window_end_ns")
    host = run.table("host_ops", ["host_op_id", "start_ns"])
    ops = classify_run(run)
    calls = find_rows(host.get_column("host_op_id"), ops.get_column("launch_id"))
    return (
        ops.select(*device, "start_ns", "end_ns", "class_")
        .with_columns(called_ns=host.get_column("start_ns").gather(calls))
        .join(windows, on=device)
        .filter(pl.col("start_ns").is_between("window_start_ns", "window_end_ns"))
        .sort(*device, "start_ns", "end_ns")
        .select(
            "device_id",
            "start_ns",
            "end_ns",
            "called_ns",
            gap=gap,
            **{c: pl.when(pl.col("class_") == c).then(took).otherwise(0) for c in SUMS[1:4]},
        )
        .with_columns(
            pl.when(pl.col("gap") < _LONG_GAP_NS).then("gap").otherwise(0).alias(IDLE),
            pl.when(pl.col("gap") >= _LONG_GAP_NS).then("gap").otherwise(0).alias(PAUSES),
        )
    )


def _add_up(ops: pl.DataFrame) -> tuple[float, ...]:
    """The sums of some device operations, in the order of SUMS; the first gap is in none."""
    each = ops.group_by("device_id").agg(
        pl.col(*SUMS[1:4]).sum(),
        pl.col(IDLE, PAUSES).sum() - pl.col(IDLE, PAUSES).first(),
        length=pl.col("end_ns").max() - pl.col("start_ns").min(),
    )
    return tuple(float(value or 0) for value in each.select(pl.col(*SUMS).sum()).row(0))


def _choose(steps: pl.DataFrame, ops: pl.DataFrame, size: int, *, is_small: bool) -> Sample | None:
    totals = _add_up(ops)
    lengths = [float(ns) for ns in (steps["end_ns"] - steps["start_ns"]).to_list()]
    regimes = _find_regimes(lengths, size)
    shares = _share_out(lengths, regimes, range(len(lengths)))
    known = (*totals, *(share * totals[0] for share in shares))

    def cut(likes: Iterator[tuple[str, int]]) -> Iterator[Excerpt]:
        for kind, first in likes:
            share = _share_out(lengths, regimes, range(first, first + size))
            if (found := _cut(steps, ops, kind, first, size)) is not None:
                yield replace(found, regimes=share)

    chosen: list[Excerpt] = []
    for found in cut(_list_likely(_add_up_steps(steps, ops), lengths, regimes, size)):
        if not _is_known(found, chosen):
            chosen.append(found)
    others = list(cut(_list_special(lengths, size)))
    while chosen and len(chosen) < MOST_EXCERPTS:
        miss = _measure(chosen, known)
        left = [e for e in others if not _is_known(e, chosen)]
        if miss <= _MOST_MISS or not left:
            break
        best = min(left, key=lambda e: _measure([*chosen, e], known))
        if _measure([*chosen, best], known) >= miss:
            break
        chosen.append(best)
    if len(chosen) < 2 or (not is_small and len(chosen) * size > _MOST_SHARE * steps.height):
        return None
    weights = [weigh([e.known for e in chosen], known)]
    for out in range(len(chosen)):
        rest = weigh([e.known for i, e in enumerate(chosen) if i != out], known)
        weights.append((*rest[:out], 0.0, *rest[out:]))
    excerpts = tuple(replace(e, weight=w) for e, w in zip(chosen, weights[0], strict=True))
    return Sample(excerpts, steps.height, totals, tuple(weights))


def _share_out(
    lengths: Sequence[float], regimes: Sequence[tuple[int, int]], steps: range
) -> tuple[float, ...]:
    """How much of the length of some steps lies in each regime; nothing where there is one."""
    if len(regimes) < 2:
        return ()
    whole = sum(lengths[n] for n in steps) or 1.0
    return tuple(sum(lengths[n] for n in steps if a <= n < b) / whole for a, b in regimes)


def _measure(chosen: Sequence[Excerpt], known: Sequence[float]) -> float:
    sums = [e.known for e in chosen]
    return measure_miss(sums, known, weigh(sums, known))


def _is_known(found: Excerpt, chosen: Sequence[Excerpt]) -> bool:
    """Whether it is one of those, or the same steps for the most part."""
    half = (found.last - found.first + 1) / 2
    return any(abs(found.first - e.first) < half for e in chosen)


def _cut(
    steps: pl.DataFrame, ops: pl.DataFrame, kind: str, first: int, size: int
) -> Excerpt | None:
    """The block of steps from `first` on.

    It begins where the operation before it was launched: the gap between the two is in it, and
    what the host waited for there.
    """
    last = first + size - 1
    begin, end = steps.item(first, "start_ns"), steps.item(last, "end_ns")
    before = ops.filter(pl.col("end_ns") <= begin)
    # Where the host is ahead, the block's operations were launched before they began.
    begin = min(begin, steps.item(first, "host_start_ns"))
    if before.height:
        at = int(before.get_column("end_ns").arg_max() or 0)
        start, called = before.item(at, "start_ns"), before.item(at, "called_ns")
        # A launch of an earlier step yet is one of a host that is far ahead.
        if called is not None and first:
            called = max(called, steps.item(first - 1, "host_start_ns"))
        begin = min(begin, start, start if called is None else called)
    inside = ops.filter((pl.col("start_ns") >= begin) & (pl.col("end_ns") <= end))
    sums = _add_up(inside) if inside.height else (0.0,)
    if sums[0] <= 0:
        return None
    names = (steps.item(first, "step"), steps.item(last, "step"))
    return Excerpt(kind, first, last, names, (begin, end), sums)


def _add_up_steps(steps: pl.DataFrame, ops: pl.DataFrame) -> pl.DataFrame:
    """The sums of each step but for its length: of the operations that start in it."""
    starts = steps.get_column("start_ns")
    nth = starts.search_sorted(ops.get_column("start_ns"), side="right").cast(pl.Int64) - 1
    names = SUMS[1:]
    found = (
        ops.select(*names, nth=nth.clip(0)).group_by("nth").agg(pl.col(*names).sum()).sort("nth")
    )
    every = pl.DataFrame({"nth": pl.int_range(steps.height, dtype=pl.Int64, eager=True)})
    return every.join(found, on="nth", how="left", maintain_order="left").fill_null(0)


def _list_likely(
    of_step: pl.DataFrame,
    lengths: Sequence[float],
    regimes: list[tuple[int, int]],
    size: int,
) -> Iterator[tuple[str, int]]:
    """The first step of the block that is most like each regime's mean; of two halves of one."""
    if len(regimes) == 1:
        (since, until) = regimes[0]
        middle = (since + until) // 2
        # Each is compared with the mean of all, and not of its half.
        parts = [(since, max(middle, since + size)), (min(middle, until - size), until)]
        means = [regimes[0]] * 2
    else:
        parts, means = regimes, regimes
    sums = of_step.select(SUMS[1:]).to_numpy().astype("float64")
    rows = np.column_stack([np.asarray(lengths), sums])
    added = np.vstack([np.zeros(rows.shape[1]), rows.cumsum(axis=0)])
    for (since, until), (low, high) in zip(parts, means, strict=True):
        wanted = (added[high] - added[low]) / (high - low) * size
        blocks = added[since + size : until + 1] - added[since : until + 1 - size]
        far = np.abs(blocks - wanted).sum(axis=1)
        yield "typical", since + int(far.argmin())


def _find_regimes(lengths: Sequence[float], size: int) -> list[tuple[int, int]]:
    """The longest stretches of steps of one length, each as its first and the first behind it."""
    from sightline.core.algebra.change_points import find_changes

    each = math.ceil(len(lengths) / _MOST_VALUES)
    series = pl.Series(lengths, dtype=pl.Float64)
    values = [float(series.slice(i, each).median() or 0) for i in range(0, len(lengths), each)]  # type: ignore[arg-type]
    places = [change.at * each for change in find_changes(values)]
    edges = [0, *places, len(lengths)]
    found = [(a, b) for a, b in pairwise(edges) if b - a >= size]
    longest = sorted(found, key=lambda r: -sum(lengths[r[0] : r[1]]))[:_MOST_REGIMES]
    return sorted(longest) if longest else [(0, len(lengths))]


def _list_special(lengths: Sequence[float], size: int) -> Iterator[tuple[str, int]]:
    """The blocks around the slowest step, at the begin, and the one that takes least."""
    most = len(lengths) - size
    slowest = max(range(len(lengths)), key=lengths.__getitem__)
    yield "slowest", min(max(slowest - size // 2, 0), most)
    yield "first", 0
    yield "fastest", min(range(most + 1), key=lambda at: sum(lengths[at : at + size]))
