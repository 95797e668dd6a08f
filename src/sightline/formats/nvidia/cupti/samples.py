"""PC samples of a recording, with their context's device and period and the names of reasons."""

from __future__ import annotations

import polars as pl

from sightline.formats.nvidia._pc_samples import SAMPLES
from sightline.formats.nvidia.cupti.file import CuptiFile


def list_samples(file: CuptiFile) -> pl.DataFrame:
    """Samples with the columns that `build_samples` asks for."""
    reasons = file.frame("stall_reasons").unique(["context", "reason"], keep="last")
    # A context's totals say what it runs on, and the period in force.
    contexts = file.frame("sample_totals").unique("context", keep="last")
    return (
        file.frame("samples")
        .join(reasons, on=["context", "reason"], how="left", maintain_order="left")
        .join(
            contexts.select("context", "device", "period_log2"),
            on="context",
            how="left",
            maintain_order="left",
        )
        .select(pl.col(name).cast(kind) for name, kind in SAMPLES.items())
    )
