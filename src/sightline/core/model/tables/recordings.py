"""The files that a run was built from."""

import polars as pl

from sightline.core.model.columns import (
    RANK,
    Column,
    Table,
    duration,
    flag,
    number,
    size,
    text,
    time,
)

TABLE = Table(
    "recordings",
    "a file that was read",
    (
        Column(
            "recording_id", pl.Int64, "number of the file in the run", is_id=False, required=True
        ),
        RANK,
        text("path", "path as it was given", required=True),
        text("format", "name of the importer that read it", required=True),
        text("tool", "the profiler that wrote it"),
        text("tool_version", "the profiler's version"),
        text("host", "machine that it was recorded on; only kept when asked for"),
        number("world_size", "ranks in the job, as the recording says"),
        text(
            "rank_source",
            "where the rank came from: recording, file name, order, or, with a trace of the whole "
            "system, host: that of a process on it",
        ),
        duration("clock_offset_ns", "added to the recording's own times to reach the run's clock"),
        duration(
            "clock_uncertainty_ns", "how far that may be wrong at most, where it was measured"
        ),
        text("process", "recordings of one process have the same text here"),
        text("importer_version", "version of the importer"),
        size("bytes", "size of the file"),
        text("content", "hash of what the file holds, of 32 digits: what an answer is about"),
        time("start_ns", "start of the recorded span, as the profiler states it", required=False),
        time("end_ns", "end of the recorded span", required=False),
        flag("has_stacks", "Python stacks were recorded"),
        flag("has_shapes", "input shapes were recorded"),
    ),
)
