"""The other listeners of an annotation: NVTX or roctx, torch's record_function, JAX."""

from __future__ import annotations

import sys
from typing import Any

from sightline.record.inline.nvtx import Labels, Leave, find_push_pop, push_labels
from sightline.record.inline.session import state


def enter_others(name: str, labels: Labels | None = None) -> list[Leave] | None:
    """Enter the range wherever else something listens; what to call at its end, or None."""
    leave: list[Leave] = []
    torch: Any = sys.modules.get("torch")
    if torch is not None and state.listens():
        entered = torch.autograd.profiler.record_function(name)
        entered.__enter__()
        leave.append(lambda: entered.__exit__(None, None, None))
    jax: Any = sys.modules.get("jax")
    if jax is not None and hasattr(jax, "profiler"):
        annotation = jax.profiler.TraceAnnotation(name)
        annotation.__enter__()
        leave.append(lambda: annotation.__exit__(None, None, None))
    if state.nvtx and labels is not None and (pop := push_labels(name, labels)) is not None:
        leave.append(pop)
    elif state.nvtx:
        pair = find_push_pop()
        if pair is not None:
            pair[0](name)
            leave.append(pair[1])
    return leave or None
