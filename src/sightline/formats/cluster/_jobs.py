"""What importers of jobs share: rows of the tables of jobs, with owners and nodes by pseudonym."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from sightline.core.job_metrics import METRICS, name_job_metric
from sightline.core.model.declare import Quality
from sightline.core.model.tables import load_table
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.formats._asked_names import AskedNames

_TEXTS = 4_000  # characters of a text that are kept
# Ours: 30 million values are 240 MB in memory; a job of 128 nodes for a week, every minute, with
# 20 metrics is 26 million.
MOST_VALUES = 30_000_000
_UNKNOWN = ("", "unknown", "n/a", "none", "(null)", "null", "invalid")


def read_word(value: object) -> str | None:
    """A text, or None where it stands for none: Unknown, N/A, (null)."""
    if value is None or isinstance(value, dict | list):
        return None
    text = replace_surrogates(str(value)).strip()[:_TEXTS]
    return None if text.lower() in _UNKNOWN else text


def clean_name(text: str) -> str:
    """A name as it can be written: no halves of characters, and not without end."""
    return replace_surrogates(text)[:200]


def read_whole(value: object) -> int | None:
    """An integer of 64 bits, of a number or its text; None for anything else."""
    number = read_real(value)
    return None if number is None or not -INT64_MAX <= number <= INT64_MAX else round(number)


def read_real(value: object) -> float | None:
    """A finite number, or None. Slurm wraps them: {"set": true, "infinite": false, "number": 4}."""
    if isinstance(value, dict):
        if value.get("set") is False or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def seconds_to_ns(value: object) -> int | None:
    """A time or length in seconds, as ns; None where it is none, or 0 stands for none."""
    number = read_real(value)
    return read_whole(number * 1e9) if number is not None and number > 0 else None


class JobTables:
    """Rows that an importer collects, and the tables that they become."""

    def __init__(self, *, keep_identity: bool) -> None:
        self._keeps = keep_identity
        self._pseudonyms: dict[str, dict[str, str]] = {}
        self.rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("jobs", "job_nodes", "job_means", "metric_limits")
        }
        self.rows["cluster_nodes"] = []
        self._series: list[tuple[dict[str, Any], int, int, np.ndarray]] = []
        self.values = 0
        self.left_out = 0
        self.asked = AskedNames()  # of the documents that the rows are made of
        self.unlisted = 0  # jobs whose nodes are told in no form that names one
        self.damaged = 0  # series that have no step, no values or no list of them

    def name(self, kind: str, given: object) -> str | None:
        """Who or where: as given where identities are kept, else `user 1`, `node 7`."""
        word = read_word(given)
        if word is None or self._keeps:
            return word
        known = self._pseudonyms.setdefault(kind, {})
        return known.setdefault(word, f"{kind} {len(known) + 1}")

    def add_job(self, job_id: str, **facts: Any) -> int:
        """A job; the number that its other rows carry."""
        row = len(self.rows["jobs"])
        for key in ("user", "project"):
            facts[key] = self.name(key, facts.get(key))
        if not self._keeps:
            facts["name"] = None
        self.rows["jobs"].append({"job_row_id": row, "job_id": clean_name(job_id), **facts})
        return row

    def add_node(self, job: int, host: object, **facts: Any) -> None:
        """A node of a job."""
        name = self.name("node", host)
        if name is not None:
            self.rows["job_nodes"].append({"job_row_id": job, "host": name, **facts})

    def add_mean(
        self,
        job: int,
        given: str,
        values: dict[str, Any],
        unit: tuple[str, str] | None = None,
        host: object = None,
        scope: str = "node",
        element: object = None,
    ) -> None:
        """Mean, least and most of a metric; `unit` is (base, prefix), None for the usual one."""
        name, ours, scale = name_job_metric(given, *(unit or ("", "")))
        scope = "accelerator" if name.startswith("acc_") else scope
        if unit is None and name in METRICS:
            scale = METRICS[name].per
        found = {key: _scale(values.get(key), scale) for key in ("avg", "min", "max")}
        if any(value is not None for value in found.values()):
            self.rows["job_means"].append(
                {
                    "job_row_id": job,
                    "metric": clean_name(name),
                    "unit": read_word(ours),
                    "host": self.name("node", host),
                    "scope": clean_name(scope),
                    "element": read_word(element),
                    **found,
                }
            )

    def add_series(
        self,
        job: int,
        given: str,
        unit: tuple[str, str],
        place: tuple[object, str, object],
        clock: tuple[int, int],
        data: Sequence[Any],
    ) -> None:
        """Values of a metric; place: host, scope, element; clock: start and step in ns."""
        if self.values + len(data) > MOST_VALUES:
            self.left_out += len(data)
            return
        name, ours, scale = name_job_metric(given, *unit)
        host, scope, element = place
        about = {
            "job_row_id": job,
            "metric": clean_name(name),
            "unit": read_word(ours),
            "host": self.name("node", host),
            "scope": clean_name(scope),
            "element": read_word(element),
        }
        values = np.array([_plain(value) for value in data], dtype=np.float64) * scale
        self.values += len(values)
        self._series.append((about, *clock, values))

    def note_left_out(self) -> list[Quality]:
        """Notes on values that were too many, and on nodes that jobs have and do not list."""
        notes = []
        listed = Counter(row["job_row_id"] for row in self.rows["job_nodes"])
        of = {row["job_row_id"]: row.get("nodes") for row in self.rows["jobs"]}
        missing = sum(max((of.get(job) or 0) - count, 0) for job, count in listed.items())
        missing += self.unlisted
        if missing:
            text = "nodes of jobs are not listed, though other nodes of the same jobs are"
            notes.append(Quality("missing_nodes", "warning", text, missing))
        if self.damaged:
            text = "series of jobs have no values, or no time between them: they were left out"
            notes.append(Quality("damaged_series", "warning", text, self.damaged))
        if self.left_out:
            text = "values of series were left out: there are more than can be read at once"
            remedy = "Give fewer jobs at a time."
            notes.append(Quality("series_left_out", "warning", text, self.left_out, remedy))
        return notes

    def tables(self) -> dict[str, pl.DataFrame]:
        """All tables that have a row."""
        made = {
            name: pl.DataFrame(rows, schema=_schema(name), orient="row")
            for name, rows in self.rows.items()
            if rows
        }
        if self._series:
            made["job_series"] = self._tabulate_series()
        return made

    def _tabulate_series(self) -> pl.DataFrame:
        heads = pl.DataFrame([about for about, *_ in self._series], infer_schema_length=None)
        counts = np.array([len(values) for *_, values in self._series])
        place = np.repeat(np.arange(len(counts)), counts)
        starts = np.array([start for _, start, _, _ in self._series], dtype=np.int64)
        steps = np.array([step for _, _, step, _ in self._series], dtype=np.int64)
        before = np.cumsum(counts) - counts
        nth = np.arange(int(counts.sum())) - np.repeat(before, counts)
        values = pl.Series("value", np.concatenate([v for *_, v in self._series]))
        frame = heads[pl.Series(place, dtype=pl.UInt32)].with_columns(
            time_ns=pl.Series(starts[place] + nth * steps[place]),
            step_ns=pl.Series(steps[place]),
            value=values.fill_nan(None),
        )
        schema = _schema("job_series")
        return frame.select(pl.col(name).cast(kind) for name, kind in schema.items())


def _schema(name: str) -> dict[str, Any]:
    return {column.name: column.dtype for column in load_table(name).stored}


def _scale(value: object, scale: float) -> float | None:
    number = read_real(value)
    return None if number is None else number * scale


def _plain(value: object) -> float:
    """A number, or NaN where there is none."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        return float(value) if is_number else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return math.nan
