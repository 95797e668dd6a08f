"""Ray Train: `TorchTrainer(record_loop(train_loop_per_worker, "/shared/runs"), ...)`.

The loop runs in workers, whose steps are those of its first PyTorch optimizer. `folder` is written
by all of them: a place that all nodes share, for ranks of several.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from sightline.integrations._steps import Plan, StepProfiler


def record_loop(loop: Callable[..., Any], folder: str, **options: Any) -> Callable[..., Any]:
    """The loop, with a few of its steps recorded into `folder`; options as of `Plan`."""
    plan = Plan(folder, **options)

    def recorded(*args: Any, **kwargs: Any) -> Any:
        from torch.optim.optimizer import register_optimizer_step_post_hook

        steps, first = StepProfiler(plan), list[int]()

        def follow(optimizer: Any, *_: Any) -> None:
            """Others step as often, or belong to other parts of a model."""
            first[:] = first or [id(optimizer)]
            if first == [id(optimizer)]:
                steps.step()

        hook = register_optimizer_step_post_hook(follow)
        steps.start()
        try:
            return loop(*args, **kwargs)
        finally:
            steps.stop()
            hook.remove()

    functools.update_wrapper(recorded, loop)
    # Ray looks at how many arguments the loop takes, to hand it its configuration.
    recorded.__signature__ = inspect.signature(loop)  # type: ignore[attr-defined]
    return recorded
