"""The PyTorch profiler, switched on from outside as the plan says.

The plan's "torch" holds either "steps": [wait, warm-up, active], counted by sl.step() or by the
first optimizer, or "after_s" and "seconds"; and "shapes", "stacks", "memory". One trace per
process: NAME.torch-0.json.gz, which appears under that name when it is whole.

Every error in here ends the recording and never the program.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

from sightline.core.model.run_folder import STOPPING
from sightline.record.inline import session
from sightline.record.inline.recorder import now
from sightline.record.inline.session import state
from sightline.record.inline.unloaded import without_inductor
from sightline.record.inline.workers import call_in_workers, count_forks, find_worker, note_fork

# How long the main thread may take until it ends a trace by itself, before another thread does it.
GRACE_S = 0.5

_tried = 0  # traces that were begun
_ending: Session | None = None  # the trace that another thread is writing
_hooked = False
_finished: list[str] = []  # traces that were written


class Session:
    """One recording of the torch profiler in this process."""

    def __init__(self, torch: Any, options: dict[str, Any], name: str) -> None:
        activities = [torch.profiler.ProfilerActivity.CPU]
        supported = torch.profiler.supported_activities()
        activities += [a for a in sorted(supported, key=str) if a not in activities]
        self._torch = torch
        self._name = name
        self._thread = threading.get_ident()
        self.running = False
        self.starting = False
        self._has_stacks = bool(options.get("stacks"))
        self._once = threading.Lock()  # taken for good by whoever ends the trace
        self.written = threading.Event()
        self.began_ns = 0
        # A limit that nobody asked for need not hold to the second.
        asked = options.get("seconds") and not options.get("limited")
        everywhere = _record_all_threads(torch) if asked else None
        self.ends_anywhere = everywhere is not None
        more = {"experimental_config": everywhere} if self.ends_anywhere else {}
        self.costs = {"start_ns": 0, "stop_ns": 0, "export_ns": 0}
        self._profile = torch.profiler.profile(
            activities=activities,
            record_shapes=bool(options.get("shapes")),
            profile_memory=bool(options.get("memory")),
            with_stack=self._has_stacks,
            **more,
        )

    def warm_up(self) -> None:
        """Let the profiler set itself up without recording."""
        began = now()
        _yield_to_the_program(self._torch)
        self.starting = True
        with without_inductor(self._torch):
            self._profile.prepare_trace()
        self.starting = False
        self.costs["start_ns"] += now() - began

    def begin(self) -> None:
        """Record from now on."""
        began = now()
        self._profile.start_trace()
        state.covered = session.open_covered(self._name)
        self.running = True
        if self.ends_anywhere:  # torch tells a thread only of profilers of its own
            state.listens = _always
        ready = self.began_ns = now()
        self.costs["start_ns"] += ready - began
        if state.step is None:
            state.began = ready  # the profiler's own start is not part of the first step

    def records_here(self) -> bool:
        """Whether the calling thread's ranges reach the trace."""
        return self.running and state.listens()

    def stop(self) -> None:
        """Stop, and write the trace; whoever comes second does nothing."""
        if not self._once.acquire(blocking=False):
            return
        try:
            self._end()
        finally:
            self.written.set()

    def _end(self) -> None:
        if self.ends_anywhere:
            state.listens = session.torch_listens
        if state.torch is self:
            state.torch = None
        if not self.running:  # it was warming up: torch must be told to forget it
            _guarded(self._profile.start_trace)
            _guarded(self._profile.stop_trace)
            return
        self.running = False
        began = now()
        if self._has_stacks:  # each call of Python is an event: that may take longer than the run
            session.tell_person("PyTorch's profiler stops, and writes every call of Python …")
        mark = self._mark_stopping()
        try:
            self._profile.stop_trace()
            stopped = now()
            self._write()
            if self._has_stacks:
                session.tell_person(f"… its trace is written after {(now() - began) / 1e9:.1f} s")
            self.costs["stop_ns"] = stopped - began
            self.costs["export_ns"] = now() - stopped
            _finished.append(self._name)
        except Exception as error:  # whatever torch raises: the program goes on
            _failed(error)
        finally:
            mark.unlink(missing_ok=True)
        covered, state.covered = state.covered, None
        if covered is not None:
            covered.close()
        file = session.open_recorder()
        if file is not None:
            file.fact(torch_profiler={**self.costs, "version": str(self._torch.__version__)})

    def _mark_stopping(self) -> Path:
        """Show whoever watches the folder that the profiler works now, and not the program."""
        assert state.folder is not None
        mark = state.folder / f"{STOPPING}{self._name}"
        with contextlib.suppress(OSError):
            mark.touch()
        return mark

    def _write(self) -> None:
        assert state.folder is not None
        part = state.folder / f".part-{os.getpid()}-{self._name}.json"
        try:
            self._profile.export_chrome_trace(str(part))
            without_names(part)
            # Compressed by sightline once the program has ended: that costs the program nothing.
            part.replace(state.folder / f"{self._name}.json")
        finally:
            part.unlink(missing_ok=True)


