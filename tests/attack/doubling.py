"""Reads hostile inputs of one size and of twice that size: time and memory at most double.

    python tests/attack/doubling.py [--seconds 0.3] [--only kineto]

Inputs are made of the seeds (a line, a cell, a bracket again and again, one of them very long; of
those that are no text the whole or its end; of databases their rows; of folders the largest file)
and by hand (hostile.py). Each is enlarged until reading it takes the given processor time, then
doubled. Measured are processor time and the peak of the memory in use, of the reader alone. The
table has a line for each reader: the worst of its inputs, by time and by memory. What takes less
than 0.1 s, or 24 MiB more than the reader itself, is no measure.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from attack.children import run_apart  # noqa: E402
from attack.hostile import CASES  # noqa: E402
from attack.structured import is_text  # noqa: E402
from sightline.core import registry  # noqa: E402
from sightline.core.model.declare import ImportOptions  # noqa: E402
from sightline.core.model.source import Source  # noqa: E402
from sightline.errors import SightlineError  # noqa: E402

MOST = 2.2  # times, as much time or memory for twice the input
# Clocks and allocators are not exact: what a reader may take besides.
FREE_S, FREE_BYTES = 0.15, 24 << 20
LARGEST = 24 << 20  # bytes of the larger input
LEAST_S = 0.1
Make = Callable[[int], bytes]


@dataclass(frozen=True)
class Made:
    """An input of any size: a file, or one of a folder."""

    make: Make
    folder: Path | None = None
    inside: Path = Path()

    def write(self, folder: Path, number: int) -> tuple[Path, int]:
        """Write it; what is to be opened, and the size of the file that grows."""
        data = self.make(number)
        if self.folder is None:
            (folder / "hostile").write_bytes(data)
            return folder / "hostile", len(data)
        place = folder / "hostile-folder" / self.folder.name
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self.folder, place)
        (place / self.inside).write_bytes(data)
        return place, len(data)


def measure(importer: str, path: Path) -> tuple[float, int]:
    """Processor time in s and peak of memory in bytes of reading a file."""
    read = registry.load("importers", importer).read
    # Linux only: the peak is counted anew.
    Path("/proc/self/clear_refs").write_text("5")
    began = time.process_time()
    with contextlib.suppress(SightlineError):
        read(Source(path, path.name), ImportOptions())
    return time.process_time() - began, _read_status("VmHWM")


def _read_status(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(name))


@dataclass(frozen=True)
class Grown:
    """What twice the input takes, as factors; None where it is too little to be measured."""

    size: int = 0
    time: float | None = None
    memory: float | None = None
    wrong: str = ""


def judge_apart(importer: str, made: Made, folder: Path, enough_s: float, first: int) -> Grown:
    """The same in a fork of this process, whose memory is as it was before any reading."""
    told = folder / "told"
    told.unlink(missing_ok=True)
    run_apart(
        lambda: _write(told, json.dumps(asdict(judge(importer, made, folder, enough_s, first))))
    )
    return Grown(**json.loads(told.read_text())) if told.is_file() else Grown(wrong="it died")


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def judge(importer: str, made: Made, folder: Path, enough_s: float, first: int) -> Grown:
    """How an input's time and memory grow, and what is wrong with it."""
    number = first
    base = _read_status("VmRSS")
    while True:
        path, size = made.write(folder, number)
        one = measure(importer, path)
        if one[0] >= enough_s or 2 * size >= LARGEST:
            break
        number *= 2
    path, _ = made.write(folder, 2 * number)
    two = measure(importer, path)
    if two[0] > MOST * one[0] + FREE_S:  # once more, as other programs disturb it
        two = min(two, measure(importer, path))
    used = [peak - base for _, peak in (one, two)]
    wrong = ""
    if two[0] > MOST * one[0] + FREE_S:
        wrong = f"{size} bytes take {one[0]:.2f} s, twice as many {two[0]:.2f} s"
    elif used[1] > MOST * used[0] + FREE_BYTES:
        wrong = f"{size} bytes take {used[0] >> 20} MiB, twice as many {used[1] >> 20} MiB"
    return Grown(
        size,
        two[0] / one[0] if one[0] >= LEAST_S else None,
        used[1] / used[0] if used[0] >= FREE_BYTES else None,
        wrong,
    )


