"""Which steps did the inference engine run, for whom, and what lay between them?

A step is one pass of the model over a batch: on a GPU from its first operation to its last one,
without a GPU the engine's own range. The gap before it is part of no step: no request was there;
the engine was in a step's own range, where it prepares inputs, samples and reads back; or it was
between steps, where it schedules and waits for messages of its other processes.

source
annotations       what vLLM, SGLang, TensorRT-LLM and ATOM write around a step: requests and tokens
Python functions  the function that an engine's loop calls once a step
graph replays     CUDA or HIP graphs of a whole step
kernel order      what repeats of the kernels; it may be a layer
iteration log     a line of the server's log for each step: what it computed and how long it took.
                  It is stamped to the second, so that starts and gaps are not known

phase
prefill, decode   prompts only, or one token more of each request
mixed             both: the scheduler put a piece of a prompt beside running requests
verify, draft     several tokens of each request are checked, or proposed (speculative decoding)
empty             nothing was computed: requests that ended are cleared away
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import RANK, conform_columns, duration, number, text, time
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.errors import MissingDataError
from sightline.subjects.serving.logged_steps import LOG, list_logged_steps
from sightline.timeline.engine_gaps import list_gaps
from sightline.timeline.engine_steps import list_engine_steps
from sightline.timeline.engine_work import measure_step_work

ANALYSIS = Analysis(
    "engine_steps",
    "Which steps did the inference engine run, for whom, and what lay between them?",
    (
        RANK,
        number("step", "number of the step, from 0", required=True),
        text("phase", "prefill, decode, mixed, verify, draft or empty; null where unknown"),
        number("prefill_requests", "requests of which it computed prompt tokens"),
        number("prefill_tokens", "prompt tokens that it computed"),
        number("decode_requests", "requests that it continued"),
        number("decode_tokens", "tokens that it computed of those"),
        number("context_tokens", "tokens that its attention looked at"),
        number("slots", "requests that the replayed graph has room for"),
        time("start_ns", "start: its first device operation, else its range; null of a log"),
        time("end_ns", "end: its last device operation, else its range; null of a log"),
        duration("duration_ns", "from start to end, or as the log says"),
        time("host_start_ns", "start of the engine's range"),
        time("host_end_ns", "end of the engine's range"),
        duration("gap_ns", "between the end of the steps before and its start"),
        duration("no_request_ns", "of the gap: no request was there"),
        duration("in_step_ns", "of the gap: in a step's range, preparing, sampling, reading back"),
        duration("scheduler_ns", "of the gap: between steps, with a request there"),
        duration("unclear_ns", "of the gap: nothing says whether a request was there"),
        duration("busy_ns", "something ran on the device; concurrent operations count once"),
        duration("kernel_ns", "sum of its kernels' times; more than busy_ns where they overlap"),
        number("launches", "calls that launched kernels one by one"),
        number("graph_launches", "replays of graphs"),
        number("graph_kernels", "operations that graphs replayed"),
        duration("graph_launch_ns", "time of the host in calls that replay graphs"),
        text("engine", "engine that wrote it"),
        text("source", "where steps come from", required=True),
        text("confidence", "high, medium or low", required=True),
    ),
    notes=("The gap's four parts sum to it.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per rank and step, in order of time. Raises MissingDataError where there is none."""
    steps = list_engine_steps(run)
    if steps.is_empty():
        return _list_logged(run)
    known = steps.join(list_gaps(run), on=["rank", "step"], maintain_order="left")
    known = known.join(
        measure_step_work(run), on=["rank", "step"], how="left", maintain_order="left"
    )
    return known.with_columns(
        duration_ns=pl.col("end_ns") - pl.col("start_ns"),
        context_tokens=pl.col("prefill_context") + pl.col("decode_context"),
    ).select(column.name for column in ANALYSIS.columns)


def _list_logged(run: Run) -> pl.DataFrame:
    """The steps that a server's log tells. Raises MissingDataError where it tells none."""
    logged = list_logged_steps(run) if run.rows("counters") else pl.DataFrame()
    if logged.is_empty():
        raise MissingDataError(
            "no engine's steps were found",
            why="the recording has no annotation of an inference engine, and no name of one",
            hint="vLLM, SGLang and TensorRT-LLM annotate their steps where their own profiler is "
            "switched on:  sightline run --server vllm URL\nWithout a profiler, vLLM's log has a "
            "line for each with --enable-logging-iteration-details, TensorRT-LLM's with "
            "print_iter_log.",
        )
    known = logged.with_columns(rank=0, source=pl.lit(LOG), confidence=pl.lit("high"))
    return conform_columns(known, ANALYSIS.columns)
