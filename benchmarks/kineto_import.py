"""How fast a trace becomes tables, against a floor and against Holistic Trace Analysis.

    python benchmarks/kineto_import.py [--sizes 0.5 2 8] [--runs 3] [--no-hta] [--keep]

For each size in GB: makes the input, then runs in turn, each in a process of its own: sightline's
import into an empty cache; sightline's report, cold and warm; the floor (the file read, and one
pass of simdjson over it into eight columns, one thread); and Holistic Trace Analysis' load, from
PyPI, in an environment of its own under benchmarks/data (up to --hta-limit GB, as it needs 5 to 7
times the file's size in memory; the floor needs more than twice the file's size: --floor-limit).
Prints medians, their ratios and peak memory as a Markdown table. The first round only warms the
file cache, and Python's of compiled modules, which an installed program has; it is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
DATA = HERE / "data"
HTA = DATA / "hta"

IMPORT = """
import sys, time
from pathlib import Path
from sightline.opening.imports import import_one
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.core.model.unwritten import finish_writing
begin = time.perf_counter()
import_one(Source(Path(sys.argv[1]), sys.argv[1]), ImportOptions())
finish_writing()
print(time.perf_counter() - begin)
"""
LOAD = """
import sys, time
from hta.trace_analysis import TraceAnalysis
begin = time.perf_counter()
TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=sys.argv[2])
print(time.perf_counter() - begin)
"""


NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"


@dataclass(frozen=True)
class Ran:
    """One run: the time that it is about, and the most memory that it held."""

    seconds: float
    peak_mb: float
    output: str


def run(*words: str | Path, env: dict[str, str] | None = None) -> Ran:
    """Run a command; its last word of output is the time, where it prints one."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        [str(w) for w in words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={k: v for k, v in os.environ.items() if k != NO_BYTECODE} | (env or {}),
        cwd=DATA,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    whole = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"{words[0]} {words[1]} failed with {process.returncode}")
    try:
        seconds = float(output.split()[-1])
    except (IndexError, ValueError):
        seconds = whole
    return Ran(seconds, usage.ru_maxrss / 1024, output)


def build_floor() -> Path:
    """The program that measures the floor, built from native/programs/floor.cpp."""
    folder = DATA / "build"
    for words in (
        ["cmake", "-S", HERE.parent, "-B", folder, "-DSIGHTLINE_PROGRAMS=ON"],
        ["cmake", "--build", folder, "--target", "sightline-floor"],
    ):
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return folder / "sightline-floor"


def hta_python() -> Path:
    """The Python of an environment with Holistic Trace Analysis."""
    python = HTA / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", HTA], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "HolisticTraceAnalysis"], check=True)
    return python


def measure(
    path: Path, runs: int, floor: Path | None, hta: Path | None, with_report: bool
) -> dict[str, list[Ran]]:
    """All candidates in turn, `runs` times and once before."""
    found: dict[str, list[Ran]] = defaultdict(list)
    cache = DATA / "cache"
    env = {"SIGHTLINE_CACHE": str(cache)}
    report = [Path(sys.executable).with_name("sightline"), "report", path, "-o", DATA / "r.txt"]
    for number in range(runs + 1):
        shutil.rmtree(cache, ignore_errors=True)
        one = {"import": run(sys.executable, "-c", IMPORT, path, env=env)}
        if with_report:
            shutil.rmtree(cache, ignore_errors=True)
            one["report, cold"] = run(*report, env=env)
            one["report, warm"] = run(*report, env=env)
        if floor is not None:
            measured = run(floor, path)
            parts = json.loads(measured.output)
            one["floor"] = Ran(parts["read_s"] + parts["parse_s"], measured.peak_mb, "")
        if hta is not None:
            one["HTA load"] = run(hta, "-c", LOAD, path, DATA)
        for name, ran in one.items():
            print(f"  {name}: {ran.seconds:.2f} s, {ran.peak_mb:.0f} MB", file=sys.stderr)
            if number or not runs:
                found[name].append(ran)
    shutil.rmtree(cache, ignore_errors=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.5, 2.0, 8.0], metavar="GB")
    parser.add_argument("--runs", type=int, default=3, help="counted runs of each")
    parser.add_argument("--hta-limit", type=float, default=1.0, metavar="GB")
    parser.add_argument("--floor-limit", type=float, default=4.0, metavar="GB")
    parser.add_argument("--no-hta", action="store_true")
    parser.add_argument("--no-report", action="store_true")
    parser.add_argument("--keep", action="store_true", help="keep the inputs")
    given = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    floor = build_floor()
    print("| input | step | median s | MB/s | times the floor | HTA is slower by | peak MB |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for size in given.sizes:
        path = DATA / f"trace-{size:g}GB.json"
        if not path.is_file():
            # In a process of its own: a child's peak memory is never less than its parent's was.
            maker = [sys.executable, HERE / "make_trace.py", path, str(size * 1e9)]
            subprocess.run(maker, check=True, stdout=subprocess.DEVNULL)
        stored = path.stat().st_size
        wanted = not given.no_hta and size <= given.hta_limit
        hta = hta_python() if wanted else None
        lowest = floor if size <= given.floor_limit else None
        found = measure(path, given.runs, lowest, hta, not given.no_report)
        medians = {n: statistics.median(r.seconds for r in ran) for n, ran in found.items()}
        for name, ran in found.items():
            median = medians[name]
            share = f"{median / medians['floor']:.2f}" if "floor" in medians else "-"
            slower = f"{medians['HTA load'] / median:.1f}" if "HTA load" in medians else "-"
            print(
                f"| {stored / 1e9:.2f} GB | {name} | {median:.2f} | {stored / 1e6 / median:,.0f} "
                f"| {share} | {slower} "
                f"| {max(r.peak_mb for r in ran):,.0f} |",
                flush=True,
            )
        if not given.keep:
            path.unlink()


if __name__ == "__main__":
    main()
