"""What causes from excerpts save of a long recording, beside asking all of it and beside a floor.

    python benchmarks/long_runs.py TRACE [--runs 5] [--no-page] [--no-floor]

Each step runs in a process of its own with an empty cache, all in turn; medians of processor and
wall time, and the most memory. `--all` is what every report was before there were excerpts. The
floor is one thread's pass of simdjson over the file (kineto_import.py).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from kineto_import import IMPORT, NO_BYTECODE, build_floor


class Ran(NamedTuple):
    """One process: its processor and wall time in seconds, and its peak of memory in MB."""

    cpu_s: float
    wall_s: float
    peak_mb: float


def run(words: list[str], cache: Path) -> Ran:
    """Run a command with an empty cache."""
    shutil.rmtree(cache, ignore_errors=True)
    env = {k: v for k, v in os.environ.items() if k != NO_BYTECODE}
    begin = time.perf_counter()
    process = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**env, "SIGHTLINE_CACHE": str(cache)},
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(words)} failed with {process.returncode}")
    wall = time.perf_counter() - begin
    return Ran(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--no-page", action="store_true")
    parser.add_argument("--no-floor", action="store_true", help="it holds the file twice in memory")
    given = parser.parse_args()
    trace = str(given.trace)
    with tempfile.TemporaryDirectory(dir=given.trace.parent) as folder:
        program = str(Path(sys.executable).with_name("sightline"))
        text, page = (str(Path(folder) / name) for name in ("report.json", "report.html"))
        steps = {
            "import": [sys.executable, "-c", IMPORT, trace],
            "report": [program, "report", trace, "-o", text],
            "report --all": [program, "report", trace, "--all", "-o", text],
        }
        if not given.no_page:
            steps["page"] = [program, "report", trace, "-o", page]
            steps["page --all"] = [program, "report", trace, "--all", "-o", page]
        if not given.no_floor:
            (Path(__file__).parent / "data").mkdir(exist_ok=True)
            steps = {"floor": [str(build_floor()), trace], **steps}
        found: dict[str, list[Ran]] = defaultdict(list)
        for _ in range(given.runs):
            for name, words in steps.items():
                found[name].append(run(words, Path(folder) / "cache"))
                print(name, json.dumps(found[name][-1]), file=sys.stderr, flush=True)
    print(f"load average {os.getloadavg()[0]:.1f}")
    print("| step | processor s | wall s | peak MB | processor time of the floor's |")
    print("|---|---:|---:|---:|---:|")
    cpu = {name: statistics.median(ran.cpu_s for ran in each) for name, each in found.items()}
    for name, each in found.items():
        wall = statistics.median(ran.wall_s for ran in each)
        peak = max(ran.peak_mb for ran in each)
        share = f"{cpu[name] / cpu['floor']:.2f}" if "floor" in cpu else "-"
        print(f"| {name} | {cpu[name]:.2f} | {wall:.2f} | {peak:,.0f} | {share} |")


if __name__ == "__main__":
    main()
