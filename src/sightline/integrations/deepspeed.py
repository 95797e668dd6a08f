"""DeepSpeed: `with profile_engine(engine, "runs"):` around the training loop.

An engine has no callbacks: its `step`, which ends each micro-batch, is wrapped meanwhile. With
pipelines, whose engine has `train_batch` instead, that is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sightline.integrations._steps import Plan, StepProfiler


@contextmanager
def profile_engine(engine: Any, folder: str = "runs", **options: Any) -> Iterator[StepProfiler]:
    """Record a few steps of an engine into `folder`; options as of `Plan`.

    A step ends where the engine updates its weights, if it says so
    (`is_gradient_accumulation_boundary`). Raises TypeError where it has neither method.
    """
    # PipelineEngine has a `step` that only raises, so `train_batch` comes first.
    name = next((n for n in ("train_batch", "step") if callable(getattr(engine, n, None))), None)
    if name is None:
        raise TypeError("a DeepSpeed engine has step() or train_batch()")
    steps = StepProfiler(Plan(folder, **options))
    had_own = name in vars(engine)
    before = getattr(engine, name)
    setattr(engine, name, _follow(before, engine, steps))
    steps.start()
    try:
        yield steps
    finally:
        steps.stop()
        if had_own:
            setattr(engine, name, before)
        else:
            delattr(engine, name)


def _follow(call: Callable[..., Any], engine: Any, steps: StepProfiler) -> Callable[..., Any]:
    @functools.wraps(call)
    def followed(*args: Any, **kwargs: Any) -> Any:
        # Asked first: the engine counts its micro-steps up in `step`.
        ask = getattr(engine, "is_gradient_accumulation_boundary", None)
        is_boundary = ask() if callable(ask) and call.__name__ == "step" else True
        answer = call(*args, **kwargs)
        if is_boundary:
            steps.step()
        return answer

    return followed
