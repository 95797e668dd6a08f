"""PyTorch Lightning: `Trainer(callbacks=[SightlineCallback("runs")])`.

For `lightning.pytorch` and `pytorch_lightning`: whichever the program has imported.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from sightline.integrations._steps import Plan, StepProfiler

_NAMES = ("pytorch_lightning", "lightning.pytorch")

if TYPE_CHECKING:
    Base: Any = object
else:
    # Of the two, which are the same code, a Trainer takes its own callbacks only.
    _loaded = [name for name in _NAMES if name in sys.modules] or ["lightning.pytorch"]
    Base = importlib.import_module(_loaded[-1]).Callback


class SightlineCallback(Base):  # type: ignore[misc]
    """Records a few steps of a training into `folder`; options as of `Plan`."""

    def __init__(self, folder: str = "runs", **options: Any) -> None:
        super().__init__()
        self._steps = StepProfiler(Plan(folder, **options))

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Before the first batch."""
        self._steps.start()

    def on_train_batch_end(self, *_: Any, **__: Any) -> None:
        """After each batch."""
        self._steps.step()

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """After the last batch."""
        self._steps.stop()

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """What was recorded of a training that fails is written."""
        self._steps.stop()
