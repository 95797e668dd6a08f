"""What Zeus' optimizers measured: energy or power and time by power limit and batch size.

The power limit optimizer saves its measurements (`profile_path`), the batch size optimizer's data
loader one file for each batch size (`bs32.power.json`) and one for each run of a job
(`job+bs32.train.json`), and the traces of the paper are tables of epochs (summary_power_GPU.csv).
None says when: the measurements are put one after another.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.text import make_printable
from sightline.errors import DamagedError
from sightline.formats._json import parse_json
from sightline.formats._samples import Samples, note_no_times
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="zeus_tables",
    label="Zeus' optimizers (JSON, CSV)",
    strong=(
        rb'\A\s*\{\s*"measurements"\s*:\s*\[\s*(?:\]|\{\s*"power_limit"\s*:)',
        rb'\A\s*\{\s*"job_id"\s*:[^\n{]{0,200},\s*"train_power"\s*:\s*\{',
        rb'\A\s*\{\s*"energy"\s*:[^{]{1,40},\s*"time"\s*:[^{]{1,40},\s*"cost"\s*:[^{]{1,40},\s*"num_epochs"',
        rb"\Adataset,network,batch_size,optimizer,power_limit,time_per_epoch,average_power\r?\n",
    ),
    weak=(),
    looks_like='{"measurements": [{"power_limit": …, or columns power_limit, time_per_epoch',
    suffixes=(".json", ".csv"),
    version=2,
    source="https://ml.energy/zeus/optimize/",
)
_MOST_S = 2.0**31  # 68 years
_LATEST_NS = 2**62


class Measured(NamedTuple):
    """A range that was measured: its name, how long it took, and its energy over all GPUs."""

    name: str
    seconds: float
    joules: float


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all measurements that are whole. Raises DamagedError where none is."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    try:
        found = list(_list_json(parse_json(text, quality)) if "{" in text[:64] else _list_csv(text))
    except (ValueError, RecursionError, csv.Error) as error:
        raise DamagedError(f"cannot read {source.given}", why=str(error)) from error
    whole = [one for one in found if one is not None]
    if not whole:
        raise DamagedError(f"cannot read {source.given}", why="it has no complete measurement")
    samples = Samples()
    rows, at = [], 0
    for one in whole:
        end = at + round(one.seconds * 1e9)
        if end >= _LATEST_NS:
            break
        name = make_printable(one.name)
        rows.append((name, at, end))
        samples.add("energy", one.joules, end, None, "all GPUs", "J", at)
        if one.seconds > 0:
            samples.add("power", one.joules / one.seconds, end, None, "all GPUs", "W", at)
        at = end
    host = pl.DataFrame(rows, schema=["name", "start_ns", "end_ns"], orient="row").select(
        host_op_id=pl.int_range(pl.len(), dtype=pl.Int64),
        layer=pl.lit("annotation"),
        name="name",
        start_ns="start_ns",
        end_ns="end_ns",
    )
    quality += [note_no_times(0), *note_bad_lines(len(found) - len(rows), "measurements")]
    return Imported(samples.tables("nvidia") | {"host_ops": host}, Recording("zeus"), quality)


def _list_json(document: Any) -> Iterator[Measured | None]:
    if not isinstance(document, dict):
        return
    for row in _list_of(document.get("measurements")):
        limit = _number(row, "power_limit")
        yield _measure(f"power limit {limit:g} W", _number(row, "time"), _number(row, "energy"))
    power, rate = document.get("train_power"), document.get("train_throughput")
    for part, watts, rates in (
        ("train", power, rate),
        ("eval", document.get("eval_power"), document.get("eval_throughput")),
    ):
        for limit, value in watts.items() if isinstance(watts, dict) else ():
            # Keys are milliwatts; a round of the loader takes 1 / throughput.
            each = _number(rates if isinstance(rates, dict) else {}, limit)
            shown = f"{int(limit) // 1000} W" if limit.isdecimal() else make_printable(limit)
            seconds = 1 / each if each > 0 else math.nan
            watt = float(value) if isinstance(value, (int, float)) else math.nan
            yield _measure(f"{part}, power limit {shown}, an iteration", seconds, watt * seconds)
    if "num_epochs" in document:
        epochs = _number(document, "num_epochs")
        reached = "" if document.get("reached") else ", target not reached"
        name = f"{epochs:g} epochs{reached}"
        yield _measure(name, _number(document, "time"), _number(document, "energy"))


def _list_csv(text: str) -> Iterator[Measured | None]:
    for row in csv.DictReader(io.StringIO(text)):
        values = {key: value for key, value in row.items() if isinstance(key, str)}
        if None in row or any(value is None for value in row.values()):
            yield None
            continue
        seconds, watts = _number(values, "time_per_epoch"), _number(values, "average_power")
        who = ", ".join(
            f"{words} {values.get(key, '')}".strip()
            for words, key in (("", "network"), ("batch", "batch_size"), ("", "optimizer"))
        )
        name = f"{who}, power limit {values.get('power_limit', '')} W, an epoch"
        yield _measure(name, seconds, watts * seconds)


def _list_of(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _number(row: dict[str, Any], key: str) -> float:
    """A number, or one that is none."""
    value = row.get(key)
    try:
        return float(value) if isinstance(value, (int, float, str)) else math.nan
    except (ValueError, OverflowError):
        return math.nan


def _measure(name: str, seconds: float, joules: float) -> Measured | None:
    """It, where both are numbers that can be."""
    is_whole = math.isfinite(joules) and joules >= 0 and 0 <= seconds < _MOST_S
    return Measured(name, seconds, joules) if is_whole else None
