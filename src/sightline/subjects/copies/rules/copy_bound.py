"""Copies within a device or between devices run while nothing else does.

Symptom
    Copies that are neither from nor to the host, with no kernel beside them.

Why it hurts
    A copy within the device reads and writes memory and computes nothing; one between devices is
    limited by the link.

Evidence
    Time in which only such copies run (`sightline stats breakdown`, `memcpy`). The gain is a
    replay without them.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: copies flagged above 5 % of the time).

Fix
    Write in place, keep one layout, drop .contiguous() and .clone().

False positives
    Snapshots on purpose.

References
    TraceLens agent (AMD-AGI/TraceLens, 2026-08).
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

RULE = Rule("copy-bound", "Exposed copies within or between GPUs", causes=(causes.OTHER_COPY,))


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    sources = ("TraceLens agent: copies above 5 % of the time",)
    copies = select_copies(run, RULE.causes) if run.rows("device_ops") else None
    if copies is not None and covers_most(run, copies):
        return
    if copies is not None and copies.get_column("copy_kind").null_count() == copies.height:
        yield from find_exposed_copies(
            run,
            RULE,
            "Copies whose direction was not recorded are exposed for",
            cause="data is copied while nothing computes",
            fix="see which direction they have (the program's own calls show it), then avoid "
            "them, or overlap them with compute on a second stream",
            sources=sources,
            title="Exposed copies of unknown direction",
        )
        return
    yield from find_exposed_copies(
        run,
        RULE,
        "Copies within or between GPUs are exposed for",
        cause="tensors are cloned, made contiguous or moved between GPUs",
        fix=choose_fix(
            run,
            "avoid the copy: write in place, or swap buffers; between devices, overlap it with "
            "compute",
            pytorch="avoid the copy: write in place, keep one layout, drop .contiguous() and "
            ".clone(); between devices, overlap it with compute on a side stream",
            native="avoid the copy: write in place, or swap pointers; between devices, overlap it "
            "with compute on a second stream",
            openmp="avoid the copy: write in place, or swap pointers",
            jax="avoid the copy: donate the inputs that are overwritten (jax.jit donate_argnums)",
        ),
        sources=sources,
    )
