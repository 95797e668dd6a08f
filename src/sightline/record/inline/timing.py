"""`sl.profile`: a run recorded by two lines of code, or a function timed with its uncertainty."""

from __future__ import annotations

import functools
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.core.model import run_folder
from sightline.core.units import format_several
from sightline.record.inline import session
from sightline.record.inline.annotate import annotate, mark
from sightline.record.inline.rank import make_host_mark
from sightline.record.inline.session import state

# Two-sided 95 % quantiles of Student's t for 1 to 30 degrees of freedom, then the normal's:
# NIST/SEMATECH e-Handbook of Statistical Methods, 1.3.6.7.2.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_NORMAL = 1.960


@dataclass(frozen=True)
class Timing:
    """Durations of a function's calls, in ns, and what follows from them.

    `ci95_ns` is the 95 % confidence interval of the mean, by Student's t. `clock` says what was
    measured: 'CUDA events' (device time between two points of the stream) or 'host'.
    """

    name: str
    durations_ns: tuple[int, ...]
    clock: str
    result: Any = None  # what the last call returned

    @property
    def mean_ns(self) -> float:
        """Mean duration."""
        return statistics.fmean(self.durations_ns)

    @property
    def median_ns(self) -> float:
        """Median duration."""
        return statistics.median(self.durations_ns)

    @property
    def stdev_ns(self) -> float:
        """Standard deviation of the sample; 0 for one call."""
        return statistics.stdev(self.durations_ns) if len(self.durations_ns) > 1 else 0.0

    @property
    def ci95_ns(self) -> tuple[float, float]:
        """The 95 % confidence interval of the mean; infinitely wide for one call."""
        n = len(self.durations_ns)
        if n < 2:
            return (-math.inf, math.inf)
        t = _T95[n - 2] if n - 2 < len(_T95) else _NORMAL
        half = t * self.stdev_ns / math.sqrt(n)
        return (self.mean_ns - half, self.mean_ns + half)

    def __str__(self) -> str:
        low, high = self.ci95_ns
        return (
            f"{self.name}: {self.mean_ns / 1e6:.3f} ms (95 % between {low / 1e6:.3f} and "
            f"{high / 1e6:.3f}, {format_several(len(self.durations_ns), 'call')}, {self.clock})"
        )


class profile:  # used as a function, a context manager and a decorator
    """`with profile("train", schedule="1:1:5"):` records a run: NAME.sightline in this folder.

    Under `sightline run`, which records already, it is a range of that name. `schedule` is
    wait:warm-up:active in steps of `sl.step()`; without one, all of the block is recorded.

    `@profile(warmup=3, iterations=10)` times a function: a call of it makes that many calls and
    returns a Timing, whether a run is recorded or not.
    """

    def __init__(
        self,
        name: str | None = None,
        *,
        schedule: str | tuple[int, int, int] | None = None,
        warmup: int | None = None,
        iterations: int | None = None,
        shapes: bool = True,
        stacks: bool = False,
        memory: bool = False,
    ) -> None:
        self.name = name or "profile"
        self._calls = None if iterations is None else (warmup or 0, iterations)
        self._torch: dict[str, Any] = {"shapes": shapes, "stacks": stacks, "memory": memory}
        if schedule is not None:
            self._torch["steps"] = steps_of(schedule)
        self._range: annotate | None = None
        self.folder: Path | None = None

    def __enter__(self) -> profile:
        if not state.on and not os.environ.get(session.OFF):
            self._begin()
        if state.on:
            self._range = annotate(Path(self.name).name)
            self._range.__enter__()
        return self

    def _begin(self) -> None:
        folder = Path(f"{self.name}{run_folder.FOLDER_ENDING}").absolute()
        try:
            folder = run_folder.make_free_folder(folder)
            facts = {
                "command": [Path(a).name for a in sys.argv[:1]],
                "made_by": "sl.profile",
                "backends": ["torch"] if "torch" in sys.modules else [],
            }
            run_folder.write_facts(folder, f"{make_host_mark()}-{os.getpid()}", facts)
        except OSError as error:
            why = f"cannot record into {folder}: {error.strerror}"
            session.tell_person(f"{why}; the program goes on unrecorded")
            return
        self.folder = folder
        session.start({"folder": str(folder), "torch": self._torch})
        from sightline.record.inline import torch_profiler

        session.state.at_step = torch_profiler.at_step
        torch = sys.modules.get("torch")
        if torch is not None:
            torch_profiler.at_import(torch, here=True)

    def __exit__(self, *_: object) -> None:
        if self._range is not None:
            self._range.__exit__()
            self._range = None
        if self.folder is not None:
            session.end()
            self.folder = None

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, recorded at each call; with `iterations`, timed instead."""
        if self._calls is None:
            made = self

            @functools.wraps(function)
            def inside(*args: Any, **kwargs: Any) -> Any:
                with made:
                    return function(*args, **kwargs)

            return inside
        warmup, iterations = self._calls
        if iterations < 1:
            raise ValueError("iterations must be 1 or more")
        name = function.__name__ if self.name == "profile" else self.name

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Timing:
            return measure(name, lambda: function(*args, **kwargs), warmup, iterations)

        return timed


def measure(name: str, call: Callable[[], Any], warmup: int, iterations: int) -> Timing:
    """Time `iterations` calls after `warmup` others."""
    for _ in range(warmup):
        with annotate(f"{name} (warm-up)"):
            call()
    torch: Any = sys.modules.get("torch")
    on_gpu = torch is not None and torch.cuda.is_available()
    timing = (
        _by_events(torch, name, call, iterations) if on_gpu else _by_host(name, call, iterations)
    )
    low, high = timing.ci95_ns
    told = {
        "calls": iterations,
        "mean_ns": round(timing.mean_ns),
        "clock": timing.clock,
        "median_ns": round(timing.median_ns),
        "stdev_ns": round(timing.stdev_ns),
    }
    if iterations > 1:
        told["ci95_ns"] = [round(low), round(high)]
    mark(f"timing: {name}", told)
    return timing


def _by_host(name: str, call: Callable[[], Any], iterations: int) -> Timing:
    durations, result = [], None
    for _ in range(iterations):
        with annotate(name):
            began = time.perf_counter_ns()
            result = call()
            durations.append(time.perf_counter_ns() - began)
    return Timing(name, tuple(durations), "host", result)


def _by_events(torch: Any, name: str, call: Callable[[], Any], iterations: int) -> Timing:
    pairs, result = [], None
    torch.cuda.synchronize()
    for _ in range(iterations):
        first = torch.cuda.Event(enable_timing=True)
        last = torch.cuda.Event(enable_timing=True)
        with annotate(name):
            first.record()
            result = call()
            last.record()
        pairs.append((first, last))
    torch.cuda.synchronize()
    durations = tuple(round(a.elapsed_time(b) * 1e6) for a, b in pairs)  # ms
    return Timing(name, durations, "CUDA events", result)


def steps_of(schedule: str | tuple[int, int, int]) -> list[int]:
    """wait, warm-up and active steps from '2:1:5'. Raises ValueError."""
    parts = schedule.split(":") if isinstance(schedule, str) else list(schedule)
    try:
        wait, warm_up, active = (int(p) for p in parts)
    except ValueError:
        raise ValueError(
            f"'{schedule}' is not a schedule: write WAIT:WARMUP:ACTIVE, such as 2:1:5"
        ) from None
    if min(wait, warm_up) < 0 or active < 1:
        raise ValueError(
            f"'{schedule}' is not a schedule: no part is negative, and ACTIVE is 1 or more"
        )
    return [wait, warm_up, active]
