"""How long all findings of a large recording take, after its import.

    python benchmarks/findings_speed.py [--events N] [STORE]

Without a store, one of N events is written first (tests/web/million.py). Each figure is the
smallest of three runs of a new process, which pays for reading the tables and loading the rules,
too: what a person waits for after the import. CPU time counts all threads.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

RUNS = 3
# What one process measures: opening, all findings, and the report's data with them.
_ONE = """
import sys, time
import sightline
from sightline.report.summary import summarize_run
from sightline import findings
run = sightline.open(sys.argv[1])
wall, cpu = time.perf_counter(), time.process_time()
(findings if sys.argv[2] == "findings" else summarize_run)(run)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def measured(store: str, what: str) -> tuple[float, float]:
    """The shortest wall and CPU time in seconds."""
    times = []
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-c", _ONE, store, what], check=True, capture_output=True, text=True
        )
        wall, cpu = map(float, done.stdout.split())
        times.append((wall, cpu))
    return min(t[0] for t in times), min(t[1] for t in times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("store", nargs="?")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = args.store
        if store is None:
            from web.million import write

            store = str(Path(folder) / "many.sightline")
            write(Path(store), args.events)
            print(f"{args.events:,} events", end=", ")
        print(f"{os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
        for what in ("findings", "summary"):
            wall, cpu = measured(store, what)
            print(f"{what:<9} {wall:5.2f} s wall, {cpu:5.2f} s CPU")


if __name__ == "__main__":
    main()
