"""TensorBoard: `log_recording(writer, "runs")`: scalars, and the report as text."""

from __future__ import annotations

from typing import Any

from sightline.integrations._metrics import open_folder, read_metrics


def log_recording(writer: Any, recording: Any, step: int = 0) -> dict[str, float]:
    """Write what a recording says through a SummaryWriter; what was written. Raises InputError."""
    from sightline.views.markdown import write_markdown

    run = open_folder(recording)
    metrics = read_metrics(run)
    for name, value in metrics.items():
        writer.add_scalar(name, value, step)
    writer.add_text("sightline/report", write_markdown(run.answer()), step)
    return metrics
