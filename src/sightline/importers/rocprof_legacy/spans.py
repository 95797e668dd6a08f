"""roctracer's lines `START:END WHO:WHERE WHAT` as columns: nearly all that its texts hold."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from sightline.importers import _rocm

# Behind the times: a call with its arguments and what it returned, or work on a device.
_CALL = r"^(\w+)\(.*\)(?: = [^:]*?)? ?(?::(\d{1,19}))?$"
_WORK = r"^(.+):(\d{1,19}):(\d{1,9})$"
COPY = r"Copy|COPY"
DIRECTIONS = {
    "CopyHostToDevice": "HOST_TO_DEVICE",
    "CopyDeviceToHost": "DEVICE_TO_HOST",
    "CopyDeviceToDevice": "DEVICE_TO_DEVICE",
}


@dataclass
class Part:
    """Records of some lines, and how many of the lines were damaged."""

    dispatches: pl.DataFrame
    copies: pl.DataFrame
    regions: pl.DataFrame
    bad: int


def split_spans(lines: pl.Series) -> tuple[Part, list[str]]:
    """The records of the lines that are spans, and all other lines."""
    times, place = pl.col("times"), pl.col("place")
    fields = (
        pl.DataFrame({"line": lines})
        .with_columns(
            pl.col("line").str.splitn(" ", 3).struct.rename_fields(["times", "place", "what"])
        )
        .select(pl.col("line").struct.unnest())
        if lines.len()
        else pl.DataFrame(schema=dict.fromkeys(("times", "place", "what"), pl.String))
    )
    is_span = (
        times.str.contains(r"^\d{1,19}:\d{1,19}$")
        & place.str.contains(r"^\d{1,9}:\d{1,9}$")
        & (pl.col("what") != "")
    ).fill_null(False)
    spans = fields.select(is_span.alias("is_span")).to_series()
    numbers = (
        fields.filter(spans)
        .select(
            "what",
            times.str.split_exact(":", 1).struct.rename_fields(["start_ns", "end_ns"]),
            place.str.split_exact(":", 1).struct.rename_fields(["first", "second"]),
        )
        .unnest("times", "place")
        .with_columns(pl.col("start_ns", "end_ns", "first", "second").cast(pl.Int64, strict=False))
    )
    return _sort_out(numbers), lines.filter(~spans).to_list()


def _sort_out(spans: pl.DataFrame) -> Part:
    # A kernel's name has brackets, too: of work the process stands behind the correlation id.
    what = pl.col("what")
    ends_in_call = what.str.ends_with(")")
    work = (
        spans.with_columns(
            pl.when(~ends_in_call)
            .then(what)
            .str.extract_groups(_WORK)
            .struct.rename_fields(["name", "correlation_id", "pid"])
            .alias("work")
        )
        .unnest("work")
        .with_columns(pl.col("correlation_id", "pid").cast(pl.Int64, strict=False))
    )
    done = work.filter(pl.col("name").is_not_null()).with_columns(agent="first", queue_id="second")
    is_copy = pl.col("name").str.contains(COPY) & ~pl.col("name").str.contains("(", literal=True)
    rest = work.filter(pl.col("name").is_null()).drop("name", "correlation_id", "pid")
    calls = (
        rest.with_columns(
            what.str.extract_groups(_CALL)
            .struct.rename_fields(["name", "correlation_id"])
            .alias("call")
        )
        .unnest("call")
        .filter(pl.col("name").is_not_null())
    )
    return Part(
        dispatches=complete(done.filter(~is_copy), _rocm.DISPATCH, "name", "mangled_name"),
        copies=complete(name_copies(done.filter(is_copy)), _rocm.COPY, "name"),
        regions=complete(
            calls.with_columns(
                pl.col("correlation_id").cast(pl.Int64, strict=False),
                pid="first",
                tid="second",
                category=pl.when(pl.col("name").str.starts_with("hsa_"))
                .then(pl.lit("HSA"))
                .otherwise(pl.lit("HIP")),
            ),
            _rocm.REGION, "category", "name", "message",
        ),
        bad=rest.height - calls.height,
    )  # fmt: skip


def name_copies(copies: pl.DataFrame) -> pl.DataFrame:
    """The copies with their direction in rocprofiler-sdk's words, and the device on either side."""
    name = pl.col("name")
    return copies.with_columns(
        name=name.replace(DIRECTIONS),
        src_agent=pl.when(name != "CopyHostToDevice").then("agent"),
        dst_agent=pl.when(name != "CopyDeviceToHost").then("agent"),
    )


def complete(frame: pl.DataFrame, numbers: tuple[str, ...], *texts: str) -> pl.DataFrame:
    """The frame with these columns, null where it lacks one."""
    types = {**dict.fromkeys(numbers, pl.Int64), **dict.fromkeys(texts, pl.String)}
    return frame.select(
        (pl.col(c) if c in frame.columns else pl.lit(None, t)).cast(t).alias(c)
        for c, t in types.items()
    )
