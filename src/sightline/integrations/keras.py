"""Keras 3: `model.fit(..., callbacks=[SightlineCallback("runs")])`.

On the PyTorch backend by PyTorch's profiler, on JAX's by JAX's own. TensorFlow's profiler is not
read by sightline: there the training goes on unrecorded, and says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sightline.integrations._steps import Plan, StepProfiler
from sightline.record.inline.session import tell_person

if TYPE_CHECKING:
    Base: Any = object
else:
    from keras.callbacks import Callback as Base


class SightlineCallback(Base):  # type: ignore[misc]
    """Records a few batches of a training into `folder`; options as of `Plan`."""

    def __init__(self, folder: str = "runs", **options: Any) -> None:
        super().__init__()
        self._plan = Plan(folder, **options)
        self._steps: StepProfiler | _JaxSteps | None = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Before the first batch."""
        import keras

        kinds: dict[str, type[StepProfiler | _JaxSteps]]
        kinds = {"torch": StepProfiler, "jax": _JaxSteps}
        made = kinds.get(keras.backend.backend())
        if made is None:
            tell_person("Keras runs on TensorFlow, whose profiler sightline does not read")
            return
        self._steps = made(self._plan)
        self._steps.start()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """After each batch."""
        if self._steps is not None:
            self._steps.step()

    def on_train_end(self, logs: Any = None) -> None:
        """After the last batch."""
        if self._steps is not None:
            self._steps.stop()


def _load_profiler() -> Any:
    import jax

    return jax.profiler


class _JaxSteps:
    """The steps of a plan by JAX's profiler, which has neither a schedule nor a warm-up."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._count, self._runs = plan, 0, False

    def start(self) -> None:
        if self._count == self._plan.wait + self._plan.warmup:
            self._begin()

    def step(self) -> None:
        self._count += 1
        self.start()
        if self._count == self._plan.wait + self._plan.warmup + self._plan.active:
            self.stop()

    def _begin(self) -> None:
        try:
            _load_profiler().start_trace(str(Path(self._plan.folder)))
            self._runs = True
        except Exception as error:  # another trace may run: the training goes on
            tell_person(f"JAX's profiler does not start: {error}")

    def stop(self) -> None:
        if self._runs:
            self._runs = False
            try:
                _load_profiler().stop_trace()
                tell_person(f"recorded; to see why it is slow:  sightline {self._plan.folder}")
            except Exception as error:
                tell_person(f"JAX's profiler does not stop: {error}")