# What a trace says of the machine and of the place it was written to, in its first and last bytes.
_NAMES = re.compile(rb'("(?:host_name|traceName)":\s*")([^"\\]*)(?=")')
_EDGE_BYTES = 16_384


def without_names(trace: Path) -> None:
    """Blank the host's name and the trace's path in place: a trace is passed on to others."""
    with trace.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        for start in {0, max(0, size - _EDGE_BYTES)}:
            file.seek(start)
            edge = file.read(_EDGE_BYTES)
            file.seek(start)
            file.write(_NAMES.sub(lambda m: m[1] + b" " * len(m[2]), edge))


def at_import(torch: Any, *, here: bool = False) -> None:
    """torch has just been imported: start, or arrange for the start; `here`: the program asks."""
    options = state.plan.get("torch")
    if not state.on or not options:
        return
    state.at_step = at_step
    state.began = now()
    if not here or options.get("steps"):
        _hook_optimizers()
    if options.get("steps"):
        if sum(options["steps"][:2]) == 0:
            _soon(torch, options)
        return
    if here:
        start(torch, options)
        return
    worker = find_worker()
    if worker == "not yet":
        call_in_workers(lambda: _start_in_worker(torch, options))
        return
    if worker == "loader":
        return
    call_in_workers(note_fork)
    _begin(torch, options)


def _begin(torch: Any, options: dict[str, Any]) -> None:
    """Start after the delay that the plan wants, or soon."""
    delay = float(options.get("after_s") or 0)
    if delay:
        _in_main_thread_after(delay, lambda: start(torch, options))
    else:
        _soon(torch, options)


def _soon(torch: Any, options: dict[str, Any]) -> None:
    """At once, or with the first use of a GPU: the profiler must not be what initializes CUDA."""
    has_gpu = any(Path(p).exists() for p in ("/dev/nvidiactl", "/dev/kfd"))
    if has_gpu and (torch.version.cuda or torch.version.hip):
        torch.cuda._lazy_call(lambda: start(torch, options))
    else:
        start(torch, options)


def at_step(count: int) -> None:
    """`count` steps have ended."""
    torch = sys.modules.get("torch")
    options = state.plan["torch"]
    if torch is None or not state.on:
        return
    if not options.get("steps"):
        if _tried == 0 and not options.get("after_s"):
            start(torch, options)
        return
    wait, warm_up, active = options["steps"]
    if count == wait and warm_up and _tried == 0:
        start(torch, options, record=False)
    elif count == wait + warm_up:
        if state.torch is not None and not state.torch.running:
            _guarded(state.torch.begin)
        elif _tried == 0:
            start(torch, options)
    elif count == wait + warm_up + active and state.torch is not None:
        state.torch.stop()


def start(torch: Any, options: dict[str, Any], *, record: bool = True) -> None:
    """Begin one trace, unless a profiler is running in the program already."""
    global _tried
    if state.torch is not None or state.folder is None:
        return
    if state.listens():
        file = session.open_recorder()
        if file is not None:
            file.fact(torch_skipped="the program's own profiler was running")
        return
    name = f"{session.name_files()}.torch-{_tried}"
    _tried += 1

    def make() -> None:
        made = Session(torch, options, name)
        state.torch = made
        made.warm_up()
        if record:
            made.begin()

    _guarded(make)
    if record and options.get("seconds") and (made := state.torch) is not None:
        seconds = float(options["seconds"])
        limited = bool(options.get("limited"))
        work = partial(_time_is_up, made, seconds, limited)
        _in_main_thread_after(seconds, work, made if made.ends_anywhere else None)


def _start_in_worker(torch: Any, options: dict[str, Any]) -> None:
    """A process of multiprocessing knows now what it is to do: record it, unless it loads data."""
    if not state.on or find_worker() != "program":
        return
    # A worker ends without atexit: its event file sees to it that the trace is written.
    if state.recorder is None:
        session.open_recorder()
    else:
        session.finish_with_multiprocessing()
    _begin(torch, options)


def _time_is_up(ending: Session, seconds: float, limited: bool) -> None:
    """Stop; a limit that nobody asked for is said, and so is a stop that came late."""
    if state.torch is not ending:
        return
    lasted = (now() - ending.began_ns) / 1e9
    file = session.open_recorder()
    ending.stop()
    if file is not None and limited:
        file.fact(torch_limited=seconds)
    elif file is not None and lasted > seconds + 2 * GRACE_S:
        file.fact(torch_overrun=[seconds, round(lasted, 3)])


def stop() -> None:
    """End the trace that is running, if one is."""
    if state.torch is not None:
        state.torch.stop()


def at_end() -> None:
    """The process ends: write what runs, and say where a schedule was never reached."""
    options = state.plan.get("torch") or {}
    begun = state.torch is not None and state.torch.running
    stop()
    if _ending is not None:
        _ending.written.wait()
    if (forked := count_forks()) and (file := session.open_recorder()) is not None:
        file.fact(torch_forked=forked)
    steps = options.get("steps")
    if steps and not begun and not _finished and state.recorder is not None and _hooked:
        made = 0 if state.step is None else state.step.count
        state.recorder.fact(
            torch_skipped=f"the program made {made} steps, and {sum(steps[:2])} were to pass first"
        )


