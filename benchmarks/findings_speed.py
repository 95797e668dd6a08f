"""How long all findings of a large recording take, after its import.

    python benchmarks/findings_speed.py [--events N] [STORE]

Without a store, one of N events is written first (tests/web/million.py). Each figure is the median
of five runs of a new process, all steps in turn; it pays for reading the tables and loading the
rules, too: what a person waits for after the import. CPU time counts all threads. The floor: Polars
reads all columns of the store's files, and asks nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

RUNS = 5
# What one process measures: opening, all findings, and the report's data with them.
_ONE = """
import sys, time
from pathlib import Path
import polars as pl
import sightline
from sightline.answer.summary import answer_run
from sightline import findings
run = sightline.open(sys.argv[1])
wall, cpu = time.perf_counter(), time.process_time()
def read_all(run):
    for file in Path(sys.argv[1]).rglob("*.parquet"):
        pl.read_parquet(file)
{"floor": read_all, "findings": findings, "summary": answer_run}[sys.argv[2]](run)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""


def measure_once(store: str, what: str) -> tuple[float, float]:
    """Wall and CPU time of one process in seconds."""
    # Where Python may not keep what it compiles, loading the rules is compiling them.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    words = [sys.executable, "-c", _ONE, store, what]
    done = subprocess.run(words, check=True, capture_output=True, text=True, env=env)
    wall, cpu = map(float, done.stdout.split())
    return wall, cpu


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
        steps = ("floor", "findings", "summary")
        rounds = [{what: measure_once(store, what) for what in steps} for _ in range(RUNS)]
        for what in steps:
            wall, cpu = (median(times) for times in zip(*(r[what] for r in rounds), strict=True))
            print(f"{what:<9} {wall:5.2f} s wall, {cpu:5.2f} s CPU")


if __name__ == "__main__":
    main()
