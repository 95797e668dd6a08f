"""What one process knows of the run that it is recorded into, and its event files.

`sightline run` puts the plan into the environment variable SIGHTLINE_RUN as JSON:

    folder    the run folder, absolute
    ranks, every   which ranks are recorded
    torch     how the PyTorch profiler is scheduled (inline.torch_profiler), or absent
    jax       how JAX's profiler is (inline.jax_profiler), or absent
    nvtx      whether annotations go to NVTX as well
    clock     [host, port, token] of the clock that other hosts compare theirs with, or absent

SIGHTLINE_OFF=1 makes every call of the API a no-op, whatever else is set.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightline.core.model.event_file import RANGE, SUFFIX
from sightline.record.inline.compiled import marks
from sightline.record.inline.rank import find_identity, is_chosen, make_host_mark
from sightline.record.inline.recorder import Recorder, now
from sightline.record.inline.recorder import end as end_of

VARIABLE = "SIGHTLINE_RUN"
OFF = "SIGHTLINE_OFF"


class State:
    """One per process. `on` is what every call of the API looks at first."""

    __slots__ = (
        "at_step",
        "began",
        "covered",
        "folder",
        "forked_from",
        "listens",
        "nsys",
        "nvtx",
        "on",
        "place",
        "plan",
        "recorder",
        "step",
        "torch",
    )

    def __init__(self) -> None:
        self.on = False
        self.plan: dict[str, Any] = {}
        self.folder: Path | None = None
        self.place: tuple[int, int] | None = None  # the folder's device and inode
        self.recorder: Recorder | None = None
        self.covered: Recorder | None = None  # of ranges that a running torch profiler holds too
        self.torch: Any = None  # the running inline.torch_profiler.Session
        self.forked_from: str | None = None  # where a recorded parent counts its forked workers
        self.listens: Callable[[], bool] = torch_listens
        self.step: Any = None  # inline.step.Steps
        self.at_step: Callable[[int], None] | None = None  # asked with the steps that have ended
        self.began = now()  # where the first step begins
        self.nvtx = False
        self.nsys = False  # nsys records the ranges that go to NVTX


def torch_listens() -> bool:
    """Whether a torch profiler, ours or the program's own, records this thread."""
    try:
        enabled: Callable[[], bool] = sys.modules["torch"]._C._autograd._profiler_enabled
    except (KeyError, AttributeError):  # it is not there, or being imported at this moment
        return False
    state.listens = enabled  # asked itself from now on, which takes a fifth of the time
    return bool(enabled())


state = State()
if marks is not None:
    marks.attach(state, Recorder)
_lock = threading.Lock()


def start(plan: dict[str, Any]) -> None:
    """Record this process as the plan says, from now on."""
    if os.environ.get(OFF):
        return
    state.plan = plan
    state.folder = Path(plan["folder"])
    state.place = _find_place(state.folder)
    state.nvtx = bool(plan.get("nvtx"))
    state.nsys = plan.get("nvtx") == "nsys"
    own = find_identity()
    state.on = is_chosen(own.rank, tuple(plan.get("ranks", ())), int(plan.get("every", 1)))


def _find_place(folder: Path) -> tuple[int, int] | None:
    """Device and inode of a folder; None where it is none."""
    try:
        found = os.stat(folder)  # noqa: PTH116  # pathlib costs 10 ms
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_recorder() -> Recorder | None:
    """This process's event file, opened when it is first needed; None where that is impossible."""
    found = state.recorder
    if found is not None:
        return found
    with _lock:
        if state.recorder is None and state.folder is not None:
            state.recorder = _open(name_files() + SUFFIX)
            if state.recorder is None:
                state.folder = None  # not tried for every event
                if not state.nvtx:
                    state.on = False
            else:
                _first_facts(state.recorder)
        return state.recorder


def name_files() -> str:
    """How the names of this process's files begin."""
    rank = find_identity().rank
    head = "proc" if rank is None else f"rank{rank}"
    return f"{head}-{make_host_mark()}-{os.getpid()}"


def _open(name: str) -> Recorder | None:
    assert state.folder is not None
    base = name.removesuffix(SUFFIX)
    for attempt in range(100):  # a program that execs keeps its process id
        file = f"{base}{f'-{attempt}' if attempt else ''}{SUFFIX}"
        try:
            if state.place and _find_place(state.folder) not in (state.place, None):
                # The program put something else there: a link could lead to anybody's folder.
                raise OSError(errno.ENOENT, "it was replaced while the program ran")
            return Recorder(state.folder / file)
        except FileExistsError:
            continue
        except OSError as error:
            why = f"cannot record into {state.folder}: {error.strerror}"
            tell_person(f"{why}; the program goes on unrecorded")
            return None
    return None


