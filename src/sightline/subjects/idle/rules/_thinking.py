"""What the launching thread did while the device waited for it, as lines of evidence.

Ranges name it where there are any (`Claim.host_op`). Where there are none, the profiler's CPU
samples do, which fall into the same time on the same thread; without samples, the calls on either
side say where in the program it is.
"""

from __future__ import annotations

import re

import polars as pl

from sightline.core.algebra.lookup import find_rows, match_names, take_rows
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.core.text import fit_text
from sightline.core.units import format_count, format_pct
from sightline.diagnosis.gaps import NO_RANGE, Claim
from sightline.timeline.runtimes import AGAIN, RANGE, Runtime, find_runtimes, list_runtimes
from sightline.timeline.sampled_functions import count_functions, sort_samples
from sightline.timeline.sampled_runtimes import list_sampled_runtimes

_THREAD = ["rank", "pid", "tid"]
_MOST_GAPS = 1000  # the longest: they hold nearly all of the time, and are looked up one by one
_LEAST_SAMPLES = 10  # ours: fewer fall where they do by chance
_TOP = 3
_TRACE = ["rank", "recording_id"]
# Where each program is (the C runtime's start, `main`, a thread's start), what has no name, and the
# templates of the C++ and the Rust standard library, which stand for who uses them.
_OF_ALL = (
    r"^(?:0x|\[|_?_?start|main$|__libc_|start_thread|_?_?clone|__GI_|std::|__gnu_cxx::|core::|alloc::|"
    r"operator |(?:void|bool|int|auto|float|double|unsigned long|long) std::)"
    r"|^(?:decltype|typename|std::\S+ std::)|std::thread|::_Invoker|__invoke"
)
# Libraries of the system and of the GPU's vendor (ldconfig's folders; CUDA's and ROCm's names).
_SYSTEM = (
    r"^/(?:usr/)?lib|^/opt/(?:rocm|nvidia)"
    r"|lib(?:cuda|cudart|nv|c|m|stdc|amdhip|hsa|pthread)[\w+.-]*\.so"
)
_WIDTH = 40  # of a name: three stand in a line
# Calls in which a program is; driver calls lie inside those of the runtime.
_CALLS = ["runtime", "driver", "mpi", "library", "os"]
# How such a line ends where nothing but the program itself ran between two calls.
OWN_CODE = "in the program's own code"
# What compilers put around a launch in the triple-chevron syntax: no place that a person knows.
_HIDDEN = r"^__?(?:cuda|hip)(?:Push|Pop)CallConfiguration"


def describe_thinking(run: Run, claim: Claim) -> list[str]:
    """The claim's evidence, with what the launching threads did where no range says so."""
    sampled, around = _look_inside(run, claim.gaps)
    known = [line for line in claim.evidence if not sampled or line != NO_RANGE]
    return [*known, *sampled, *around]


def find_runtime(run: Run, claim: Claim) -> Runtime | None:
    """What holds launching threads again and again and was theirs for most of these gaps.

    A garbage collector, or waiting for other ranks: by the range that takes most of the time, else
    by more than half of the samples there.
    """
    rows = list_runtimes()
    by_range = find_runtimes(pl.Series([claim.host_op], dtype=pl.String), RANGE).item()
    if by_range is not None:
        return rows[by_range] if rows[by_range].kind in AGAIN else None
    inside = _list_runtimes_there(run, claim)
    mine = inside.get_column("runtime").drop_nulls()
    if inside.height < _LEAST_SAMPLES or 2 * mine.len() <= inside.height:
        return None
    return rows[int(mine.mode().sort().item(0))]


