"""JAX's profiler, switched on from outside as the plan says.

The plan's "jax" holds either "steps": [wait, warm-up, active], counted by sl.step(), or "after_s"
and "seconds"; and "stacks". One profile per process: NAME.jax-0.xplane.pb, which appears under that
name when it is whole. JAX's profiler has no warm-up: it starts where recording does.

Every error in here ends the recording and never the program.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from sightline.record.inline import session
from sightline.record.inline.recorder import now
from sightline.record.inline.session import state

_name: str | None = None  # of the profile that is running, or was
_place: str | None = None  # where JAX writes it, while it runs
_costs = {"start_ns": 0, "stop_ns": 0}
_timers: list[threading.Timer] = []
_lock = threading.Lock()


def at_import(jax: Any) -> None:
    """jax has just been imported: start, or arrange for the start."""
    options = state.plan.get("jax")
    if not state.on or not options:
        return
    state.began = now()  # the first step begins where the program has what it needs
    before = state.at_step

    def at_step(count: int) -> None:
        if before is not None:
            before(count)
        _follow_steps(count)

    state.at_step = at_step
    if options.get("steps"):
        return
    delay, seconds = float(options.get("after_s") or 0), options.get("seconds")
    _later(delay, start)
    if seconds:
        _later(delay + float(seconds), stop)


def _follow_steps(count: int) -> None:
    steps = state.plan["jax"].get("steps")
    if not state.on:
        return
    if not steps:
        if _name is None and not state.plan["jax"].get("after_s"):
            start()
        return
    wait, warm_up, active = steps
    if count == wait + warm_up:
        start()
    elif count == wait + warm_up + active:
        stop()


def start() -> None:
    """Begin the profile, unless one has run already."""
    global _name, _place
    jax = sys.modules.get("jax")
    with _lock:
        if _name is not None or state.folder is None or jax is None:
            return
        _name = f"{session.name_files()}.jax-0"
        began = now()
        try:
            _place = tempfile.mkdtemp(prefix=".part-jax-", dir=state.folder)
            jax.profiler.start_trace(_place, **_choose(jax))
        except Exception as error:  # whatever JAX raises, also of a profile of the program's own
            _fail(error)
        _costs["start_ns"] = now() - began


def _choose(jax: Any) -> dict[str, Any]:
    """Without Python's own calls, whose tracing slows them: those are a choice (--stacks)."""
    try:
        options = jax.profiler.ProfileOptions()
    except AttributeError:  # before JAX 0.5
        return {}
    options.python_tracer_level = 1 if state.plan["jax"].get("stacks") else 0
    return {"profiler_options": options}


def stop() -> None:
    """End the profile, if it runs, and put it into the run folder."""
    global _place
    with _lock:
        if _place is None or state.folder is None:
            return
        place, _place = Path(_place), None
        began = now()
        try:
            sys.modules["jax"].profiler.stop_trace()
            written = max(place.rglob("*.xplane.pb"), key=lambda p: p.stat().st_mtime)
            _leave_out_place(written)
            written.replace(state.folder / f"{_name}.xplane.pb")
        except Exception as error:  # a full disk, or a profile that the program ended itself
            _fail(error)
        shutil.rmtree(place, ignore_errors=True)
        _costs["stop_ns"] = now() - began
        file = session.open_recorder()
        if file is not None:
            version = str(getattr(sys.modules["jax"], "__version__", "unknown"))
            file.fact(jax_profiler={**_costs, "version": version})


def _leave_out_place(profile: Path) -> None:
    """Files of the program by their place in its folder: a profile is passed on to others.

    In place, as the length of each text stands before it: `/home/me/a.py` becomes `.////////a.py`.
    """
    here = os.fsencode(os.getcwd()) + b"/"  # noqa: PTH109  # as elsewhere here
    data = profile.read_bytes()
    if len(here) > 1 and here in data:
        profile.write_bytes(data.replace(here, b"." + b"/" * (len(here) - 1)))


def at_end() -> None:
    """The process ends: write what runs."""
    for timer in _timers:
        timer.cancel()
    stop()


def _later(seconds: float, work: Any) -> None:
    if not seconds:
        work()
        return
    timer = threading.Timer(seconds, work)
    timer.daemon = True
    _timers.append(timer)
    timer.start()


def _fail(error: Exception) -> None:
    global _place
    if _place is not None:
        shutil.rmtree(_place, ignore_errors=True)
        _place = None
    file = session.open_recorder()
    if file is not None:
        file.fact(jax_failed=f"{type(error).__name__}: {error}"[:500])


session.at_end.append(at_end)
