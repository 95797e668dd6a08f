"""Whether two sides may be compared at all, asked before any number is believed.

What blocks makes the answer 'not comparable': another contract was measured. What limits is said
beside the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import polars as pl

from sightline.compare.facts import OPTIONS
from sightline.compare.sample import Sample
from sightline.core.units import format_note, format_pct, format_several

# Boost clocks move in steps of 15 MHz, one percent; more than 5 % is another operating point
# (subjects/devices/analyses/slow_clocks.py; ROCm/FlyDSL#924 saw 14 % between bands, and kernels
# follow).
CLOCK_NOTE, CLOCK_BLOCK = 0.01, 0.05
# Under half of the calls with the same inputs it is another workload; from 95 % on, as a kernel
# tuner or a last short batch changes, it is the same (ours).
SHAPES_SAME_PCT, SHAPES_BLOCK_PCT = 95.0, 50.0
# The operators that a model is made of (PyTorch's native_functions.yaml, by their names).
_MAIN = (
    r"^aten::(?:add)?(?:b?mm|bmv|mv)$|^aten::(?:baddbmm|linear|embedding|_embedding_bag)$"
    r"|^aten::(?:cudnn_|miopen_|mkldnn_|_)?convolution$|attention"
)
# Less of the time than this in operations that are on both sides: hardly the same program (ours).
# It is asked of the side that has more: a fix takes away most of what a program did (a cache of
# keys and values, a layout, a compilation), or does it by other operations, and what is left is the
# same (lab/: 5 to 76 % of one side, 64 to 100 % of the other).
MATCHED_BLOCK_PCT, MATCHED_NOTE_PCT = 50.0, 90.0


# The main thread's time without a CPU that is worth a word: as of host-preempted.
QUEUED_NOTE_PCT = 10.0
LOST_KERNELS = "lost_kernels"  # timeline/coverage.py


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
        for look in (
            _devices,
            _count,
            _steps,
            _clocks,
            _cpus,
            _shapes,
            _tools,
            _options,
            _edges,
            _losses,
            _sketches,
        )
        for check in look(before, after)
    ]


def check_matched(
    before_ns: int, after_ns: int, busy: tuple[int, int], *, is_same_model: bool = False
) -> Check:
    """How much of each side's busy time is in operations that are on both sides, ns of a step.

    A model that is the same by its main operators' shapes may compute all of it otherwise.
    """
    shares = [100 * ns / max(all_, 1) for ns, all_ in zip((before_ns, after_ns), busy, strict=True)]
    least = min(shares)
    if not all(busy):
        return Check("operations", "ok", "nothing ran on one of the sides", *shares)
    effect = "ok" if least >= MATCHED_NOTE_PCT else "limits"
    text = (
        f"{format_pct(shares[0])} of the time before and {format_pct(shares[1])} after is in "
        "operations that are on both sides"
    )
    if max(shares) < MATCHED_BLOCK_PCT and not is_same_model:
        return Check("operations", "blocks", f"only {text}: hardly the same program", *shares)
    return Check("operations", effect, text, *shares)


def is_same_model(before: Sequence[Sample], after: Sequence[Sample]) -> bool:
    """Whether most calls of products, convolutions and the like have the same shapes."""
    share = _share_main_shapes(before[0].facts.shapes, after[0].facts.shapes)
    return share is not None and share >= SHAPES_BLOCK_PCT


def find_clock(samples: Sequence[Sample]) -> float | None:
    """The median SM clock of a side's runs in their windows, MHz, where it was sampled."""
    values = [s.facts.clock_mhz for s in samples if s.facts.clock_mhz is not None]
    return median(values) if values else None