def split_by_runtime(run: Run, claim: Claim) -> list[tuple[Claim, Runtime | None]]:
    """The gaps in which most samples are of such a runtime, and the others; one where all are."""
    inside = _list_runtimes_there(run, claim)
    if not inside.is_empty():
        share = inside.group_by("start_ns").agg(pl.col("runtime").is_not_null().mean())
        mine = share.filter(pl.col("runtime") > 0.5).get_column("start_ns").implode()
        is_mine = pl.col("start_ns").is_in(mine)
        held = claim.select_part(run, is_mine)
        if held.cost_ns and (runtime := find_runtime(run, held)):
            rest = claim.select_part(run, ~is_mine)
            return [(held, runtime), (rest, find_runtime(run, rest))]
    return [(claim, find_runtime(run, claim))]


def _list_runtimes_there(run: Run, claim: Claim) -> pl.DataFrame:
    """The samples in these gaps, with the row of such a runtime, or null."""
    samples = list_sampled_runtimes(run)
    if samples.is_empty():
        return samples
    again = [row for row, known in enumerate(list_runtimes()) if known.kind in AGAIN]
    known = pl.when(pl.col("runtime").is_in(again)).then("runtime")
    return _keep_inside(samples, _place_gaps(run, claim.gaps)).with_columns(runtime=known)


def find_function(run: Run, claim: Claim) -> str | None:
    """The program's function that more than half of the samples in these gaps lie in or below.

    The innermost one: what it calls of the language's library tells nobody where it is, and nor
    does the function that the program begins with.
    """
    name = _name_most(run, _list_samples(run, _place_gaps(run, claim.gaps)))[0]
    return None if name is None else shorten_signature(name)


