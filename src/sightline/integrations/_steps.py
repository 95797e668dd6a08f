"""What all callbacks share: PyTorch's profiler over a few steps of a training, once."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.record.inline.rank import find_identity, is_chosen
from sightline.record.inline.session import OFF, state, tell_person
from sightline.record.inline.trace_handler import trace_handler
from sightline.record.inline.unloaded import without_inductor


@dataclass(frozen=True)
class Plan:
    """Which steps are recorded: `wait` pass, `warmup` warm the profiler up, `active` are recorded.

    Five steps show how steps vary, and a trace of them stays small; the first ten of a training
    compile, tune and load (PyTorch's profiler tutorial waits and warms up, too). `ranks`: only
    these; all where it is empty. `shapes`, `stacks` and `memory` are PyTorch's own options.
    """

    folder: str | os.PathLike[str]
    wait: int = 10
    warmup: int = 2
    active: int = 5
    ranks: tuple[int, ...] = ()
    shapes: bool = True
    stacks: bool = False
    memory: bool = False

    def __post_init__(self) -> None:
        if min(self.wait, self.warmup) < 0 or self.active < 1:
            raise ValueError("wait and warmup must be 0 or more, active 1 or more")


class StepProfiler:
    """Records the steps of a plan. Nothing that goes wrong in it ends the training.

    It leaves the process alone where `sightline run` records it, SIGHTLINE_OFF is set, another
    profiler of PyTorch's runs, or the rank is not one of the plan's.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._profile: Any = None
        self._left = plan.wait + plan.warmup + plan.active

    @property
    def is_over(self) -> bool:
        """Whether all of its steps have passed."""
        return self._left <= 0

    def start(self) -> None:
        """Before the first step."""
        if self._profile is not None or self.is_over or not self._may_record():
            return
        torch = sys.modules["torch"]
        plan = self.plan
        try:
            profiler = torch.profiler.profile(
                schedule=torch.profiler.schedule(
                    wait=plan.wait, warmup=plan.warmup, active=plan.active, repeat=1
                ),
                on_trace_ready=trace_handler(plan.folder),
                record_shapes=plan.shapes,
                with_stack=plan.stacks,
                profile_memory=plan.memory,
            )
            with without_inductor(torch):
                profiler.start()
        except Exception as error:  # whatever torch raises: the training goes on
            tell_person(f"PyTorch's profiler does not start: {error}")
            self._left = 0
            return
        self._profile = profiler

    def step(self) -> None:
        """After each step."""
        if self._profile is None:
            return
        self._left -= 1
        try:
            with without_inductor(sys.modules["torch"]):  # as the warm-up begins
                self._profile.step()
        except Exception as error:
            tell_person(f"PyTorch's profiler fails: {error}")
            self._left = 0
        if self.is_over:
            self.stop()

    def stop(self) -> None:
        """As the training ends: a trace of fewer steps is written, too."""
        profiler, self._profile = self._profile, None
        if profiler is None:
            return
        try:
            profiler.stop()
        except Exception as error:
            tell_person(f"PyTorch's profiler does not stop: {error}")
            return
        if any(Path(self.plan.folder).glob("step-*/*")):
            tell_person(f"recorded; to see why it is slow:  sightline {self.plan.folder}")

    def _may_record(self) -> bool:
        torch = sys.modules.get("torch")
        if torch is None or state.on or os.environ.get(OFF):
            return False
        if not is_chosen(find_identity().rank, self.plan.ranks, 1):
            return False
        return not torch._C._autograd._profiler_enabled()
