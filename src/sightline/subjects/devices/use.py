"""What GPUs were used for, and what happened to them: data of the first screen."""

from __future__ import annotations

from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.device_use import DEVICE

# A temperature that moves by a degree a minute is not steady: sensors tell whole degrees (ours).
_STEADY_C_PER_MIN = 1.0


def summarize_use(run: Run) -> dict[str, list[dict[str, Any]]]:
    """A row for each GPU that a monitor watched, and one for each kind of event, oldest first.

    Of recordings with the GPU's operations, only where its energy was measured, too.
    """
    rows = _ask_use(run)
    if run.rows("device_ops"):
        rows = rows.filter(pl.col("energy_j").is_not_null())
    return {"devices": rows.to_dicts(), "events": _list_events(run)}


def _ask_use(run: Run) -> pl.DataFrame:
    if run.rows("counters"):
        try:
            return run.ask("device_use")
        except MissingDataError:
            pass
    return pl.DataFrame(schema={"energy_j": pl.Float64})


def _list_events(run: Run) -> list[dict[str, Any]]:
    """Events that say the same of the same device as one row, with the first and the last time."""
    if not run.rows("device_events"):
        return []
    by = [*DEVICE, "source", "event", "text"]
    return (
        run.table("device_events")
        .sort("time_ns")
        .group_by(by, maintain_order=True)
        .agg(
            count=pl.len(),
            first_ns=pl.col("time_ns").first(),
            last_ns=pl.col("time_ns").last(),
        )
        .to_dicts()
    )


def note_warming(devices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What limits the joules of devices whose temperature had not settled, as a report's limit."""
    moved = [
        row
        for row in devices
        if row["energy_j"] is not None and abs(row["warming_c_per_min"] or 0.0) >= _STEADY_C_PER_MIN
    ]
    if not moved:
        return []
    worst = max(moved, key=lambda row: abs(row["warming_c_per_min"]))
    way = "warming" if worst["warming_c_per_min"] > 0 else "cooling"
    text = (
        f"GPUs whose temperature had not settled: GPU {worst['device_id']} was still {way} by "
        f"{abs(worst['warming_c_per_min']):.1f} C a minute at {worst['temperature_end_c']:.0f} C; "
        "leakage rises with temperature, so a settled GPU needs a different energy for the same "
        "work"
    )
    return [
        {
            "kind": "thermal_state",
            "severity": "info",
            "text": text,
            "remedy": "Warm up until the temperature is stable, then measure.",
            "count": len(moved),
            "recordings": 1,
        }
    ]
