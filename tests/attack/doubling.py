"""Reads hostile inputs of one size and of twice that size: time and memory at most double.

    python tests/attack/doubling.py [--seconds 0.3] [--only kineto]

Inputs are made of the seeds (a line, a cell, a bracket again and again, one of them very long) and
by hand (hostile.py). Each is enlarged until reading it takes the given processor time, then
doubled. Measured are processor time and the peak of the memory in use, of the reader alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
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
Make = Callable[[int], bytes]


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


def judge_apart(importer: str, make: Make, folder: Path, enough_s: float, first: int) -> str | None:
    """The same in a fork of this process, whose memory is as it was before any reading."""
    told = folder / "told"
    told.unlink(missing_ok=True)
    run_apart(lambda: _write(told, judge(importer, make, folder, enough_s, first)))
    return told.read_text() or None if told.is_file() else "the reader died"


def _write(path: Path, text: str | None) -> None:
    path.write_text(text or "")


def judge(importer: str, make: Make, folder: Path, enough_s: float, first: int) -> str | None:
    """What is wrong with how an input's time or memory grows; None where nothing is."""
    path, number = folder / "hostile", first
    base = _read_status("VmRSS")
    while True:
        path.write_bytes(make(number))
        one = measure(importer, path)
        size = path.stat().st_size
        if one[0] >= enough_s or 2 * size >= LARGEST:
            break
        number *= 2
    path.write_bytes(make(2 * number))
    two = measure(importer, path)
    if two[0] > MOST * one[0] + FREE_S:  # once more, as other programs disturb it
        two = min(two, measure(importer, path))
    if two[0] > MOST * one[0] + FREE_S:
        return f"{size} bytes take {one[0]:.2f} s, twice as many {two[0]:.2f} s"
    used = [peak - base for _, peak in (one, two)]
    if used[1] > MOST * used[0] + FREE_BYTES:
        return f"{size} bytes take {used[0] >> 20} MiB, twice as many {used[1] >> 20} MiB"
    return None


def vary(data: bytes) -> Iterator[tuple[str, Make]]:
    """A text in which one thing comes again and again, or is very long."""
    lines = data.splitlines(keepends=True)
    middle = len(lines) // 2
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


def list_cases(folder: Path, only: str | None) -> Iterator[tuple[str, str, Make]]:
    """Name, importer, and how each input is made of a size."""
    from attack.campaign import write_seeds_apart
    from sightline.opening.recognise import recognise

    for name, (importer, make) in CASES.items():
        if only is None or only in name:
            yield name, importer, make
    for one in write_seeds_apart(folder):
        if not one.path.is_file() or one.recording is not None or (only and only != one.kind):
            continue
        data = one.path.read_bytes()
        if is_text(data):
            importer = recognise(Source(one.path, one.path.name)).name
            for how, make in vary(data):
                yield f"{one.kind}/{how}", importer, make


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--first", type=int, default=64)
    parser.add_argument("--only")
    args = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "1"
    bad = number = 0
    with tempfile.TemporaryDirectory(prefix="sightline-doubling-") as place:
        os.environ["SIGHTLINE_CACHE"] = f"{place}/cache"
        for name, importer, make in list_cases(Path(place) / "seeds", args.only):
            number += 1
            wrong = judge_apart(importer, make, Path(place), args.seconds, args.first)
            if wrong is not None:
                bad += 1
                print(f"{name}: {wrong}", flush=True)
    print(f"{number} inputs, {bad} of them not in proportion")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
