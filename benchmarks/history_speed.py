"""How long a history of many runs takes to answer, beside reading its files.

    python benchmarks/history_speed.py [--runs N]

N runs of a simulated program with 60 kernels are put into one history, written as `history add`
leaves it: large files and some small ones. Each figure is the smallest of three runs of a new
process; the floor reads the same columns with Polars and does nothing else.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

import polars as pl
from compare_speed import measure_command

from sightline.history.history import RUNS, VALUES

KERNELS, LARGE, SMALL = 60, 4096, 40
FLOOR = """
import polars as pl, sys
folder = sys.argv[1]
values = pl.scan_parquet(folder + "/values/*.parquet").filter(pl.col("metric") == "step_ns")
values.collect()
pl.scan_parquet(folder + "/runs/*.parquet").drop("fingerprint").collect()
"""


def write_history(folder: Path, count: int) -> None:
    """A history of so many commits of one run each; halfway the step becomes 3 % longer."""
    dice = random.Random(1)
    runs, values = [], []
    # As long as fingerprints are, and no easier to compress.
    texts = [json.dumps([dice.random() for _ in range(500)]) for _ in range(50)]
    for number in range(count):
        run_id = f"{number:016x}"
        labels = json.dumps({"commit": f"{number:040x}"})
        runs.append((run_id, number * 10**9, "run", labels, "A100", 1, 30, dice.choice(texts)))
        step = 1e6 * (1.03 if number >= count - 100 else 1) * dice.gauss(1, 0.01)
        values.append((run_id, "step_ns", step))
        values += [(run_id, f"kernel:kernel_{k}", step / KERNELS) for k in range(KERNELS)]
    per_run = KERNELS + 1
    edges = [*range(0, count - SMALL, LARGE), *range(max(count - SMALL, 0), count), count]
    for name, schema, rows, each in (
        ("runs", RUNS, runs, 1),
        ("values", VALUES, values, per_run),
    ):
        (folder / name).mkdir(parents=True)
        frame = pl.DataFrame(rows, schema=schema, orient="row")
        for first, last in pairwise(edges):
            part = frame[first * each : last * each]
            order = [c for c in ("metric", "run_id") if c in schema]
            part.sort(order).write_parquet(folder / name / f"{first}.parquet", compression="zstd")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10_000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "history"
        write_history(folder, args.runs)
        size = sum(f.stat().st_size for f in folder.rglob("*.parquet")) / 1e6
        print(f"{args.runs:,} runs, {args.runs * (KERNELS + 1):,} values, {size:.0f} MB")
        show = [sys.executable, "-m", "sightline", "history", "show"]
        where = ["--history", str(folder)]
        for label, words in (
            ("floor: reading the Parquet", [sys.executable, "-c", FLOOR, str(folder)]),
            ("history show step_ns", [*show, "step_ns", *where]),
            ("history show kernel:PATTERN", [*show, "kernel:kernel_1", *where]),
            ("history list", [*show[:-1], "list", *where]),
        ):
            wall, cpu = measure_command(words)
            print(f"{label:<30}{wall:6.2f} s wall {cpu:6.2f} s CPU")


if __name__ == "__main__":
    main()