def shorten_signature(name: str) -> str:
    """A function of C++ or Rust without its parameters, or its hash: 'Points::clear'."""
    name = re.sub(r"(?:\(\) )?(?:const)?$", "", re.sub(r"::h[0-9a-f]{16}$", "", name)).strip()
    depth = 0
    for at in range(len(name) - 1, 0, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if name.endswith(")") and depth == 0:
            return name[:at]
    return name


def split_by_function(run: Run, claim: Claim) -> list[Claim]:
    """The claim, or two of it: to the gaps of the function of most samples, and to the others.

    They are two where the samples of the others name a place, too.
    """
    placed = _place_gaps(run, claim.gaps)
    inside = _list_samples(run, placed)
    name, below = _name_most(run, inside)
    if name is None:
        return [claim]
    by_gap = inside.with_columns(below=below).group_by("start_ns").agg(pl.col("below").mean())
    mine = by_gap.filter(pl.col("below") > 0.5).get_column("start_ns").implode()
    is_mine = pl.col("start_ns").is_in(mine)
    parts = [claim.select_part(run, is_mine), claim.select_part(run, ~is_mine)]
    # A part is worth its own finding where it is seen often enough to be named.
    named = [part.cost_ns and find_function(run, part) for part in parts]
    return parts if all(named) and named[0] != named[1] else [claim]


def _name_most(run: Run, inside: pl.DataFrame) -> tuple[str | None, pl.Series]:
    """The innermost own function of more than half of the samples, and which lie in it."""
    nothing = pl.repeat(value=False, n=inside.height, dtype=pl.Boolean, eager=True)
    if inside.height < _LEAST_SAMPLES:
        return None, nothing
    stacks = run.table("stacks").select(*_TRACE, "stack_id", "parent_id", "frame_id", "depth")
    frames = run.table("frames").select(*_TRACE, "frame_id", "function", "module")
    at = inside.select(*_TRACE, "stack_id").with_row_index("sample")
    levels = []
    while at.height:
        here = at.join(stacks, on=[*_TRACE, "stack_id"])
        levels.append(here.drop("stack_id", "parent_id"))
        at = here.drop_nulls("parent_id").select("sample", *_TRACE, stack_id="parent_id")
    is_system = pl.col("module").fill_null("").str.contains(_SYSTEM)
    own = ~pl.col("function").str.contains(_OF_ALL) & ~is_system
    named = pl.concat(levels).join(frames, on=[*_TRACE, "frame_id"])
    named = named.filter(own.fill_null(value=False))
    most = (
        named.group_by("function")
        .agg(pl.col("sample").n_unique(), pl.col("depth").mean())
        .filter(2 * pl.col("sample") > inside.height)
        .sort("depth", "function", descending=[True, False])
    )
    if most.is_empty():
        return None, nothing
    name = str(most.item(0, "function"))
    rows = named.filter(pl.col("function") == name).get_column("sample").unique()
    return name, nothing.scatter(rows, True)


_USED = ("host_op_id", *_THREAD, "layer", "name", "start_ns", "end_ns")


def _look_inside(run: Run, gaps: pl.DataFrame) -> tuple[list[str], list[str]]:
    """Lines from samples, or else from the calls around the gaps (rows of `idle_rules`)."""
    placed = _place_gaps(run, gaps)
    if placed.is_empty():
        return [], []
    sampled = _describe_samples(run, placed)
    if sampled:
        return [sampled], []
    return [], _describe_calls_around(run.table("host_ops", _USED), placed)


def _place_gaps(run: Run, gaps: pl.DataFrame) -> pl.DataFrame:
    """The longest gaps, with the thread that launched what ends each: pid, tid, launched_ns."""
    longest = gaps.drop_nulls("launch_id").top_k(_MOST_GAPS, by="duration_ns")
    host = run.table("host_ops", _USED)
    rows = find_rows(host.get_column("host_op_id"), longest.get_column("launch_id"))
    launches = host.select("pid", "tid", launch="name", launched_ns="start_ns")
    return longest.hstack(take_rows(launches, rows)).drop_nulls(["pid", "tid"])


def _keep_inside(samples: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """The samples (in order of time) that fell on a gap's thread in its time."""
    spans = gaps.select(*_THREAD, "start_ns", "end_ns", time_ns="start_ns").unique().sort("time_ns")
    return samples.join_asof(
        spans, on="time_ns", by=_THREAD, strategy="backward", check_sortedness=False
    ).filter(pl.col("time_ns") <= pl.col("end_ns"))


def _list_samples(run: Run, gaps: pl.DataFrame) -> pl.DataFrame:
    """The CPU samples that fell on the gaps' threads in their time; none where there are none."""
    samples = run.once(sort_samples)
    if samples.is_empty() or gaps.is_empty() or not run.rows("stacks"):
        return samples.clear()
    return _keep_inside(samples, gaps)


def _describe_samples(run: Run, gaps: pl.DataFrame) -> str | None:
    """'of 540 CPU samples of that thread there  41 % in std::abs, 30 % in main'."""
    inside = _list_samples(run, gaps)
    if inside.height < _LEAST_SAMPLES:
        return None
    top = count_functions(run, inside)[:_TOP]
    if not top:
        return None
    said = ", ".join(
        f"{format_pct(100 * n / inside.height)} in {fit_text(name, _WIDTH)}" for name, n in top
    )
    return f"of {format_count(inside.height)} CPU samples of that thread there  {said}"


def _describe_calls_around(host: pl.DataFrame, gaps: pl.DataFrame) -> list[str]:
    """Between which calls most of the time lies in which no range was recorded."""
    outside = gaps.filter(pl.col("host_op").is_null())
    if 2 * sum_column(outside, "duration_ns") <= sum_column(gaps, "duration_ns"):
        return []
    threads = outside.get_column("tid").unique()
    calls = host.select(*_THREAD, "layer", before="name", launched_ns="end_ns").filter(
        pl.col("tid").is_in(threads.implode()) & pl.col("layer").is_in(_CALLS)
    )
    calls = calls.filter(~match_names(calls, _HIDDEN, "before")).drop("layer").sort("launched_ns")
    pairs = (
        outside.sort("launched_ns")
        .join_asof(calls, on="launched_ns", by=_THREAD, check_sortedness=False)
        .drop_nulls("before")
        .group_by("before", "launch")
        .agg(pl.col("duration_ns").sum())
        .filter(2 * pl.col("duration_ns") > sum_column(gaps, "duration_ns"))
    )
    return [
        f"most of it lies between the end of  {before}  and the next  {launch}: {OWN_CODE}"
        for before, launch, _ in pairs.rows()
    ]
