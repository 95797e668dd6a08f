"""Hugging Face Trainer: `Trainer(..., callbacks=[SightlineCallback("runs")])`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sightline.integrations._steps import Plan, StepProfiler

if TYPE_CHECKING:
    Base: Any = object
else:
    from transformers import TrainerCallback as Base


class SightlineCallback(Base):  # type: ignore[misc]
    """Records a few optimizer steps of a training into `folder`; options as of `Plan`."""

    def __init__(self, folder: str = "runs", **options: Any) -> None:
        super().__init__()
        self._steps = StepProfiler(Plan(folder, **options))

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Before the first step."""
        self._steps.start()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After each step of the optimizer, with all of its gradient accumulation."""
        self._steps.step()

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """After the last step."""
        self._steps.stop()
