"""Tensors are converted between memory layouts (NCHW and NHWC) around other kernels.

Symptom
    Kernels named nchwToNhwc or nhwcToNchw beside convolutions.

Why it hurts
    Tensor cores want channels last; cuDNN converts on the way in and out, each time through
    memory.

Evidence
    Kernel names of cuDNN's conversions, and copies between tensors of the two layouts, by their
    strides. Beside them batch normalizations of images in NCHW, where strides were recorded: they
    could pass over their data at the memory's rate. The gain is a replay without the conversions
    and with these at that rate.

Threshold
    Over 5 % of the window (TraceLens agent, 2026-08: its threshold for copies).

Fix
    use model.to(memory_format=torch.channels_last), and convert the inputs too.

False positives
    None known.

References
    PyTorch #60063 (batch normalization in NHWC); PyTorch, "Channels Last Memory Format"; NVIDIA,
    Convolutional Layers User's Guide.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.kernels.patterns.layout import CHANNELS_LAST, CONVERSION
from sightline.subjects.kernels.patterns.match import list_matched
from sightline.subjects.kernels.rules._shared import find_shorter_kernels, list_kernels

RULE = Rule("layout-conversions", "Memory layout conversions")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops"):
        return
    named = list_kernels(run, CONVERSION).with_columns(factor=pl.lit(0.0))
    matched = list_matched(run, RULE).join(named, on="device_op_id", how="anti")
    found = find_shorter_kernels(
        run,
        RULE,
        pl.concat([named, matched.select(named.columns)]),
        "{share} of the window converts tensors between NCHW and NHWC"
        + (", or passes over them in the slower of the two." if matched.height else "."),
        cause="the model uses channels-first tensors, and its convolutions need channels-last ones",
        fix=choose_fix(
            run,
            "keep tensors in the layout that the library's kernels need",
            pytorch=CHANNELS_LAST,
            native="keep tensors in the layout that the library's kernels need (cuDNN: NHWC)",
        ),
        sources=("PyTorch: Channels Last Memory Format",),
        confidence="high",
    )
    if found:
        yield found