def covered_by_nsys() -> Recorder | None:
    """The event file of ranges that nsys records too: it counts where the report never came."""
    if state.covered is None and state.folder is not None:
        from sightline.record.inline.nvtx import find_push_pop

        if find_push_pop() is None:  # nothing hands them to nsys
            state.nsys = False
        else:
            state.covered = _open(f"{name_files()}.nsys{SUFFIX}")
    return state.covered or open_recorder()


def open_covered(name: str) -> Recorder | None:
    """The event file beside a torch trace: ranges that count where the trace never came to be."""
    return _open(name + SUFFIX) if state.folder is not None else None


def _first_facts(file: Recorder) -> None:
    own = find_identity()
    known = {
        "rank": own.rank,
        "local_rank": own.local_rank,
        "world_size": own.world_size,
        "launcher": own.launcher,
        "host_mark": make_host_mark(),
        "sightline": sys.modules["sightline"].__version__,
        "program": Path(sys.argv[0]).name if getattr(sys, "argv", None) else None,
        "python": ".".join(map(str, sys.version_info[:3])),
        "pair_ns": measure_pair_cost(),
    }
    file.fact(**{k: v for k, v in known.items() if v is not None})
    finish_with_multiprocessing()
    address = state.plan.get("clock")
    if address and address[3] != make_host_mark():
        from sightline.record.inline.clock import measure_in_background

        measure_in_background(file, address)


def finish_with_multiprocessing() -> None:
    """A forked worker of multiprocessing ends without atexit, but calls its own finalizers."""
    process: Any = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing import util

        util.Finalize(None, finish, exitpriority=-100)  # after those of the program


def measure_pair_cost() -> int:
    """What writing a range costs here at least, in ns: the least of 5 times 50, as measured."""
    scratch, best = Recorder.in_memory(), 1 << 60
    number = scratch.name("range")
    for _ in range(5):
        began = now()
        if marks is not None:
            marks.write_ranges(scratch._free[1], number, 50)
        else:
            for _ in range(50):
                chunk, at = scratch.begin(number, now())
                end_of(chunk, at, now(), RANGE)
        best = min(best, now() - began)
    return best // 50


def tell_person(text: str) -> None:
    """One line for the person on the program's standard error; it goes on, whoever reads that.

    Below Python's buffer: what that cannot write it tries again at the end, and the program's exit
    code becomes 120 (docs.python.org/3/c-api/init.html, Py_FinalizeEx).
    """
    with contextlib.suppress(OSError, ValueError, AttributeError):
        line = f"sightline: {text}\n"
        try:
            number = sys.stderr.fileno()
        except OSError:  # as in a notebook (io.UnsupportedOperation)
            sys.stderr.write(line)
            return
        os.write(number, line.encode(errors="replace"))


# What the profilers of frameworks do as the interpreter ends; each adds itself when it is loaded.
at_end: list[Callable[[], None]] = []


def finish() -> None:
    """Write what is open and close the files, as the interpreter ends."""
    if state.step is not None:
        state.step.abandon()
    for stop_profiler in at_end:
        stop_profiler()
    if state.recorder is not None and state.recorder.pid == os.getpid():
        _late_rank(state.recorder)
        state.recorder.close()
    if state.covered is not None and state.covered.pid == os.getpid():
        state.covered.close()
        state.covered = None


def end() -> None:
    """End the run that this process began itself."""
    finish()
    state.on, state.folder, state.plan = False, None, {}
    state.recorder = state.step = state.at_step = None


def _late_rank(file: Recorder) -> None:
    """The rank that only torch.distributed knows, as under torch.multiprocessing.spawn."""
    distributed = sys.modules.get("torch.distributed")
    if find_identity().rank is not None or distributed is None:
        return
    try:
        if distributed.is_available() and distributed.is_initialized():
            file.fact(rank=distributed.get_rank(), world_size=distributed.get_world_size())
    except Exception:  # noqa: S110  # a program's own shutdown must not show an error of ours
        pass


def _in_child() -> None:
    """After a fork: the memory is the parent's, so the child writes a file of its own."""
    global _lock
    _lock = threading.Lock()
    recorded = state.torch is not None and state.folder is not None
    state.forked_from = f"{state.folder}/.forked-{os.getppid()}" if recorded else None
    state.listens = torch_listens
    state.recorder = state.covered = state.torch = state.step = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
atexit.register(finish)

if VARIABLE in os.environ:
    with contextlib.suppress(ValueError, KeyError, TypeError):  # a damaged variable is none
        start(json.loads(os.environ[VARIABLE]))
elif "NVTX_INJECTION64_PATH" in os.environ and not os.environ.get(OFF):
    # Nsight Systems and Compute set it in the programs they start: annotations go to them alone.
    state.on = state.nvtx = True
