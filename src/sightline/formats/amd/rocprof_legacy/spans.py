"""roctracer's lines `START:END WHO:WHERE WHAT` as columns: nearly all that its texts hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

import polars as pl

from sightline.formats import _rocm
from sightline.formats._lines import split_lines, unite

# Work on a device; a call with its arguments, perhaps what it returned, and its number.
_SPAN = "{start_ns:int}:{end_ns:int} {first:int}:{second:int} "
_WORK = _SPAN + "{name:free}:{correlation_id:int}:{pid:int}"
_CALLS = tuple(
    _SPAN + "{name:word}({:any})" + returned + number
    for returned in ("", " = {result:word}")
    for number in ("", " :{correlation_id:int}")
)
# The same of a line that is written otherwise. A kernel's name has brackets, too: of work the
# process stands behind the correlation id.
_ODD_SPAN = r"^(\d{1,19}):(\d{1,19}) (\d{1,9}):(\d{1,9}) (.+)$"
_ODD_CALL = r"^(\w+)\(.*\)(?: = [^:]*?)? ?(?::(\d{1,19}))?$"
_ODD_WORK = r"^(.+):(\d{1,19}):(\d{1,9})$"
_BEGIN = re.compile(rb"\d{9,19}:\d{9,19} \d{1,9}:\d{1,9} ")
_NUMBERS = ("start_ns", "end_ns", "first", "second", "correlation_id", "pid")
_MOST_PLACE = 10**9  # processes, threads, devices and queues have fewer digits
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

    @property
    def earliest(self) -> int | None:
        """When the first of its calls and kernels began, in ns."""
        told = [part.get_column("start_ns") for part in (self.regions, self.dispatches)]
        return pl.concat(told).min()  # type: ignore[return-value]


def split_spans(data: bytes) -> tuple[Part, list[str]]:
    """The records of the lines that are spans, and all other lines."""
    parts, others = split_lines(data, _WORK, *_CALLS)
    usual = unite(parts)
    spans = usual.rows.with_columns(usual.text("name"))
    odd, rest, bad = _split_odd_spans(others)
    spans = pl.concat([spans.drop("result"), odd]).sort("line", maintain_order=True)
    # More beginnings than records: a line holds two. Work of process 0 is a call to no one.
    bad += max(len(_BEGIN.findall(data)) - spans.height - bad, 0)
    is_call = pl.col("pid").is_null()
    bad += spans.filter(is_call & (pl.col("first") == 0)).height
    in_range = pl.all_horizontal(pl.col("first", "second", "pid").fill_null(0) < _MOST_PLACE)
    whole = spans.filter(in_range)
    return _sort_out(whole, bad + spans.height - whole.height), rest


def _split_odd_spans(lines: pl.DataFrame) -> tuple[pl.DataFrame, list[str], int]:
    """The spans among lines, the texts of those that are none, and how many spans are damaged."""
    text = pl.col("text")
    fields = ("start_ns", "end_ns", "first", "second", "what")
    spans = lines.select(
        "line", text, text.str.extract_groups(_ODD_SPAN).struct.rename_fields(fields).alias("span")
    ).unnest("span")
    rest = spans.filter(pl.col("what").is_null()).get_column("text").to_list()
    what = pl.col("what")
    work = what.str.extract_groups(_ODD_WORK).struct.rename_fields(
        ["name", "correlation_id", "pid"]
    )
    call = what.str.extract_groups(_ODD_CALL).struct.rename_fields(["call", "number"])
    found = (
        spans.filter(what.is_not_null())
        .with_columns(work.alias("work"), call.alias("called"))
        .unnest("work", "called")
        .with_columns(
            pl.coalesce("name", "call"),
            pl.when(pl.col("name").is_null())
            .then("number")
            .otherwise("correlation_id")
            .alias("correlation_id"),
        )
    )
    named = found.filter(pl.col("name").is_not_null())
    columns = ("line", "start_ns", "end_ns", "first", "second", "name", "correlation_id", "pid")
    whole = named.select(columns).with_columns(pl.col(_NUMBERS).cast(pl.Int64, strict=False))
    return whole, rest, found.height - named.height


def _sort_out(spans: pl.DataFrame, bad: int) -> Part:
    name, is_work = pl.col("name"), pl.col("pid").is_not_null()
    done = spans.filter(is_work).with_columns(agent="first", queue_id="second")
    is_copy = name.str.contains(COPY) & ~name.str.contains("(", literal=True)
    calls = spans.filter(~is_work).with_columns(
        pid="first",
        tid="second",
        category=pl.when(name.str.starts_with("hsa_")).then(pl.lit("HSA")).otherwise(pl.lit("HIP")),
    )
    return Part(
        dispatches=complete(done.filter(~is_copy), _rocm.DISPATCH, "name", "mangled_name"),
        copies=complete(name_copies(done.filter(is_copy)), _rocm.COPY, "name"),
        regions=complete(calls, _rocm.REGION, "category", "name", "message"),
        bad=bad,
    )


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
