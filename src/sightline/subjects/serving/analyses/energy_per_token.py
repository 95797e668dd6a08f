"""How many joules does a token cost?

The energy of each device from the start of the first step to the end of the last one, over what the
steps computed meanwhile; between low_j and high_j lies the truth as far as the sensor is right
(docs/energy.md). Idle time between steps is part of it: a server that waits uses power, too.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, number, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.timeline.energy import list_meters, measure_energy

ANALYSIS = Analysis(
    "energy_per_token",
    "How many joules does a token cost?",
    (
        RANK,
        number("device_id", "device", required=True),
        duration("duration_ns", "from the start of the first step to the end of the last one"),
        number("prompt_tokens", "prompt tokens that the steps computed"),
        number("output_tokens", "tokens that they made: of running requests, and first ones"),
        real("energy_j", "best value", "J"),
        real("low_j", "at least", "J"),
        real("high_j", "at most", "J"),
        real("j_per_output_token", "energy over output_tokens", "J"),
        real("j_per_token", "energy over all tokens", "J"),
        text("method", "counter (of joules) or power (integrated)"),
    ),
    needs=("counters",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and device that is metered from end to end. Raises MissingDataError."""
    steps = run.ask("engine_steps")
    # A prompt's last step makes a first token: as many as requests that steps of decode did not
    # make before, which is the prompts' number where they are not cut in pieces.
    spans = steps.group_by("rank").agg(
        pl.col("start_ns").min(),
        pl.col("end_ns").max(),
        prompt_tokens=pl.col("prefill_tokens").sum(),
        decoded=pl.coalesce("decode_tokens", "decode_requests").sum(),
        prompts=pl.col("prefill_requests").sum(),
    )
    served = run.table("served_requests", ["output_tokens"])
    asked = int(served.get_column("output_tokens").sum() or 0)
    rows = []
    for meter in list_meters(run):
        mine = spans.filter(pl.col("rank") == meter.rank)
        if mine.is_empty():
            continue
        told = measure_energy(meter, mine["start_ns"], mine["end_ns"]).row(0, named=True)
        if told["energy_j"] is None:
            continue
        span = mine.row(0, named=True)
        output = asked or span["decoded"] + span["prompts"]
        whole = output + span["prompt_tokens"]
        joules = told["energy_j"]
        rows.append(
            (
                meter.rank, meter.device_id, span["end_ns"] - span["start_ns"],
                span["prompt_tokens"], output, joules, told["low_j"], told["high_j"],
                joules / output if output else None, joules / whole if whole else None,
                meter.method,
            )
        )  # fmt: skip
    if not rows:
        raise MissingDataError(
            "the energy of a token is unknown",
            why="no GPU's meter covers the steps from end to end",
            hint="sightline run records power and energy beside a trace:  sightline run --server",
        )
    return pl.DataFrame(
        rows, schema=[column.name for column in ANALYSIS.columns], orient="row"
    ).sort("rank", "device_id")
