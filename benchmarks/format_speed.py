"""How fast the smaller formats of other vendors and tools are read, beside reading their bytes.

    python benchmarks/format_speed.py [--megabytes 20] [--runs 5] [FORMAT...]

Writes a recording of each format of about this size, and reads it RUNS times: into tables in
memory, in turn with the floor, which reads the same bytes and drops them. Prints MB/s of processor
time (medians) and the ratio of the two.
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

from format_recordings import FORMATS

from sightline.model.declare import ImportOptions
from sightline.model.source import Source

MB = 1_000_000


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("formats", nargs="*", help="only these")
    chosen = parser.parse_args()
    print("| format | MB | MB/s | floor, MB/s | times the floor |")
    print("|---|---:|---:|---:|---:|")
    for name, (module, write) in FORMATS.items():
        if chosen.formats and name not in chosen.formats:
            continue
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), chosen.megabytes * MB)
            files = [path] if path.is_file() else sorted(path.iterdir())
            size = sum(f.stat().st_size for f in files)
            importer = importlib.import_module(f"sightline.importers.{module}")

            def read(path: Path = path, importer: object = importer) -> None:
                importer.read(Source(path, path.name), ImportOptions())  # type: ignore[attr-defined]

            def touch(files: list[Path] = files) -> None:
                for file in files:
                    file.read_bytes()

            times: tuple[list[float], list[float]] = ([], [])
            for _ in range(chosen.runs + 1):
                for step, taken in zip((read, touch), times, strict=True):
                    taken.append(measure(step))
            ours, floor = (statistics.median(taken[1:]) for taken in times)
            rates = f"{size / MB / ours:,.0f} | {size / MB / max(floor, 1e-4):,.0f}"
            print(f"| {name} | {size / MB:.0f} | {rates} | {ours / max(floor, 1e-4):,.0f} |")
    return 0


def measure(step: Callable[[], None]) -> float:
    """Processor time of one call, in s: the machine may be busy with other things."""
    start = time.process_time()
    step()
    return time.process_time() - start


if __name__ == "__main__":
    sys.exit(main())
