"""How fast the smaller formats of other vendors and tools are read, beside reading their bytes.

    python benchmarks/format_speed.py [--megabytes 20] [--runs 5]

Writes a recording of each format of about this size, and reads it RUNS times: into tables in
memory, in turn with the floor, which reads the same bytes and drops them. Prints MB/s of processor
time (medians) and the ratio of the two.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from sightline.model.declare import ImportOptions
from sightline.model.source import Source

MB = 1_000_000


def write_rocprof_compute(folder: Path, size: int) -> Path:
    counters = [f"SQ_COUNTER_{n}" for n in range(200)] + [f"TCC_HIT[{n}]" for n in range(128)]
    facts = "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,Kernel_Name,Start_Timestamp,End_Timestamp"
    row = ",".join(str(1_000_000 + n) for n in range(len(counters)))
    with (folder / "pmc_perf.csv").open("w") as stream:
        stream.write(f"{facts},{','.join(counters)}\n")
        for n in range(size // (len(row) + 60)):
            stream.write(f'{n},0,65536,256,"scale(float*)",{n * 1000},{n * 1000 + 900},{row}\n')
    return folder


def write_rocprof_legacy(folder: Path, size: int) -> Path:
    path = folder / "results.txt"
    with path.open("w") as stream:
        at = 10**12
        for n in range(size // 190):
            stream.write(
                f"{at}:{at + 900} 9:11 hipLaunchKernel(function=0x1, args=(int) {{1}}) :{n}\n"
            )
            stream.write(f"{at + 1000}:{at + 3000} 0:1 scale(float*, int):{n}:9\n")
            at += 4000
    return path


def write_rocprof_att(folder: Path, size: int) -> Path:
    path = folder / "code.json"
    row = ["v_add_u32_e32 v2, 16, v97", 0, 40, "/x/kernel.cpp:539", 2, 0, 30, 900, 700, 50, 3, 5]
    rows = [["; kernel", 0, 0, "scale(float*)", 2, 4096, *[0] * 6, [0] * 10]]
    reasons = [0, 0, 1, 4, 0, 0, 0, 0, 0, 0]
    rows += [[*row[:5], 4100 + 4 * n, *row[6:], reasons] for n in range(size // 130)]
    path.write_text(json.dumps({"code": rows, "header": ["ISA"], "version": "3.0.0"}))
    return path


def write_proton_trace(folder: Path, size: int) -> Path:
    path = folder / "proton.chrome_trace"
    args = {"call_stack": ["ROOT", "forward", "gemm"]}
    lines = []
    for stream in range(4):
        events = [
            {"args": args, "cat": "kernel", "dur": 5.501, "name": "gemm", "ph": "X", "tid": stream}
            | {"ts": n * 10.25}
            for n in range(size // 4 // 115)
        ]
        document = {"displayTimeUnit": "us", "traceEvents": events}
        lines.append(json.dumps(document, separators=(",", ":")))
    path.write_text("\n".join(lines))
    return path


FORMATS: dict[str, Callable[[Path, int], Path]] = {
    "rocprof_compute": write_rocprof_compute,
    "rocprof_legacy": write_rocprof_legacy,
    "rocprof_att": write_rocprof_att,
    "proton_trace": write_proton_trace,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5)
    chosen = parser.parse_args()
    print("| format | MB | MB/s | floor, MB/s | times the floor |")
    print("|---|---:|---:|---:|---:|")
    for name, write in FORMATS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = write(Path(folder), chosen.megabytes * MB)
            files = [path] if path.is_file() else sorted(path.iterdir())
            size = sum(f.stat().st_size for f in files)
            importer = importlib.import_module(f"sightline.importers.{name}")

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
