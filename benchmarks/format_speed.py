"""How fast the smaller formats of other vendors and tools are read, beside reading their bytes.

    python benchmarks/format_speed.py [--megabytes 20] [--runs 5] [FORMAT...]

Writes a recording of each format of about this size, and reads it RUNS times: into tables in
memory, in turn with reading the same bytes and dropping them, and, where format_floors.py has one,
with what splits or parses the text alone. Prints MB/s of processor time (medians).
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from format_floors import FLOORS
from format_recordings import FORMATS

from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source

MB = 1_000_000
STEPS = ("read", "parse", "touch")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("formats", nargs="*", help="only these")
    chosen = parser.parse_args()
    print("| format | MB | MB/s | parsing alone, MB/s | reading bytes, MB/s |")
    print("|---|---:|---:|---:|---:|")
    for name, (module, write) in FORMATS.items():
        if chosen.formats and name not in chosen.formats:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), chosen.megabytes * MB)
            size, rates = measure_rates(name, module, path, chosen.runs)
        cells = (f"{rates[step]:,.0f}" if step in rates else "" for step in STEPS)
        print(f"| {name} | {size:.0f} | {' | '.join(cells)} |")
    return 0


def measure_rates(name: str, module: str, path: Path, runs: int) -> tuple[float, dict[str, float]]:
    """MB, and MB/s of each step, all steps in turn."""
    files = [path] if path.is_file() else sorted(path.iterdir())
    data = files[0].read_bytes()
    size = sum(f.stat().st_size for f in files) / MB
    importer = importlib.import_module(f"sightline.formats.{module}")
    steps: dict[str, Callable[[], object]] = {
        "read": lambda: importer.read(Source(path, path.name), ImportOptions()),
        "touch": lambda: [file.read_bytes() for file in files],
    }
    if name in FLOORS:
        steps["parse"] = lambda: FLOORS[name](data)
    taken: dict[str, list[float]] = {step: [] for step in steps}
    for _ in range(runs + 1):
        for step, call in steps.items():
            taken[step].append(measure(call))
    return size, {
        step: size / max(statistics.median(times[1:]), 1e-4) for step, times in taken.items()
    }


def measure(step: Callable[[], object]) -> float:
    """Processor time of one call, in s: the machine may be busy with other things."""
    start = time.process_time()
    step()
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
