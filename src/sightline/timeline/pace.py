"""Programs that are held to a rate: by a display, a timer, a sensor, and not by what they compute.

A loop that computes ends its steps about evenly, too. What tells the two apart is who makes it
wait: between its steps the thread that launches sleeps or polls, or it hands images to a display.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.core.algebra.intervals import measure_cover_between
from sightline.core.algebra.lookup import Texts
from sightline.core.algebra.scalars import sum_column
from sightline.core.model.run import Run
from sightline.timeline.launching import list_launching_threads

# Refresh rates of displays, Hz (CTA-861 and VESA DMT; 72 and 90 of headsets), and film's.
DISPLAY_HZ = (24, 25, 30, 48, 50, 60, 72, 75, 85, 90, 100, 120, 144, 165, 175, 200, 240, 360)
# A display's clock is within 0.5 % of its nominal rate (59.94 for 60 is 0.1 %), and a median of
# twenty periods closer than that; twice it, for the scheduler (ours).
_NEAR = 0.01
# So many periods in a row are a rate, of which nine of ten are within a tenth of the median: the
# scheduler adds up to a millisecond to a frame of 16 (ours). A camera's frames come less evenly:
# beside calls of a display in each, and at a known rate, three of four are enough (ours; a camera
# of 25 Hz on a Jetson had 85 %).
_LEAST_PERIODS, _EVEN_SHARE, _JITTER, _SHOWN_SHARE = 20, 0.9, 0.1, 0.75
# A thread is held where it sleeps for most of the time in which the device is idle (ours).
_MOST_ASLEEP = 0.5
# Where the device computes for most of the time the rate is its own.
_MOST_BUSY = 0.5
_SLEEPS = (
    r"(?i)^(?:clock_)?nanosleep|^u?sleep\b|^p?poll\b|^p?select\b|^epoll_p?wait|"
    r"^(?:pthread_cond_(?:timedwait|clockwait)|sem_(?:timedwait|clockwait))|^sigtimedwait|"
    r"built-in (?:method|function) sleep|^time\.sleep|^futex.*timed"
)
# cudaGraphicsMapResources and its like for OpenGL, Direct3D, EGL and VDPAU; Vulkan's semaphores;
# HIP's of the same names (CUDA Runtime API, "Graphics Interoperability", "External Resource
# Interoperability").
DISPLAYS = (
    r"^(?:cuda|cu|hip)Graphics(?:Map|Unmap)Resources|^(?:cuda|cu|hip)(?:Wait|Signal)External"
    r"Semaphores|(?i)^(?:glX|egl|wgl)SwapBuffers|^vkQueuePresent|SwapChain.*Present"
)


@dataclass(frozen=True)
class Pace:
    """What holds a rank: its period in ns, over how many periods, what by, and for how long.

    `asleep_ns` is how long the launching thread slept while the device had nothing to do.
    """

    rank: int
    period_ns: int
    periods: int
    is_display: bool
    calls: str
    idle_ns: int
    asleep_ns: int

    @property
    def hz(self) -> float:
        """Periods a second."""
        return 1e9 / self.period_ns


def find_pace(run: Run) -> Pace | None:
    """What holds the run to a rate; None where nothing does, or it is not recorded what.

    Of several ranks that with the lowest number is asked: they are held together or not at all.
    """
    return run.once(_find_pace)


def _find_pace(run: Run) -> Pace | None:
    breakdown = run.ask("breakdown")
    busy = 1 - sum_column(breakdown, "idle_ns") / max(sum_column(breakdown, "window_ns"), 1)
    if busy > _MOST_BUSY or not run.rows("host_ops"):
        return None
    windows = run.ask("windows")
    rank = int(windows.get_column("rank").min())  # type: ignore[arg-type]
    window = windows.filter(pl.col("rank") == rank).head(1)
    even = _find_even_period(run, rank, window)
    if even is None:
        return None
    period, periods, share = even
    calls = _list_calls(run, rank, window)
    names = Texts(calls.get_column("name"))
    display = calls.filter(names.match(DISPLAYS))
    asleep = calls.filter(names.match(_SLEEPS) & calls.get_column("launches"))
    idle = _list_idle(run, rank)
    slept = int(measure_cover_between(idle, "start_ns", "end_ns", asleep, ["rank"]).sum())
    idle_ns = sum_column(idle.select(ns=pl.col("end_ns") - pl.col("start_ns")), "ns")
    near = any(abs(1e9 / period / hz - 1) <= _NEAR for hz in DISPLAY_HZ)
    is_shown = display.height >= _EVEN_SHARE * periods and near
    sleeps = slept >= _MOST_ASLEEP * max(idle_ns, 1) and share >= _EVEN_SHARE
    if not is_shown and not sleeps:
        return None
    shown = display if is_shown else asleep
    most = shown.group_by("name").len().sort("len", "name", descending=[True, False]).item(0, 0)
    return Pace(rank, period, periods, is_shown, str(most), idle_ns, slept)


def _find_even_period(run: Run, rank: int, window: pl.DataFrame) -> tuple[int, int, float] | None:
    """The distance at which the kernel that comes most often begins, ns, how often, and how evenly.

    Kernels that come in every period are asked, the most frequent first; None where none is even.
    """
    since, until = window.select("window_start_ns", "window_end_ns").row(0)
    ops = run.table("device_ops", ["rank", "name", "kind", "start_ns"]).filter(
        (pl.col("rank") == rank)
        & (pl.col("kind") == "kernel")
        & pl.col("start_ns").is_between(since, until)
    )
    apart = pl.col("start_ns").sort().diff().drop_nulls()
    each = (
        ops.group_by("name")
        .agg(n=pl.len(), apart=apart)
        .filter(pl.col("n") > _LEAST_PERIODS)
        .with_columns(period=pl.col("apart").list.median())
        .explode("apart")
        .with_columns(even=(pl.col("apart") / pl.col("period") - 1).abs() <= _JITTER)
        .group_by("name", "period", "n")
        .agg(pl.col("even").mean())
        .filter((pl.col("even") >= _SHOWN_SHARE) & (pl.col("period") > 0))
        .sort("n", "name", descending=[True, False])
    )
    if each.is_empty():
        return None
    return int(each.item(0, "period")), int(each.item(0, "n")) - 1, float(each.item(0, "even"))


def _list_calls(run: Run, rank: int, window: pl.DataFrame) -> pl.DataFrame:
    """What the host of a rank did in the window, with `launches`: on the thread that launches."""
    host = run.table("host_ops", ["rank", "pid", "tid", "name", "start_ns", "end_ns"])
    threads = list_launching_threads(run).filter(pl.col("rank") == rank)
    busiest = threads.sort("launches", "tid", descending=[True, False]).select("pid", "tid").head(1)
    pid, tid = busiest.row(0) if busiest.height else (None, None)
    return host.filter(
        (pl.col("rank") == rank)
        & (pl.col("end_ns") > window.item(0, "window_start_ns"))
        & (pl.col("start_ns") < window.item(0, "window_end_ns"))
    ).with_columns(launches=pl.col("pid").eq_missing(pid) & pl.col("tid").eq_missing(tid))


def _list_idle(run: Run, rank: int) -> pl.DataFrame:
    """The gaps of a rank's first device."""
    gaps = run.ask("idle_gaps").filter(pl.col("rank") == rank)
    first = gaps.get_column("device_id").min()
    return gaps.filter(pl.col("device_id") == first).select("rank", "start_ns", "end_ns")
