"""A continuous profile: a history of short windows of jobs, each with its stacks.

Beside the runs and values of any history (`history`):

    profiles/ID.folded.gz   the stacks of a window, of its first weight, at most some thousand

so that stacks of a week are added up by reading as many small files as it has windows.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from sightline.compare.comparison import compare_samples
from sightline.compare.fingerprint import parse_fingerprint
from sightline.compare.sample import Sample
from sightline.core.whole_file import write_whole
from sightline.errors import InputError, MissingDataError
from sightline.flames import folded
from sightline.flames.build import build_stacks, choose_weight
from sightline.flames.shortened import shorten_stacks
from sightline.flames.stacks import Stacks, unite_stacks
from sightline.history.history import RUNS, VALUES, add_run

PROFILES = "profiles"
_MOST_NODES = 4000  # of a window: what a picture shows, and some 30 kB packed
_MOST_BYTES = 64 << 20
_HEAD = "# weight: "


def add_window(
    folder: Path,
    sample: Sample,
    labels: Mapping[str, str],
    added_ns: int,
    counts: Mapping[str, float] | None = None,
) -> str:
    """Put a window into a history, with its stacks; its id. Raises InputError.

    `counts` are metrics of the time since the window before it: `between:NAME`, a second.
    """
    run_id = add_run(folder, sample, labels, added_ns, more=counts or {})
    if sample.run is None:
        return run_id
    try:
        stacks = build_stacks(sample.run)
        weight = choose_weight(stacks, None)
    except MissingDataError:
        return run_id
    shown, _ = shorten_stacks(stacks, _MOST_NODES)
    text = f"{_HEAD}{weight}\n" + folded.write(shown, weight)
    place = folder / PROFILES
    try:
        place.mkdir(exist_ok=True)
        data = gzip.compress(text.encode("utf-8", "replace"), mtime=0)
        write_whole(place / f"{run_id}.folded.gz", data)
    except OSError as error:
        raise InputError(f"cannot write {place}", why=(error.strerror or str(error))) from error
    return run_id


def read_windows(folder: Path) -> pl.DataFrame:
    """All windows in order of time: those columns of `RUNS`, and `job`, `node`. InputError."""
    from sightline.history.history import read_runs

    runs = read_runs(folder, {})
    label = pl.col("labels").str.json_path_match
    return runs.with_columns(
        job=label("$.job").fill_null("none"), node=label("$.node").fill_null("")
    )


def read_values(folder: Path, run_id: str) -> dict[str, float]:
    """The metrics of one run of a history."""
    rows = _scan(folder / "values", list(VALUES)).filter(pl.col("run_id") == run_id)
    return dict(rows.select("metric", "value").unique("metric").collect().iter_rows())


def compare_windows(folder: Path, before: Sequence[str], after: str) -> dict[str, Any]:
    """What changed from some runs of a history to another, by their fingerprints."""
    wanted = pl.col("run_id").is_in([*before, after])
    rows = _scan(folder / "runs", list(RUNS)).filter(wanted)
    held = {
        run_id: parse_fingerprint(text.encode(), f"{name} {run_id[:6]}")
        for run_id, name, text in rows.select("run_id", "name", "fingerprint").collect().iter_rows()
    }
    missing = [run_id for run_id in (*before, after) if run_id not in held]
    if missing:
        raise InputError(f"there is no run {missing[0]} in {folder}")
    return compare_samples([held[run_id] for run_id in before], [held[after]])


def read_stacks(folder: Path, run_ids: Sequence[str]) -> tuple[Stacks, str]:
    """The stacks of several windows added up, and their weight: that of the first of them.

    Raises MissingDataError where none has any.
    """
    parts: list[Stacks] = []
    weight = ""
    for run_id in run_ids:
        text = _unpack(folder / PROFILES / f"{run_id}.folded.gz")
        head, _, lines = text.partition("\n")
        own = head.removeprefix(_HEAD)
        if not head.startswith(_HEAD) or own != (weight or own):
            continue
        weight = own
        parts.append(folded.parse_folded(lines.splitlines(), weight)[0])
    if not parts:
        raise MissingDataError("no window has stacks", why="they come with the continuous profile")
    return unite_stacks(parts), weight


def _unpack(path: Path) -> str:
    try:
        data = zlib.decompressobj(31).decompress(path.read_bytes(), _MOST_BYTES)
    except (OSError, zlib.error):
        return ""
    return data.decode("utf-8", "replace")


def _scan(folder: Path, columns: list[str]) -> pl.LazyFrame:
    files = sorted(folder.glob("*.parquet"))
    if not files:
        raise InputError(f"there is no history in {folder.parent}")
    return pl.scan_parquet(files, glob=False).select(columns)


def is_history(path: Path) -> bool:
    """Whether a folder is a history of runs."""
    return (path / "runs").is_dir() and any((path / "runs").glob("*.parquet"))
