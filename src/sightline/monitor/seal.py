"""Live files into Parquet, old days thinned, the bound kept: `python -m sightline.monitor.seal`.

Runs as a process of its own, started by `watch` each hour and at its end. Every file appears by a
rename and carries the name of what it was made of, so that a process that is killed anywhere
leaves nothing out and nothing twice: what is done again replaces the same file.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from sightline.model.history_folder import (
    EVENTS,
    FACTS,
    KINDS,
    LIVE_ENDING,
    RAW,
    LiveFile,
    list_live,
    list_sealed,
    read_live,
)
from sightline.model.history_tables import KEYS, read_live_events, read_live_rows, thin_rows

_SECOND = 1_000_000_000


def main(arguments: list[str]) -> int:
    """Folder, then the names of the live files that nobody writes any more."""
    folder, ended = Path(arguments[0]), set(arguments[1:])
    facts = json.loads((folder / FACTS).read_text())
    for path in list_live(folder):
        if path.name in ended:
            seal_file(folder, path)
    today = datetime.now(UTC)
    for days, seconds in sorted(facts["thinning"]):
        thin_days(folder, (today - timedelta(days=days)).strftime("%Y-%m-%d"), int(seconds))
    keep_bound(folder, int(facts["max_bytes"]))
    return 0


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


def _write(rows: pl.DataFrame, path: Path) -> None:
    """Whole or not at all. One device after the other: their values then repeat, and pack well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    order = [name for name in ("device_id", "source", "time_ns") if name in rows.columns]
    kept = [c.name for c in rows if c.name in KEYS or c.null_count() < rows.height]
    rows.select(kept).sort(order).write_parquet(
        unfinished, compression="zstd", compression_level=9, row_group_size=1 << 20
    )
    unfinished.replace(path)


def _keep_devices(folder: Path, live: LiveFile) -> None:
    if live.devices:
        unfinished = folder / "devices.part"
        unfinished.write_text(json.dumps(live.devices, indent=1) + "\n")
        unfinished.replace(folder / "devices.json")


def thin_days(folder: Path, before: str, seconds: int) -> None:
    """Each day before that date, at one row in `seconds`; its finer files are removed."""
    for kind in KINDS:
        for day in sorted((folder / kind).glob("date=*")):
            date = day.name.removeprefix("date=")
            target = day / f"{seconds}s-{date}.parquet"
            if date >= before:
                continue
            files = list_sealed(day.parent.parent, kind)
            mine = [f for f in files if f.parent == day]
            if target not in mine and not any(_is_wider(f, seconds) for f in mine):
                rows = pl.concat([pl.read_parquet(f) for f in mine], how="diagonal")
                _write(thin_rows(rows, seconds * _SECOND), target)
                mine = [target]
            for file in day.glob("*.parquet"):
                if file not in mine:
                    file.unlink()


def _is_wider(file: Path, seconds: int) -> bool:
    digits = file.name.partition("s-")[0]
    return digits.isdecimal() and int(digits) > seconds


def keep_bound(folder: Path, max_bytes: int) -> None:
    """Remove the oldest days, then the oldest files of the last one, until all fits."""
    files = sorted(
        (f for kind in (*KINDS, EVENTS) for f in (folder / kind).glob("date=*/*.parquet")),
        key=lambda f: (f.parent.name, f.name),
    )
    sizes = {f: f.stat().st_size for f in files}
    total = sum(sizes.values()) + sum(f.stat().st_size for f in list_live(folder))
    dates = sorted({f.parent.name for f in files})
    for date in dates:
        mine = [f for f in files if f.parent.name == date]
        is_last = date == dates[-1]
        for file in mine:
            if total <= max_bytes:
                break
            file.unlink()
            total -= sizes.pop(file)
        if total <= max_bytes and not is_last:
            break


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
