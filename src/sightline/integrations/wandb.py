"""Weights & Biases: `log_recording("runs")` within a run, also offline: metrics and an artifact."""

from __future__ import annotations

from typing import Any

from sightline.integrations._metrics import open_folder, read_metrics, write_files


def log_recording(recording: Any, step: int | None = None) -> dict[str, float]:
    """Log what a recording says to the current run of W&B; what was logged.

    Raises InputError, and RequestError where there is no run.
    """
    import wandb

    from sightline.errors import RequestError

    if wandb.run is None:
        raise RequestError("there is no run of Weights & Biases", hint="wandb.init(project=...)")
    run = open_folder(recording)
    metrics = read_metrics(run)
    wandb.log(metrics, step=step)
    artifact = wandb.Artifact(f"sightline-{wandb.run.id}", type="profile")
    with write_files(run) as paths:
        for path in paths:
            artifact.add_file(str(path))
        wandb.log_artifact(artifact)
    return metrics