def vary(data: bytes) -> Iterator[tuple[str, Make]]:
    """A text in which one thing comes again and again, or is very long."""
    lines = data.splitlines(keepends=True)
    # One that is not blank, which is nothing however often its lines are joined.
    full = (n for n in range(len(lines) // 2, len(lines)) if lines[n].strip())
    middle = next(full, len(lines) // 2)
    before, line, after = b"".join(lines[:middle]), lines[middle], b"".join(lines[middle + 1 :])
    half = len(line) // 2
    yield "whole again", lambda n: data * n
    yield "line again", lambda n: before + line * n + after
    yield "last line again", lambda n: data + lines[-1] * n
    yield "half lines", lambda n: before + (line[:half] + b"\n") * n + after
    yield "joined lines", lambda n: before + line.rstrip() * n + b"\n" + after
    for mark in (b" ", b"7", b"x", b'"', b"\\", b"[", b"(", b"<", b",", b";", b":", b"-", b"\n"):
        yield (
            f"long {mark!r}",
            lambda n, m=mark: before + line[:half] + m * 20 * n + line[half:] + after,
        )


def vary_bytes(data: bytes) -> Iterator[tuple[str, Make]]:
    """Something that is no text: again and again, its end again, and with zeros or ones behind."""
    end = data[-max(len(data) // 8, 1) :]
    yield "whole again", lambda n: data * n
    yield "end again", lambda n: data + end * n
    yield "zeros behind", lambda n: data + bytes(200 * n)
    yield "ones behind", lambda n: data + b"\x7f" * (200 * n)


def vary_database(data: bytes) -> Iterator[tuple[str, Make]]:
    """A database with the rows of all tables again and again."""
    kept: dict[int, bytes] = {}

    def repeat(n: int) -> bytes:
        if n not in kept:
            kept.clear()
            kept[n] = _repeat_rows(data, n)
        return kept[n]

    yield "rows again", repeat


def _repeat_rows(data: bytes, times: int) -> bytes:
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        Path(file.name).write_bytes(data)
        db = sqlite3.connect(file.name)
        asked = "SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0"
        for (table,) in db.execute(asked).fetchall():
            columns = db.execute(f'PRAGMA table_info("{table}")').fetchall()
            plain = [f'"{c[1]}"' for c in columns if not c[5]]  # keys are given anew
            if plain and not table.startswith("sqlite_"):
                names = ", ".join(plain)
                rows = db.execute(f'SELECT {names} FROM "{table}" LIMIT 50').fetchall()
                marks = ", ".join("?" * len(plain))
                with contextlib.suppress(sqlite3.Error):
                    db.executemany(
                        f'INSERT INTO "{table}" ({names}) VALUES ({marks})', rows * times
                    )
        db.commit()
        db.close()
        return Path(file.name).read_bytes()


def list_cases(folder: Path, only: str | None) -> Iterator[tuple[str, str, Made]]:
    """Name, importer, and how each input is made of a size."""
    from attack.losses import list_all_seeds
    from sightline.opening.recognise import recognise

    for name, (importer, make) in CASES.items():
        if only is None or only in name:
            yield name, importer, Made(make)
    if only and "/" in only:  # of those made by hand: no format is called so
        return
    listed: list[tuple[str, str]] = []
    told = folder / "listed.json"
    folder.mkdir(parents=True, exist_ok=True)

    def write() -> None:  # by a child: Polars' threads do not survive a fork
        told.write_text(json.dumps([(kind, str(path)) for kind, path in list_all_seeds(folder)]))

    run_apart(write)
    listed = json.loads(told.read_text())
    for kind, text in listed:
        path = Path(text)
        if only and only != kind:
            continue
        importer = recognise(Source(path, path.name)).name
        files = sorted((p for p in path.rglob("*") if p.is_file()), key=_size_of)
        grows = files[-1] if path.is_dir() else path
        data = grows.read_bytes()
        kinds = vary_bytes
        if data.startswith(b"SQLite format 3\0"):
            kinds = vary_database
        elif is_text(data):
            kinds = vary
        for how, make in kinds(data):
            if path.is_dir():
                yield f"{kind}/{how}", importer, Made(make, path, grows.relative_to(path))
            else:
                yield f"{kind}/{how}", importer, Made(make)


def _size_of(path: Path) -> int:
    return path.stat().st_size


def format_line(reader: str, found: list[Grown]) -> str:
    """A reader's inputs: how many, the largest in MB, the worst factors, and how many are wrong."""
    times = [one.time for one in found if one.time is not None]
    memory = [one.memory for one in found if one.memory is not None]
    worst = [f"{max(values):.2f}" if values else "-" for values in (times, memory)]
    largest = max((one.size for one in found), default=0) / 1e6
    wrong = sum(bool(one.wrong) for one in found)
    return f"{reader:<24}{len(found):>8}{2 * largest:>8.1f}{worst[0]:>8}{worst[1]:>8}{wrong:>8}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--first", type=int, default=64)
    parser.add_argument("--only")
    parser.add_argument("--every", type=int, default=1, help="only each n-th input")
    args = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "1"
    found: dict[str, list[Grown]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="sightline-doubling-") as place:
        os.environ["SIGHTLINE_CACHE"] = f"{place}/cache"
        listed = list_cases(Path(place) / "seeds", args.only)
        for name, importer, made in islice(listed, 0, None, args.every):
            grown = judge_apart(importer, made, Path(place), args.seconds, args.first)
            found[importer].append(grown)
            if grown.wrong:
                print(f"{name}: {grown.wrong}", flush=True)
    print(f"{'reader':<24}{'inputs':>8}{'MB':>8}{'time x':>8}{'memory':>8}{'wrong':>8}")
    for reader in sorted(found):
        print(format_line(reader, found[reader]))
    every = [one for those in found.values() for one in those]
    bad = sum(bool(one.wrong) for one in every)
    print(f"{len(every)} inputs, {bad} of them not in proportion")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
