"""Steps: the iterations of a program's loop.

`sl.step()` at the end of each iteration, as with torch's own profiler: every call ends a step, and
the first step begins where the program has imported what it needs. What follows the last call is
no step. A program that never calls it is stepped by its first torch optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sightline.core.model import event_file as f
from sightline.record.inline import session
from sightline.record.inline.compiled import marks
from sightline.record.inline.recorder import Recorder, end, now
from sightline.record.inline.session import state
from sightline.record.inline.usage import Usage

PREFIX = "ProfilerStep#"  # as torch names its steps, so that every tool knows them
_pack = f.EVENT.pack_into


class Steps:
    """The steps of this process: the one that is open, and how many have ended."""

    # The compiled `step` reads and writes some of them where they lie.
    __slots__ = (
        "_at",
        "_began",
        "_chunk",
        "_file",
        "_optimizer",
        "_usage",
        "by_optimizer",
        "count",
        "explicit",
    )

    def __init__(self) -> None:
        self.count = 0
        self.by_optimizer = 0  # boundaries that came from the optimizer so far
        self.explicit = False
        self._optimizer: int | None = None
        self._began = state.began
        self._chunk: Any = None
        self._at = 0
        self._file: Recorder | None = None
        self._usage: Usage | None = None

    def open(self, began: int) -> None:
        """Begin the next step."""
        self._file = file = state.recorder or session.open_recorder()
        if file is not None:
            self._began = began
            number = file.name(PREFIX)  # the step's own is beside it
            self._chunk, self._at = file.begin(number, began, self.count, kind=f.OPEN_STEP)

    def close(self, ended: int) -> None:
        """End the open step."""
        file, chunk = self._file, self._chunk
        if chunk is not None and file is not None:
            self._chunk = None
            end(chunk, self._at, ended, f.STEP)
            file.clock_if_due(ended)
            if self._usage is None:
                self._usage = Usage()
            self._usage.read_if_due(file, ended)
        self.count += 1

    def boundary(self) -> None:
        """End a step, let the torch profiler follow its schedule, begin the next one."""
        ended = now()
        if self._chunk is None:
            self.open(self._began)
        self.close(ended)
        follow_schedule(self.count)
        self.open(now())

    def explicit_boundary(self) -> None:
        """The program says itself where its steps end."""
        if not self.explicit:
            self.explicit = True
            if self.by_optimizer == 1:
                return  # the optimizer's call in the same iteration has ended this step already
        self.boundary()

    def optimizer_boundary(self, optimizer: object) -> None:
        """The first optimizer that steps marks the iterations, until the program does."""
        if self.explicit:
            return
        if self._optimizer is None:
            self._optimizer = id(optimizer)
        if id(optimizer) == self._optimizer:
            self.by_optimizer += 1
            self.boundary()

    def abandon(self) -> None:
        """What follows the last step is none."""
        if self._chunk is not None:
            _pack(self._chunk, self._at, 0, 0, 0, 0, 0, 0, 0, f.VOID)
            self._chunk = None


def find_steps() -> Steps:
    """This process's steps."""
    if state.step is None:
        state.step = Steps()
    steps: Steps = state.step
    return steps


def follow_schedule(count: int) -> None:
    """Let the torch profiler start or stop, now that `count` steps have ended."""
    if state.at_step is not None:
        state.at_step(count)


def plain_step() -> None:
    """End a step of the program's loop; the next one begins."""
    if state.on:
        find_steps().explicit_boundary()


def _choose_step() -> Callable[[], None]:
    """`step`: the compiled one, which asks the plain one where a step is not the usual one."""
    if marks is None:
        return plain_step
    marks.attach_steps(Steps, Usage, plain_step, PREFIX)
    compiled: Callable[[], None] = marks.step
    return compiled


step = _choose_step()
