"""Processes of multiprocessing: which of them are the program's, and which only load its data.

A spawned worker imports torch before it knows what it is to do, so it is asked again when
multiprocessing starts its work. A forked one inherits a profiler that is already running, and that
PyTorch cannot end or start again there: such workers are counted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

from sightline.record.inline.session import state

# Targets of processes that run no step of the program: PyTorch's DataLoader, managers of shared
# objects.
_LOADERS = ("torch.utils.data.", "multiprocessing.managers")


def find_worker() -> str:
    """'program', 'loader', or 'not yet' where multiprocessing has not said what to do."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        target = getattr(process.current_process(), "_target", None)
        home = getattr(target, "__module__", None) or getattr(type(target), "__module__", "")
        return "loader" if f"{home}.".startswith(_LOADERS) else "program"
    starts = any(
        "--multiprocessing-fork" in w or "multiprocessing.forkserver" in w for w in _words()
    )
    return "not yet" if starts else "program"


def _words() -> list[str]:
    return list(getattr(sys, "orig_argv", ()))


class _Hook:
    """What multiprocessing keeps a weak reference to."""

    def __init__(self, work: Callable[[], None]) -> None:
        self.work = work


_hooks: list[_Hook] = []


def call_in_workers(work: Callable[[], None]) -> None:
    """Call `work` in each process of multiprocessing that begins from here on, or in this one."""
    from multiprocessing import context, util

    hook = _Hook(work)
    _hooks.append(hook)
    util.register_after_fork(hook, lambda hook: hook.work())
    spawned = getattr(context, "SpawnProcess", None)
    if spawned is None or "_after_fork" not in vars(spawned):
        return  # before Python 3.11 a spawned process ran the same hooks
    original = spawned._after_fork

    def after_fork() -> None:
        original()
        work()

    spawned._after_fork = staticmethod(after_fork)


def note_fork() -> None:
    """A worker was forked: if its parent was recorded just then, it is not, and that is counted."""
    if not state.on or state.forked_from is None or find_worker() != "program":
        return
    try:
        # One byte for each: appending is atomic, and needs no file of the worker's own.
        file = os.open(state.forked_from, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(file, b".")
        os.close(file)
    except OSError:
        pass  # the folder is gone or full


def count_forks() -> int:
    """How many workers of this process were forked while it was recorded."""
    place = f"{state.folder}/.forked-{os.getpid()}"
    try:
        count = os.stat(place).st_size  # noqa: PTH116  # pathlib costs 10 ms
        os.unlink(place)  # noqa: PTH108
    except OSError:
        return 0
    return count
