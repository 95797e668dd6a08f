"""Tensors are converted between memory layouts (NCHW and NHWC) around other kernels.

Symptom
    Kernels named nchwToNhwc or nhwcToNchw beside convolutions.

Why it hurts
    Tensor cores want channels last; cuDNN converts on the way in and out, each time through
    memory.

Evidence
    Kernel names of cuDNN's conversions. The gain is a replay without them.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: its threshold for copies).

Fix
    use model.to(memory_format=torch.channels_last), and convert the inputs too.

False positives
    None known.

References
    PyTorch, "Channels Last Memory Format"; NVIDIA, Convolutional Layers User's Guide.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_kernels

RULE = Rule("layout-conversions", "Memory layout conversions")
# cuDNN converts by name; MIOpen transposes in batches (batched_transpose_32x32_half).
_CONVERSION = r"(?i)nchwtonhwc|nhwctonchw|batched_transpose_\d+x\d+"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    found = find_shorter_kernels(
        run,
        RULE,
        list_kernels(run, _CONVERSION).with_columns(factor=pl.lit(0.0)),
        "{share} of the window converts tensors between NCHW and NHWC.",
        cause="the model uses channels-first tensors, and its convolutions need channels-last ones",
        fix=choose_fix(
            run,
            "model.to(memory_format=torch.channels_last), and the inputs too",
            native="keep tensors in the layout that the library's kernels want (cuDNN: NHWC)",
        ),
        sources=("PyTorch: Channels Last Memory Format",),
        confidence="high",
    )
    if found:
        yield found
