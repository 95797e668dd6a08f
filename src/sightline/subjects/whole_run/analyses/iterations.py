"""Which iterations does the program repeat, and how sure is that?

Where steps are marked (torch.profiler's `step()`, `sightline.step()`), they are the iterations.
Else ranges count that are numbered, or that a framework puts around each iteration
(vLLM's `execute_…`, SGLang's `step[…]`), or at its end (`Optimizer.step#…`: an iteration lasts from
the end of one to the end of the next). Those of an inference engine end where they end, as it may
wait for requests before the next (`engine_steps` says what for). Else the order of the kernels on
each rank's busiest stream is searched for its period: iterations begin where an operation starts
that comes once a period.

confidence
high      marks, ranges or an engine's ranges
medium    nearly all operations are those of the period before, and something is among them that
          programs do once an iteration: input or result are copied, or an optimizer's kernels run
low       neither; the period may be one layer of the model
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, duration, pct, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.timeline.iterations import list_iterations

ANALYSIS = Analysis(
    "iterations",
    "Which iterations does the program repeat, and how sure is that?",
    (
        RANK,
        text("step", "text of the mark, or 'found #N'", required=True),
        time("start_ns", "start: of the mark, or of the operation that begins the iteration"),
        time(
            "end_ns",
            "end of a marked step, or of an engine's or an optimizer's range, else the next one's "
            "start",
        ),
        duration("duration_ns", "length"),
        text("source", "marks, ranges, engine ranges or kernel order", required=True),
        pct("match_pct", "operations that are those of the period before; null where marked"),
        text("confidence", "high, medium or low", required=True),
    ),
    notes=(
        "Marked steps are spans of the host, those found by kernel order of the device; how long a "
        "step takes is said by `steps`.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and iteration, in order of time."""
    return list_iterations(run).with_columns(duration_ns=pl.col("end_ns") - pl.col("start_ns"))
