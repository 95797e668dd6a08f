"""MLflow: `log_recording("runs")` within a run: metrics, the report as text and as a page."""

from __future__ import annotations

from typing import Any

from sightline.integrations._metrics import open_folder, read_metrics, write_files


def log_recording(recording: Any, step: int | None = None) -> dict[str, float]:
    """Log what a recording says to MLflow's active run; what was logged. Raises InputError."""
    import mlflow

    run = open_folder(recording)
    metrics = read_metrics(run)
    mlflow.log_metrics(metrics, step=step)
    with write_files(run) as paths:
        for path in paths:
            mlflow.log_artifact(str(path), artifact_path="sightline")
    return metrics
