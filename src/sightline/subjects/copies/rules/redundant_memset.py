"""Memsets are exposed: nothing else runs beside them.

Symptom
    Memsets take a notable part of the window by themselves.

Why it hurts
    A buffer that is cleared and then overwritten is written twice; gradients that are zeroed are
    read and added to instead of being written.

Evidence
    Time in which only memsets run. The gain is a replay without them: an upper bound, since a
    recording cannot tell whether a memset is needed.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: its threshold for copies).

Fix
    torch.empty where everything is overwritten; optimizer.zero_grad(set_to_none=True).

False positives
    Memsets that the algorithm needs, such as for accumulators. Those of buffers that are copied
    back in each turn are buffer-copied-back's.

References
    PyTorch Performance Tuning Guide, "Use parameter.grad = None instead of model.zero_grad()".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.copies.buffers import covers_most
from sightline.subjects.copies.rules._shared import find_exposed_copies
from sightline.timeline import causes
from sightline.timeline.copies import select_copies

RULE = Rule("redundant-memset", "Exposed memset", causes=(causes.FILL,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if run.rows("device_ops") and covers_most(run, select_copies(run, RULE.causes)):
        return
    yield from find_exposed_copies(
        run,
        RULE,
        "Memsets are exposed for",
        cause="buffers are cleared that are often fully overwritten later",
        fix=choose_fix(
            run,
            "clear only what is not overwritten",
            training="use torch.empty instead of torch.zeros where everything is overwritten, and "
            "optimizer.zero_grad(set_to_none=True)",
            pytorch="use torch.empty instead of torch.zeros where everything is overwritten",
            native="clear only what is not overwritten, and let the first kernel write its zeros",
        ),
        sources=("PyTorch Performance Tuning Guide: use parameter.grad = None",),
    )