def _devices(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    sides = [{sample.has_device for sample in side} for side in (before, after)]
    if sides[0] | sides[1] == {True, False}:
        text = "one side has a GPU's timeline, the other has none"
        yield Check("timeline", "blocks", text, *(sorted(side) for side in sides))
        return
    names = [sorted({n for s in side for n in s.facts.devices}) for side in (before, after)]
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


def _count(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    counts = [sorted({sample.devices for sample in side}) for side in (before, after)]
    worlds = [
        sorted({s.facts.world_size for s in side if s.facts.world_size is not None})
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


def _steps(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    sources = [{sample.source for sample in side} for side in (before, after)]
    counts = [sum(sample.length.count for sample in side) for side in (before, after)]
    if None in sources[0] | sources[1]:
        if sources[0] != sources[1]:
            text = (
                "one side has steps and the other has none: a step cannot be compared with a "
                "whole recording"
            )
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


def _cpus(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    """What other programs took differs from run to run, and is no work of this one's steps."""
    sides = [
        max((s.facts.queued_pct for s in side if s.facts.queued_pct is not None), default=None)
        for side in (before, after)
    ]
    told = [
        f"{format_pct(share)} of its time {when}"
        for share, when in zip(sides, ("before", "after"), strict=True)
        if share is not None
    ]
    if any(share is not None and share >= QUEUED_NOTE_PCT for share in sides):
        text = (
            f"the main thread had no CPU for {' and '.join(told)}: other programs ran, or more "
            "threads than there are CPUs, and how much they take differs from run to run"
        )
        yield Check("CPUs", "limits", text, *sides)


def _shapes(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    """How many calls of operators that both sides know have inputs that the other side has."""
    one, other = (side[0].facts.shapes for side in (before, after))
    pct = _share_shapes(one, other)
    if pct is None:
        return
    text = f"{format_pct(pct)} of the operators' calls have the same input shapes on both sides"
    main = _share_main_shapes(one, other)
    if pct < SHAPES_BLOCK_PCT and main is not None and main >= SHAPES_BLOCK_PCT:
        # A loop that became one operator, or items that a worker loads, is the same model's step.
        of = f"{format_pct(main)} of its products, convolutions, attentions and embeddings do"
        yield Check("shapes", "limits", f"only {text}, but {of}: the same model", pct, main)
    elif pct < SHAPES_BLOCK_PCT:
        hint = "another workload; --same-workload if it is the same"
        yield Check("shapes", "blocks", f"only {text}: {hint}", pct, pct)
    else:
        yield Check("shapes", "ok" if pct >= SHAPES_SAME_PCT else "limits", text, pct, pct)


def _share_main_shapes(one: pl.DataFrame, other: pl.DataFrame) -> float | None:
    """Which share of the calls that make a model's step both sides have, %; None without any."""
    main = pl.col("name").str.contains(_MAIN)
    return _share_shapes(one.filter(main), other.filter(main))


def _share_shapes(one: pl.DataFrame, other: pl.DataFrame) -> float | None:
    """Of calls of operators that both sides know, those whose inputs the other side has, %."""
    known = [
        mine.join(theirs.select("name").unique(), on="name", how="semi")
        for mine, theirs in ((one, other), (other, one))
    ]
    both = known[0].join(known[1], on=["name", "input_shapes"], how="inner")
    same = both.select(pl.min_horizontal("calls", "calls_right").sum()).item()
    most = max(k.get_column("calls").sum() for k in known)
    return 100 * same / most if most else None


_RUNTIME = "runtime "  # as importers.kineto begins such a version
_TOOLS = (
    ("tool", "tools", "profilers"),
    ("tool version", "versions", "versions of the profiler"),
)


def _tools(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    for name, key, what in _TOOLS:
        sides = [sorted({v for s in side for v in getattr(s.facts, key)})
                 for side in (before, after)]  # fmt: skip
        if all(sides) and sides[0] != sides[1]:
            # PyTorch's profiler states no version of its own, but CUDA's or HIP's.
            if all(v.startswith(_RUNTIME) for side in sides for v in side):
                what = "versions of the GPU's runtime"
            shown = [", ".join(v.removeprefix(_RUNTIME) for v in side) for side in sides]
            text = f"different {what} may cost different time: {shown[0]} before, {shown[1]} after"
            yield Check(name, "limits", text, *sides)
            return


def _options(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    """What only one side recorded costs that side's host time."""
    for option, what in OPTIONS.items():
        sides = [any(option in s.facts.options for s in side) for side in (before, after)]
        if sides[0] != sides[1]:
            where = "before" if sides[0] else "after"
            text = f"{what} were recorded {where} only, which adds to its host time"
            yield Check(what, "limits", text, *sides)


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
        lost = {kind: (text, count) for s in side for kind, text, count in s.facts.losses}
        for kind, (text, count) in lost.items():
            told = f"{name}: {format_note(count, text)}"
            if kind == LOST_KERNELS:
                told += ". Compute, idle time and launches are not comparable"
            yield Check(kind, "limits", told)


def _sketches(before: Sequence[Sample], after: Sequence[Sample]) -> Iterator[Check]:
    """A fingerprint says less than a recording."""
    samples = (*before, *after)
    if any(sample.run is None for sample in samples):
        text = (
            "one side is a fingerprint: kernel families are compared instead of kernels; host "
            "time and findings are not compared"
        )
        yield Check("fingerprint", "limits", text)


_LOOKS = (
    *(_devices, _count, _steps, _clocks, _shapes),
    *(_tools, _options, _edges, _losses, _sketches),
)
