"""Lets `watch` and `serve` run for long, and looks whether they grow.

    make soak                          ten minutes
    SOAK_SECONDS=3600 make soak        an hour, as before a release

`watch` reads eight fake GPUs ten times a second into a history, judges the policies that ship, and
serves /metrics, which one client asks. `serve` shows a recording to four clients that ask without a
pause. Of both the resident memory, open descriptors and threads are read once a second. After a
tenth of the time has passed, memory may grow by no more than its own noise, and files not at all.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent.parent)]

from support import fake_nvml as fake  # noqa: E402
from support import traces as t  # noqa: E402

# What memory may grow by after the first tenth: an allocator's own movement, measured over hours.
FREE_BYTES = 8 << 20
WARM_UP = 0.1  # of the time
PARTS = 20
KIB, MIB = 1 << 10, 1 << 20


@dataclass
class Grown:
    """What was read of a process, a value a second."""

    name: str
    memory: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    threads: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def write(self, folder: Path) -> None:
        """A table of all readings, for who wants to draw them."""
        lines = [
            "\t".join(map(str, row))
            for row in zip(self.seconds, self.memory, self.files, self.threads, strict=True)
        ]
        text = "\n".join(["second\tmemory_bytes\tfiles\tthreads", *lines, ""])
        (folder / f"{self.name}.tsv").write_text(text)

    def read(self, pid: int, second: float) -> None:
        """Append what /proc says now."""
        with contextlib.suppress(OSError, StopIteration, ValueError):
            status = Path(f"/proc/{pid}/status").read_text()
            files = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208  # a descriptor each
            self.memory.append(int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) << 10)
            self.threads.append(int(re.findall(r"Threads:\s+(\d+)", status)[0]))
            self.files.append(files)
            self.seconds.append(round(second, 1))

    def judge(self) -> list[str]:
        """What is wrong, as sentences."""
        begin = max(int(len(self.memory) * WARM_UP), 1)
        memory, files = self.memory[begin:], self.files[begin:]
        if len(memory) < 4:
            return [f"{self.name}: it was read {len(memory)} times only"]
        # Means of the first and the last quarter: a single reading says little.
        quarter = len(memory) // 4
        grown = statistics.fmean(memory[-quarter:]) - statistics.fmean(memory[:quarter])
        wrong = []
        if grown > FREE_BYTES:
            wrong.append(f"{self.name}: memory grew by {grown / MIB:.1f} MiB")
        if statistics.median(files[-quarter:]) > statistics.median(files[:quarter]) + 2:
            wrong.append(f"{self.name}: files grew from {min(files)} to {max(files)}")
        return wrong

    def find_slope(self) -> tuple[float, float]:
        """How memory grows after the beginning, in bytes an hour, and the error of that.

        Of a line through means of 20 parts of the second half: single readings depend on each
        other, and windows of half an hour are full then. The error is twice the standard error.
        """
        begin = len(self.memory) // 2
        size = (len(self.memory) - begin) // PARTS
        if not size or len(self.seconds) != len(self.memory):
            return math.nan, math.nan
        starts = range(begin, begin + PARTS * size, size)
        at = [statistics.fmean(self.seconds[s : s + size]) / 3600 for s in starts]
        held = [statistics.fmean(self.memory[s : s + size]) for s in starts]
        slope, level = statistics.linear_regression(at, held)
        left = sum((y - slope * x - level) ** 2 for x, y in zip(at, held, strict=True))
        spread = sum((x - statistics.fmean(at)) ** 2 for x in at)
        return slope, 2 * math.sqrt(left / (PARTS - 2) / spread)

    def format_line(self) -> str:
        """Memory, files and threads: least and greatest after the beginning."""
        begin = max(int(len(self.memory) * WARM_UP), 1)
        parts = [
            f"{least / scale:.1f} to {greatest / scale:.1f} {unit}"
            for values, scale, unit in (
                (self.memory, MIB, "MiB"), (self.files, 1, "files"), (self.threads, 1, "threads"),
            )
            for least, greatest in [(min(values[begin:]), max(values[begin:]))]
        ]  # fmt: skip
        slope, error = self.find_slope()
        told = f"{slope / KIB:+.0f} ± {error / KIB:.0f} KiB/h"
        return f"{self.name:<8}{', '.join(parts)}, {told}, {len(self.memory)} readings"


def ask(url: str, until: float, counts: list[int], answers: list[int]) -> None:
    """Ask for an address again and again; a count for each answer."""
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:  # this machine
                answer.read()
                answers.append(answer.status) if answer.status not in answers else None
        except urllib.error.HTTPError as error:
            answers.append(error.code) if error.code not in answers else None
        except OSError:
            if time.monotonic() < until:
                counts[1] += 1
        counts[0] += 1


@contextlib.contextmanager
def start(
    words: list[str], folder: Path, wanted: str, **variables: str
) -> Iterator[tuple[int, str]]:
    """A command of sightline, and the address that it prints; ended with SIGTERM."""
    said = folder / f"{words[0]}.said"
    with said.open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-m", "sightline", *words],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**os.environ, "SIGHTLINE_CACHE": str(folder / "cache"), **variables},
        )
    try:
        limit = time.monotonic() + 60
        while not (found := re.search(wanted, said.read_text(errors="replace"))):
            if child.poll() is not None or time.monotonic() > limit:
                raise SystemExit(f"{words[0]} did not start: {said.read_text(errors='replace')}")
            time.sleep(0.1)
        yield child.pid, found[0]
    finally:
        child.send_signal(signal.SIGTERM)
        child.wait(60)


def soak(seconds: float, folder: Path) -> tuple[list[Grown], list[str]]:
    """Let both run, and what is wrong with them."""
    library = fake.build_library(folder)
    nvml = fake.list_variables(fake.make_eight(), library, folder)
    trace = t.write(folder, [t.kernel(f"k{n % 5}", 100 * n, 70, n) for n in range(2_000)])
    watch = ["watch", "--period", "0.1s", "-o", str(folder / "history"), "--policy", "default",
             "--metrics", "127.0.0.1:0"]  # fmt: skip
    address = r"http://127\.0\.0\.1:\d+/\S*"
    with (
        start(watch, folder, address, **nvml) as (watcher, metrics),
        start(["serve", str(trace)], folder, address) as (server, page),
    ):
        until = time.monotonic() + seconds
        grown = [Grown("watch"), Grown("serve")]
        counts, answers = [0, 0], list[int]()
        threads = [
            threading.Thread(target=ask, args=(url, until, counts, answers), daemon=True)
            for url in (metrics, page, page, page, page)
        ]
        for thread in threads:
            thread.start()
        while time.monotonic() < until:
            for one, pid in zip(grown, (watcher, server), strict=True):
                one.read(pid, seconds - (until - time.monotonic()))
            time.sleep(max(min(1.0, seconds / 60), 0.05))
        for thread in threads:
            thread.join(60)
    wrong = [line for one in grown for line in one.judge()]
    print(f"{counts[0]:,} requests, answered {sorted(answers)}, {counts[1]} not answered")
    if counts[1] or set(answers) != {200}:
        wrong.append(f"requests: {counts[1]} were not answered, others with {sorted(answers)}")
    return grown, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--readings", type=Path, help="a folder for tables of all readings")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sightline-soak-") as place:
        grown, wrong = soak(args.seconds, Path(place))
    for one in grown:
        print(one.format_line())
        if args.readings:
            one.write(args.readings)
    print("\n".join(wrong) or "nothing grew")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
