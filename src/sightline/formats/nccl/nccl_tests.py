"""Logs of nccl-tests and rccl-tests: time and bandwidth by size, as they are printed.

A log may hold several benchmarks, and lines of NCCL (`_nccl_log.py`), of a launcher's prefix
("0: ") or of anything else between theirs. Newer ones say which collective they ran; of older ones
the reduction, the root and the factor between the two bandwidths tell, where they tell
(src/common.cu, doc/PERFORMANCE.md).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any, NamedTuple

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.tables import load_table
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats.nccl._failures import judge_network, list_failures, strip_tags
from sightline.formats.nccl._nccl_log import (
    note_missing_channels,
    note_warnings,
    read_channels,
    split_log,
)
from sightline.timeline.collectives import name_kind

IMPORTER = Importer(
    name="nccl_tests",
    label="Log of nccl-tests",
    strong=(
        rb"# nThread \d+ nGpus \d+ minBytes \d+",
        rb"(?m)^.{0,40}#\s+size\s+count\s+type(?:\s+redop)?.{0,20}\s+time\s+algbw\s+busbw",
        rb"# Collective test starting: \w+_perf",
    ),
    weak=(),
    looks_like="text with '# nThread 1 nGpus 8 minBytes' and '# size count type redop time algbw'",
    suffixes=(".log", ".out", ".txt"),
    version=9,
    source="https://github.com/NVIDIA/nccl-tests",
)

_PREFIX = r"^\s*(?:\[?[\w.,-]{1,40}\]?: ?)?\s*"
_BEGIN = re.compile(_PREFIX + r"# nThread \d+ nGpus (\d+)")
# The sizes that a test is to go through, and what it prints behind the last.
_SIZES = re.compile(r"minBytes (\d{1,18}) maxBytes (\d{1,18}) step: (\d{1,18})\((factor|bytes)\)")
_LESS = "Reducing maxBytes"
_TRAILER = "# Avg bus bandwidth"
# Of a row of results, though it is damaged or cut off.
_LOOKS = re.compile(_PREFIX + r"\d+\s+\d+\s+(?:u?int|half|float|double|bfloat|f8|fp8)\w*\s")
_LONGEST = 400  # of a row, which is 150 characters long
# Between the first row and the last: a size, or the mark of a process alone.
_BEGUN = re.compile(
    r"^\s*(?:\[?[\w.,-]{1,40}\]?: ?)?\s*\d+(?:\s+[\d-]+(?:\s.*)?)?$|^\s*\[?\d+\]?:\s*$"
)
_FIGURES, _LEAST_FIGURES = re.compile(r"\s\d+\.\d+(?=\s)"), 4
_NAMED = re.compile(_PREFIX + r"# Collective test starting: (\w+)_perf")
_DEVICE = re.compile(
    _PREFIX + r"#\s+Rank\s+(\d{1,9}).{0,40} on\s+(\S+) device\s+\d+ \[[\w:.]+\]\s*(.*?)\s*$"
)
_NUMBER = r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_RESULT = rf"\s+{_NUMBER}\s+{_NUMBER}\s+{_NUMBER}\s+(N/A|\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
# Of what has no reduction, versions print the root alone; where that is, the header says.
_ROW = re.compile(
    _PREFIX + rf"(\d+)\s+(\d+)\s+(\w+)(?:\s+([a-z]\w*)(?:\s+(-?\d+))?)?{_RESULT}(?:{_RESULT})?\s*$"
)
_HEADER = re.compile(_PREFIX + r"#\s+size\s+count\s+type\s+root\s+time\s")
_ROOTED = re.compile(_PREFIX + rf"(\d+)\s+(\d+)\s+(\w+)()\s+(-?\d+){_RESULT}(?:{_RESULT})?\s*$")
# Factors of two digits are exact to a few hundredths of what they are of bandwidths over 1 GB/s.
_NEAR = 0.02
_PLACEMENTS = ("out-of-place", "in-place")


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all lines of results. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    rows: list[dict[str, Any]] = []
    hosts: dict[int, str] = {}
    test, op, device = 0, None, None
    bad = missing = ended = 0
    asked: _Sizes | None = None
    seen: list[int] = []
    row = _ROW
    whole = strip_tags(read_text(source, quality))
    text, said = split_log(whole)
    in_rows, halves = False, 0  # rows of one placement alone
    for line in text.splitlines():
        if (named := _NAMED.match(line)) is not None:
            op = named[1]
        elif _BEGIN.match(line):
            test, hosts, device = test + 1, {}, None
            missing += _count_missing(asked, seen)
            asked, seen = _find_sizes(line), []
        elif (found := _DEVICE.match(line)) is not None:
            hosts[int(found[1])] = found[2]
            device = found[3] or device
        elif "# Collective test concluded" in line:
            op = None
        elif _TRAILER in line:
            ended += 1
        elif line.count("size") and line.count("busbw"):
            row = _ROOTED if _HEADER.match(line) else _ROW
            in_rows = True
        elif (found := row.match(line)) is not None:
            in_rows = True
            halves += found[10] is None
            seen.append(_read_whole(found[1]) or 0)
            about = {
                "test": max(test, 1) - 1,
                "op": op,
                "group_size": len(hosts) or None,
                "machines": len(set(hosts.values())) or None,
                "device": device and replace_surrogates(device),
            }
            rows += _read_results(found, about)
        else:
            in_rows = in_rows and "# Out of bounds" not in line
            bad += bool(_LOOKS.match(line) or (in_rows and _is_row_left(line[:_LONGEST])))
    missing += _count_missing(asked, seen, has_ended=test == ended == 1 and _LESS not in whole)
    bad += halves if rows and 0 < 2 * halves < len(rows) else 0
    failures = list_failures(whole) if not rows else []
    if not rows and not failures:
        raise DamagedError(f"cannot read {source.given}", why="it has no line of results")
    schema = {c.name: c.dtype for c in load_table("bandwidth_tests").stored}
    table = _name_ops(pl.DataFrame(rows, schema=schema, orient="row"))
    sizes = table.get_column("group_size").drop_nulls()
    recording = Recording("nccl-tests", world_size=sizes.max() if sizes.len() else None)  # type: ignore[arg-type]
    channels = read_channels(said)
    tables = {"bandwidth_tests": table, "nccl_channels": channels}
    quality += note_bad_lines(bad, "line of results")
    if missing:
        text = "sizes between those of a test have no line of results"
        quality.append(Quality("missing_sizes", "warning", text, missing))
    elif rows and test and not ended:
        text = "the log lacks the average bandwidth, which nccl-tests prints last"
        quality.append(Quality("truncated", "warning", text))
    quality += note_missing_channels(said, text)
    notes = [*quality, *failures, *note_warnings(said), *judge_network(said, channels)]
    return Imported(tables, recording, notes)


def _is_row_left(line: str) -> bool:
    """Whether a line among rows is one, with a damage."""
    return _BEGUN.match(line) is not None or len(_FIGURES.findall(line)) >= _LEAST_FIGURES


class _Sizes(NamedTuple):
    """What a test is to go through: sizes, their step, and whether it is a factor or bytes."""

    least: int
    most: int
    step: int
    kind: str


def _find_sizes(line: str) -> _Sizes | None:
    found = _SIZES.search(line)
    return found and _Sizes(int(found[1]), int(found[2]), int(found[3]), found[4])


def _count_missing(sizes: _Sizes | None, seen: list[int], *, has_ended: bool = False) -> int:
    """How many sizes below the greatest one have no line.

    The greatest that was asked for is a measure only of a test that came to its end, and did not
    leave out what does not fit into memory.
    """
    if sizes is None or not seen:
        return 0
    size, asked, step, kind = sizes
    most, count = max(seen), 0
    if has_ended and kind == "factor" and size > 0 and step > 1:
        most = max(most, asked)
    if kind == "bytes":
        count = (most - size) // step + 1 if step else 0
    else:
        while 0 < size <= most and step > 1:
            size, count = size * step, count + 1
    return max(count - len(seen), 0)


def _read_results(found: re.Match[str], about: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each placement that the line has."""
    cells = found.groups()
    size, elements, root = (_read_whole(c) for c in (cells[0], cells[1], cells[4]))
    if size is None or elements is None:
        return []
    rows = []
    for placement, (time, algorithm, bus, wrong) in zip(
        _PLACEMENTS, (cells[5:9], cells[9:13]), strict=True
    ):
        ns = _read_whole(time, 1000)
        rates = [float(rate) for rate in (algorithm, bus) if rate is not None]
        if ns is not None and all(map(math.isfinite, rates)):
            rows.append(
                {
                    **about,
                    "placement": placement,
                    "bytes": size,
                    "elements": elements,
                    "dtype": cells[2],
                    "reduction": cells[3] or None,
                    "root": root,
                    "duration_ns": ns,
                    "algorithm_bandwidth_gb_per_s": rates[0],
                    "bus_bandwidth_gb_per_s": rates[1],
                    "wrong": _read_whole(wrong),
                }
            )
    return rows


