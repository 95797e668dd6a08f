"""How long `sightline compare` takes on two large recordings that were read before.

    python benchmarks/compare_speed.py [--events N]

Two traces of N events (make_trace.py) are imported first, and compared once, so that the findings
are in the cache. Each figure is the smallest of three runs of a new process. CPU time counts all
threads.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import make_trace

RUNS = 3
# Of the base trace: 54 MB are 216,000 events.
BYTES_PER_EVENT = 250


def measure_command(words: list[str]) -> tuple[float, float]:
    """The shortest wall and CPU time of a command, s."""
    times = []
    for _ in range(RUNS):
        begin, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        times.append((time.perf_counter() - begin, cpu))
    return min(t[0] for t in times), min(t[1] for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        sides = [Path(folder) / f"{name}.json" for name in ("before", "after")]
        for side in sides:
            make_trace.write(side, args.events * BYTES_PER_EVENT)
        # Another byte, so that the second is not taken for the first.
        sides[1].write_bytes(sides[1].read_bytes() + b"\n")
        words = [sys.executable, "-m", "sightline", "compare", *map(str, sides)]
        begin = time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        print(f"2 x {args.events:,} events, import and all: {time.perf_counter() - begin:.1f} s")
        for label, more in (("warm", []), ("warm, without findings", ["--no-findings"])):
            wall, cpu = measure_command([*words, *more])
            print(f"{label:<24}{wall:6.2f} s wall {cpu:6.2f} s CPU")


if __name__ == "__main__":
    main()