def _guarded(work: Any) -> None:
    try:
        work()
    except Exception as error:  # whatever torch raises: the program goes on
        state.torch = None
        _failed(error)


def _failed(error: Exception) -> None:
    file = session.open_recorder()
    if file is not None:
        file.fact(torch_failed=f"{type(error).__name__}: {error}"[:500])


def _yield_to_the_program(torch: Any) -> None:
    """If the program starts a profiler of its own, ours ends first: only one can run."""
    owner = torch.autograd.profiler.profile
    original = owner._prepare_trace
    if getattr(original, "of_sightline", False):
        return

    def prepare(self: Any) -> Any:
        if state.torch is not None and not state.torch.starting:
            began = state.torch.began_ns
            stop()
            file = session.open_recorder()
            if file is not None:
                file.fact(torch_ended_early="the program started a profiler of its own")
                _note_own_traces(torch)
            if began:
                _go_on_after(torch, owner, self, began)
        return original(self)

    prepare.of_sightline = True  # type: ignore[attr-defined]
    owner._prepare_trace = prepare


def _go_on_after(torch: Any, owner: Any, theirs: Any, began: int) -> None:
    """Record again once the program's profiler has stopped, in what is left of our time.

    Not where steps were asked for: those have been counted on.
    """
    options = state.plan["torch"]
    if options.get("steps") or _tried > _MOST_AGAIN:
        return
    original = owner.__exit__

    def leave(self: Any, *args: Any) -> Any:
        result = original(self, *args)
        if self is theirs:
            owner.__exit__ = original
            again = dict(options)
            if options.get("seconds"):
                again["seconds"] = float(options["seconds"]) - (now() - began) / 1e9
                if again["seconds"] <= 0:
                    return result
            before = _tried
            # Profilers of others may be around it: then ours is not begun.
            _guarded(lambda: start(torch, again))
            if (file := session.open_recorder()) is not None and _tried > before:
                file.fact(torch_begun_again=_tried - 1)
        return result

    owner.__exit__ = leave


def _note_own_traces(torch: Any) -> None:
    """From now on, say which traces the program's own profiler writes."""
    owner = getattr(getattr(torch, "profiler", None), "profile", None)
    original = getattr(owner, "export_chrome_trace", None)
    if original is None or getattr(original, "of_sightline", False):
        return
    written: list[str] = []

    def export(self: Any, path: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(self, path, *args, **kwargs)
        file = session.open_recorder()
        is_ours = Path(path).parent == state.folder
        if file is not None and not is_ours and len(written) < _MOST_TRACES:
            written.append(str(path))
            file.fact(torch_own_traces=written)
        return result

    export.of_sightline = True  # type: ignore[attr-defined]
    owner.export_chrome_trace = export  # type: ignore[union-attr]


def _hook_optimizers() -> None:
    """Step with the first optimizer, until the program calls sl.step()."""
    global _hooked
    if _hooked:
        return
    _hooked = True
    try:
        from torch.optim.optimizer import (  # type: ignore[import-not-found,unused-ignore]
            register_optimizer_step_post_hook,
        )
    except ImportError:  # before torch 2.0 there was no global hook
        return
    from sightline.record.inline.step import find_steps

    def after(optimizer: object, *_: object) -> None:
        if state.on:
            find_steps().optimizer_boundary(optimizer)

    register_optimizer_step_post_hook(after)


_MOST_AGAIN = 3  # times that ours is begun again after one of the program's own
_MOST_TRACES = 8  # of the program's own, whose names are kept
_kept: list[Any] = []  # C callbacks, which must outlive their use


def _always() -> bool:
    return True


def _record_all_threads(torch: Any) -> Any:
    """The setting with which any thread may end the trace; None where torch has none."""
    try:
        return torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    except (AttributeError, TypeError):  # before torch 2.8
        return None


def _in_main_thread_after(seconds: float, work: Any, ending: Session | None = None) -> None:
    """Call `work` in the main thread between two bytecodes: a profiler belongs to its thread.

    Py_AddPendingCall (https://docs.python.org/3/c-api/init.html) is made for this; a signal would
    take one from the program. A main thread that is in C for long (a lock, a sleep, a library) does
    not come to it: then `work` is called here, if it ends a trace that any thread may end.
    """
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)

    def call(_: Any) -> int:
        _guarded(work)
        return 0

    callback = kind(call)
    _kept.append(callback)

    def fire() -> None:
        global _ending
        ctypes.pythonapi.Py_AddPendingCall(callback, None)
        if ending is not None and not ending.written.wait(GRACE_S):
            _ending = ending
            _guarded(work)

    timer = threading.Timer(seconds, fire)
    timer.daemon = True
    timer.start()


session.at_end.append(at_end)
