"""Live files into Parquet, old days thinned: `python -m sightline.record.monitor.seal`.

Runs as a process of its own, started by `watch` each hour and at its end. Every file appears by a
rename and carries the name of what it was made of, so that a process that is killed anywhere
leaves nothing out and nothing twice: what is done again replaces the same file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from sightline.core.model.history_folder import (
    EVENTS,
    FACTS,
    KINDS,
    LIVE_ENDING,
    LOG,
    MADE_OF,
    RAW,
    LiveFile,
    list_live,
    list_sealed_of_day,
    read_live,
    read_seconds,
    write_document,
)
from sightline.core.model.history_tables import KEYS, read_live_events, read_live_rows, thin_rows
from sightline.core.talk import Talk

_SECOND = 1_000_000_000


def main(arguments: list[str]) -> int:
    """Folder, then the names of the live files that nobody writes any more."""
    folder, ended = Path(arguments[0]), set(arguments[1:])
    facts = json.loads((folder / FACTS).read_text())
    today = datetime.now(UTC)
    failed: list[str] = []
    for path in list_live(folder):
        if path.name in ended:
            _try(failed, seal_file, folder, path)
    for days, seconds in sorted(facts["thinning"]):
        before = (today - timedelta(days=days)).strftime("%Y-%m-%d")
        for day in list_days(folder, before):
            _try(failed, thin_day, day, int(seconds))
    _try(failed, keep_bound, folder, int(facts["max_bytes"]))
    talk = Talk(sys.stderr)
    talk.keep_in(folder, LOG)
    for text in dict.fromkeys(failed):
        talk.write(f"sightline watch: {text}\n")
    talk.close()
    return 1 if failed else 0


def _try(failed: list[str], work: Callable[..., None], *arguments: Any) -> None:
    """What fails of one file or day is told, and leaves the others to be done."""
    try:
        work(*arguments)
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        why = str(error).splitlines()[0][:200]
        failed.append(f"{arguments[0]}: {why}")


def seal_file(folder: Path, path: Path) -> None:
    """A live file into Parquet files by kind and date, then it is removed."""
    live = read_live(path)
    for kind in (*KINDS, EVENTS):
        rows = read_live_events(live) if kind == EVENTS else read_live_rows(live, kind)
        for date, part in _split_days(rows):
            name = f"{RAW}-{path.name.removesuffix(LIVE_ENDING)}.parquet"
            _write(part, folder / kind / f"date={date}" / name)
    _keep_devices(folder, live)
    path.unlink()


def _split_days(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    if not rows.height:
        return []
    date = pl.from_epoch(pl.col("time_ns"), "ns").dt.strftime("%Y-%m-%d").alias("date")
    parts = rows.with_columns(date).partition_by("date", as_dict=True, include_key=False)
    return [(str(date), part) for (date,), part in parts.items()]


def _write(rows: pl.DataFrame, path: Path, first: Callable[[], object] = lambda: None) -> None:
    """Whole or not at all, right after `first`.

    One device stands after the other: their values then repeat, and pack well.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    order = [name for name in ("device_id", "source", "time_ns") if name in rows.columns]
    kept = [c.name for c in rows if c.name in KEYS or c.null_count() < rows.height]
    rows.select(kept).sort(order).write_parquet(
        unfinished, compression="zstd", compression_level=9, row_group_size=1 << 20
    )
    first()
    unfinished.replace(path)


def _keep_devices(folder: Path, live: LiveFile) -> None:
    if live.devices:
        write_document(folder / "devices.json", live.devices)


def list_days(folder: Path, before: str) -> list[Path]:
    """The folders of days before a date, of all kinds that are thinned."""
    days = (day for kind in KINDS for day in sorted((folder / kind).glob("date=*")))
    return [day for day in days if day.name.removeprefix("date=") < before]


def thin_day(day: Path, seconds: int) -> None:
    """A day at one row in `seconds`, or what it is at if that is more; finer files are removed.

    What the thinned file was made of stands beside it: readings that come later, of a clock that
    was set back, are not taken for those.
    """
    mine = list_sealed_of_day(day)
    interval = max([seconds, *(read_seconds(file.name) for file in mine)])
    target = day / f"{interval}s-{day.name.removeprefix('date=')}.parquet"
    if mine and mine != [target]:
        rows = pl.concat([pl.read_parquet(file) for file in mine], how="diagonal")
        thinned = thin_rows(rows, interval * _SECOND)
        made_of = {*mine, *day.glob("*.parquet")} - {target}
        parts = day / (target.name + MADE_OF)
        unfinished = parts.with_suffix(".part")
        unfinished.write_text("\n".join(sorted(file.name for file in made_of)) + "\n")
        _write(thinned, target, lambda: unfinished.replace(parts))
    for file in day.glob("*.parquet"):
        if file != target and file not in list_sealed_of_day(day):
            file.unlink()
    for parts in day.glob(f"*{MADE_OF}"):
        if parts.name != target.name + MADE_OF:
            parts.unlink()


def keep_bound(folder: Path, max_bytes: int) -> None:
    """Remove the oldest files until all fits."""
    files = sorted(
        (f for kind in (*KINDS, EVENTS) for f in (folder / kind).glob("date=*/*.parquet")),
        key=lambda f: (f.parent.name, f.name),
    )
    sizes = {f: f.stat().st_size for f in files}
    total = sum(sizes.values()) + sum(f.stat().st_size for f in list_live(folder))
    for file in files:
        if total <= max_bytes:
            break
        file.unlink()
        file.with_name(file.name + MADE_OF).unlink(missing_ok=True)
        total -= sizes[file]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
