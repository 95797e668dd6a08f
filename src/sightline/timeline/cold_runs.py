"""Recordings of a first run: nearly all of it is a few pauses, in which code is loaded too."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.timeline import causes
from sightline.timeline.copies import LEAST_OPERATIONS, runs_each_once
from sightline.timeline.step_clock import FOUND_ON_DEVICE, list_steps
from sightline.timeline.world import read_world

# Ours, all: of 28 and 26 recordings of people's own programs four were first runs, with 93 % and
# more of the window idle, 93 % and more of that in ten pauses, and a tenth and more of it in
# loading; in none that repeats anything is it so.
_IDLE_PCT, _PAUSES, _MOST_PCT, _LOADING_PCT = 85.0, 10, 90.0, 10.0
_LEAST_STEPS = 3
# A call for memory that takes so long sets a context or a library up, as for allocator-churn.
_SET_UP_NS = 80_000_000
_CACHING = ("pytorch", "vllm", "sglang")
# A first step of a model loads its kernels one by one (ours: twenty pauses, a fifth of the idle
# time; the recordings above have up to five).
_THROUGHOUT_PCT, _LEAST_LOADS = 20.0, 20
# PyTorch's allocator keeps what it has taken from the driver, and takes more only where it never
# held as much before (PyTorch, "CUDA semantics", memory management): a pass that does so again and
# again is one that never ran before. Ten times, and over half of the window (ours: the forward pass
# of a small network did 14 times; one that tries other sizes now and then does it once or twice).
_TAKES_MEMORY, _LEAST_TAKEN, _SPREAD = r"^(?:cuda|hip)Malloc(?:_v\d+)?$", 10, 0.5


def find_cold_pauses(run: Run) -> pl.DataFrame:
    """The pauses that nearly all of a first run is: rows of `idle_rules`; empty for other runs."""
    return run.once(_find_cold_pauses)


def _find_cold_pauses(run: Run) -> pl.DataFrame:
    if not run.rows("device_ops"):
        return pl.DataFrame()
    gaps = run.ask("idle_rules")
    if run.window is not None or gaps.is_empty():
        return gaps.clear()
    window = sum_column(run.ask("breakdown"), "window_ns")
    idle = sum_column(gaps, "duration_ns")
    if run.columns("device_ops", ("kind",)).get_column("kind").is_in(["memcpy", "memset"]).all():
        return gaps.clear()  # nothing has run yet
    if 2 * idle >= window and run.rows("device_ops") < LEAST_OPERATIONS and runs_each_once(run):
        # A handful of operations, each of which ran once.
        first = gaps.filter(pl.col("rule").is_in([causes.CODE_LOADING, causes.ALLOCATION]))
        sets_up = 100 * sum_column(first, "duration_ns") >= _LOADING_PCT * idle
        return gaps if sets_up else gaps.clear()
    if 100 * idle < _IDLE_PCT * window or _has_steps(run):
        return gaps.clear()
    longest = gaps.sort("duration_ns", "start_ns", descending=[True, False]).head(_PAUSES)
    loading = gaps.filter(pl.col("rule") == causes.CODE_LOADING)
    loading_pct = 100 * sum_column(loading, "duration_ns") / max(idle, 1)
    set_up = gaps.filter(pl.col("rule") == causes.ALLOCATION, pl.col("duration_ns") >= _SET_UP_NS)
    set_up_pct = 100 * sum_column(set_up, "duration_ns") / max(idle, 1)
    is_cold = (
        100 * sum_column(longest, "duration_ns") >= _MOST_PCT * idle
        and loading_pct + set_up_pct >= _LOADING_PCT
    )
    if is_cold or _loads_throughout(loading, loading_pct) or list_growth(run).height:
        return longest
    return gaps.clear()


def _loads_throughout(loading: pl.DataFrame, pct: float) -> bool:
    """Whether code is loaded again and again to the end: each kernel of it runs for the first time.

    `pct` is what loading takes of the idle time.
    """
    return pct >= _THROUGHOUT_PCT and loading.height >= _LEAST_LOADS


def list_growth(run: Run) -> pl.DataFrame:
    """Calls in which PyTorch's allocator took device memory: `name`, `start_ns` of host_ops.

    Empty where something else allocates, or it took some only now and then.
    """
    return run.once(_list_growth)


def _list_growth(run: Run) -> pl.DataFrame:
    calls = run.table("host_ops", ["name", "start_ns"])
    if read_world(run).framework not in _CACHING:
        return calls.clear()
    device = run.table("device_ops", ["start_ns", "end_ns"])
    window = device.select(first=pl.col("start_ns").min(), last=pl.col("end_ns").max())
    first, last = window.row(0)
    inside = pl.col("start_ns").is_between(first, last)
    calls = calls.filter(inside, pl.col("name").str.contains(_TAKES_MEMORY))
    if calls.height < _LEAST_TAKEN:
        return calls.clear()
    spread = calls.select(pl.col("start_ns").max() - pl.col("start_ns").min()).item()
    return calls if spread >= _SPREAD * (last - first) else calls.clear()


def _has_steps(run: Run) -> bool:
    marked = list_steps(run).filter(pl.col("source") != FOUND_ON_DEVICE)
    return bool(marked.group_by("rank").len().filter(pl.col("len") >= _LEAST_STEPS).height)
