"""Hugging Face Accelerate: `Accelerator(kwargs_handlers=[profile_kwargs("runs")])`.

Then, as Accelerate has it: `with accelerator.profile() as prof:`, and `prof.step()` after each.
"""

from __future__ import annotations

from typing import Any

from sightline.integrations._steps import Plan
from sightline.record.inline.trace_handler import trace_handler


def profile_kwargs(folder: str = "runs", **options: Any) -> Any:
    """Accelerate's `ProfileKwargs` with a schedule, writing into `folder`; options as of `Plan`."""
    from accelerate.utils import ProfileKwargs

    plan = Plan(folder, **options)
    return ProfileKwargs(
        schedule_option={
            "wait": plan.wait,
            "warmup": plan.warmup,
            "active": plan.active,
            "repeat": 1,
            "skip_first": 0,
        },
        on_trace_ready=trace_handler(plan.folder),
        record_shapes=plan.shapes,
        with_stack=plan.stacks,
        profile_memory=plan.memory,
    )