def _read_whole(text: str | None, scale: int = 1) -> int | None:
    """A number times the scale, cut to an integer; None for none, or one that no column holds."""
    try:
        exact = Decimal(text or "") * scale
    except ArithmeticError:  # of decimal: no number, or one beyond all
        return None
    # Compared first: as an integer, 1e999999999 would fill the memory.
    return int(exact) if abs(exact) <= INT64_MAX else None


def _name_ops(table: pl.DataFrame) -> pl.DataFrame:
    """The operation, by its name in the log, else by what only one of them is."""
    n = pl.col("group_size")
    ratio = pl.col("bus_bandwidth_gb_per_s") / pl.col("algorithm_bandwidth_gb_per_s")
    # The largest sizes have the most digits.
    factor = ratio.filter(pl.col("algorithm_bandwidth_gb_per_s") >= 1).last().over("test")
    reduces = pl.col("reduction").fill_null("none") != "none"
    # Where it has no root, 0 is printed by some versions: only then is the factor another one.
    rooted = (pl.col("root") >= 0) & ((factor - 1).abs() < _NEAR) & (n > 2)
    told = (
        pl.when(rooted)
        .then(pl.when(reduces).then(pl.lit("reduce")).otherwise(pl.lit("broadcast")))
        .when(reduces & ((factor - 2 * (n - 1) / n).abs() < _NEAR))
        .then(pl.lit("all_reduce"))
        .when(reduces & ((factor - (n - 1) / n).abs() < _NEAR))
        .then(pl.lit("reduce_scatter"))
    )
    return table.with_columns(op=pl.coalesce(name_kind(pl.col("op")), told))
