"""A cold report of a large serving trace, beside that of a training trace of the same size.

    python benchmarks/serving_report.py [--bytes 400e6] [--times 3]

Each is a real recording many times over (make_trace.py): training (HolisticTraceAnalysis), vLLM on
a CPU, and vLLM on a GPU that replays graphs in pieces. `sightline report` runs in a process of its
own with an empty cache; the processor time counts, as others may use the cores, too. Needs the
corpus beside the checkout.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import make_trace

CORPUS = make_trace.CORPUS.parent
BASES = {
    "training": make_trace.REAL,
    "serving, vLLM on a CPU": CORPUS / "serving/own_vllm_cpu/rank0.pt.trace.json.gz",
    "serving, vLLM on a GPU": CORPUS / "kineto/AMD-AGI__TraceLens/inference"
    "/vllm_prefilldecode_piecewise/graph_execution.json.gz",
}


class Cost(NamedTuple):
    """What one report took."""

    processor_s: float
    wall_s: float
    peak_mb: float


def report(trace: Path) -> Cost:
    """One cold report, as a person runs it."""
    with tempfile.TemporaryDirectory() as cache:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "sightline.doors.cli.main", "report", str(trace)],
            env={**os.environ, "XDG_CACHE_HOME": cache},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the report of {trace} failed")
    took = used.ru_utime + used.ru_stime
    return Cost(took, time.monotonic() - began, used.ru_maxrss / 1e3)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bytes", type=float, default=400e6)
    parser.add_argument("--times", type=int, default=3)
    args = parser.parse_args()
    costs: dict[str, list[Cost]] = {name: [] for name in BASES}
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for number, (name, base) in enumerate(BASES.items()):
            paths[name] = Path(folder) / f"trace{number}.json"
            make_trace.write(paths[name], int(args.bytes), base)
        for _ in range(args.times):  # in turns
            for name, path in paths.items():
                costs[name].append(report(path))
        sizes = {name: path.stat().st_size / 1e6 for name, path in paths.items()}
    print("| trace | MB | processor, s | a MB, of training's | wall, s | peak, MB |")
    print("|---|---|---|---|---|---|")
    each = {name: median(c.processor_s for c in of) / sizes[name] for name, of in costs.items()}
    for name, of in costs.items():
        took, wall, peak = (median(values) for values in zip(*of, strict=True))
        share = each[name] / each["training"]
        print(
            f"| {name} | {sizes[name]:.0f} | {took:.1f} | {share:.2f} | {wall:.1f} | {peak:.0f} |"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
