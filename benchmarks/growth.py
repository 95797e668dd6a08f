"""How time and memory grow with events and with recordings, and what more cores would give.

    python benchmarks/growth.py [--events N ...] [--recordings N ...] [--runs 3] [--write]

The traces are cut from, or are copies of, a real one (make_trace.py); each stage is the command of
a person, in a process of its own with a cache of its own, all stages of a size in turn:

import         the trace into the cache, all tables
report, cold   `sightline report TRACE -o r.txt` with nothing in the cache
page           `sightline report TRACE -o r.html` after that: rules are not asked again
report, warm   `sightline report TRACE -o r.txt` again

The exponent is the slope of a line through the logarithms of the sizes from --fit-from on (below,
the start of Python is most of it): 1 is linear. A size is left out, and said to be, where the
memory that it needs by the size before it is not free. Serial parts are sampled: how many of the
process' threads want to run, a hundred times a second, whether or not a core was free for them.
--write puts figures into README.md and the picture beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from growth_picture import Plot, draw_plots
from kineto_import import DATA, HERE, NO_BYTECODE
from make_trace import base_trace, copies
from readme_tables import describe_machine, replace_section

T = TypeVar("T")
CACHE = DATA / "growth-cache"
EVENTS = (10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000, 30_000_000)
RECORDINGS = (1, 2, 4, 8, 16)
STAGES = ("import", "report, cold", "page", "report, warm")
CORES = (2, 16, 64)
PICTURE = HERE / "growth.svg"
IMPORT = """
import sys
from pathlib import Path
from sightline.opening.imports import import_one
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
for path in sys.argv[1:]:
    import_one(Source(Path(path), path), ImportOptions())
"""


@dataclass(frozen=True)
class Cost:
    """Wall and processor seconds, and MB at the peak."""

    wall: float
    processor: float
    peak_mb: float


def write_trace(target: Path, events: int) -> int:
    """Write a trace of about so many events, the base's first ones or copies of it; how many."""
    base = base_trace(None)
    start = base.index(b"[", base.index(b'"traceEvents"')) + 1
    end = base.rindex(b"]")
    own = base.count(b'"ph"', start, end)
    with target.open("wb") as out:
        if events < own:
            kept = json.loads(base)
            kept["traceEvents"] = list(islice(_by_time(kept["traceEvents"]), events))
            out.write(json.dumps(kept).encode())
            return events
        times = round(events / own)
        out.write(base[:start])
        for number, copy in enumerate(islice(copies(base[start:end]), times)):
            out.write(copy if not number else b"," + copy)
        out.write(base[end:])
    return times * own


def _by_time(events: list[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Names of processes and threads first, then events in order of time."""
    yield from sorted(events, key=lambda e: (e.get("ph") != "M", float(str(e.get("ts", 0)))))


def write_ranks(folder: Path, ranks: int) -> list[Path]:
    """The base as the recordings of so many ranks."""
    found, base = [], base_trace(None)
    for rank in range(ranks):
        path = folder / f"rank{rank}.json"
        text = re.sub(rb'("rank"\s*:\s*)\d+', rb"\g<1>%d" % rank, base, count=1)
        path.write_bytes(re.sub(rb'("world_size"\s*:\s*)\d+', rb"\g<1>%d" % ranks, text, count=1))
        found.append(path)
    return found


def make_apart(make: Callable[..., T], *given: Any) -> T:
    """Call a function in a process of its own: a child's peak is never below its parent's."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(make, given)


def environment(**more: str) -> dict[str, str]:
    """This one's, with a cache of the benchmark's own."""
    kept = {k: v for k, v in os.environ.items() if k != NO_BYTECODE}
    return kept | {"SIGHTLINE_CACHE": str(CACHE)} | more


def run(words: Iterable[str | Path]) -> Cost:
    """Run a command to its end."""
    began = time.perf_counter()
    process = subprocess.Popen(
        list(map(str, words)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=DATA,
        env=environment(),
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{process.args} failed with {process.returncode}")
    wall = time.perf_counter() - began
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def commands(traces: list[Path]) -> dict[str, list[str | Path]]:
    """The command of each stage, in the order in which they are run."""
    report = [Path(sys.executable).with_name("sightline"), "report", *traces, "-o"]
    return {
        "import": [sys.executable, "-c", IMPORT, *traces],
        "report, cold": [*report, DATA / "r.txt"],
        "page": [*report, DATA / "r.html"],
        "report, warm": [*report, DATA / "r.txt"],
    }


def measure(traces: list[Path], runs: int, stages: Iterable[str] = STAGES) -> dict[str, Cost]:
    """Medians of each stage (the highest of the peaks), all stages in turn."""
    found: dict[str, list[Cost]] = {stage: [] for stage in stages}
    for _ in range(runs):
        for stage, words in commands(traces).items():
            if stage not in found:
                continue
            if stage in ("import", "report, cold"):
                shutil.rmtree(CACHE, ignore_errors=True)
            found[stage].append(run(words))
    shutil.rmtree(CACHE, ignore_errors=True)
    return {
        stage: Cost(
            statistics.median(c.wall for c in costs),
            statistics.median(c.processor for c in costs),
            max(c.peak_mb for c in costs),
        )
        for stage, costs in found.items()
    }


def exponent(points: list[tuple[float, float]]) -> float:
    """The slope of the line through the logarithms."""
    xs, ys = ([math.log(p[i]) for p in points] for i in (0, 1))
    return statistics.linear_regression(xs, ys).slope


def free_mb() -> float:
    """Memory that can be had without swapping."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(n.split()[1]) / 1e3 for n in lines if n.startswith("MemAvailable"))


def sample_threads(words: list[str | Path]) -> tuple[float, float, float]:
    """Seconds of a command in which none, one, and several of its threads wanted to run."""
    shutil.rmtree(CACHE, ignore_errors=True)
    # As on a machine of many cores: what Polars can share among threads is shared among many.
    process = subprocess.Popen(
        list(map(str, words)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=DATA,
        env=environment(POLARS_MAX_THREADS="16"),
    )
    folder, seconds, last = Path(f"/proc/{process.pid}/task"), [0.0, 0.0, 0.0], time.perf_counter()
    while process.poll() is None:
        time.sleep(0.01)
        wanting = 0
        for task in folder.glob("*/stat"):
            try:
                wanting += task.read_text().rpartition(")")[2].split()[0] == "R"
            except OSError:  # the thread has ended
                continue
        now = time.perf_counter()
        seconds[min(wanting, 2)] += now - last
        last = now
    if process.returncode:
        raise SystemExit(f"{words[0]} failed with {process.returncode}")
    return seconds[0], seconds[1], seconds[2]


def pinned(words: list[str | Path], threads: str) -> Cost:
    """A command on some hardware threads only."""
    shutil.rmtree(CACHE, ignore_errors=True)
    return run(["taskset", "-c", threads, *words])


def by_events(sizes: list[int], runs: int) -> tuple[dict[int, dict[str, Cost]], list[str]]:
    """Costs of each stage by events, and what was left out for want of memory."""
    found: dict[int, dict[str, Cost]] = {}
    left_out = []
    for size in sizes:
        stages = list(STAGES)
        if found:
            last = max(found)
            need = {s: 1.2 * size / last * c.peak_mb for s, c in found[last].items()}
            most = max((need[s] for s in STAGES[1:] if s in need), default=0.0)
            if most > free_mb() or len(need) < len(STAGES):
                stages = ["import"]
                left_out.append(
                    f"all but the import of {size:,} events: it would need {most / 1e3:.0f} GB of "
                    f"memory, and {free_mb() / 1e3:.0f} GB were free."
                )
        trace = DATA / "growth.json"
        events = make_apart(write_trace, trace, size)
        found[events] = measure([trace], runs if size <= 3_000_000 else 1, stages)
        trace.unlink()
        show(f"{events:,} events", found[events])
    return found, left_out


def by_recordings(counts: list[int], runs: int) -> dict[int, dict[str, Cost]]:
    """Costs of each stage by the number of recordings."""
    found, folder = {}, DATA / "growth-ranks"
    for count in counts:
        folder.mkdir()
        found[count] = measure(make_apart(write_ranks, folder, count), runs)
        shutil.rmtree(folder)
        show(f"{count} recordings", found[count])
    return found


def show(what: str, costs: dict[str, Cost]) -> None:
    """A line of progress."""
    parts = (f"{n} {c.wall:.2f} s {c.peak_mb:,.0f} MB" for n, c in costs.items())
    print(f"  {what}: {'; '.join(parts)}", file=sys.stderr)


def table(found: dict[int, dict[str, Cost]], what: str, fit_from: int) -> list[str]:
    """Wall seconds, processor seconds and MB by size, and the exponents below."""
    lines = [f"| {what} | " + " | ".join(STAGES) + " |", "|---:|" + "---:|" * len(STAGES)]
    for size, costs in found.items():
        cells = (
            f"{costs[s].wall:.2f} s, {costs[s].processor:.2f} s, {costs[s].peak_mb:,.0f} MB"
            if s in costs
            else "-"
            for s in STAGES
        )
        lines.append(f"| {size:,} | " + " | ".join(cells) + " |")
    large = {s: [n for n in found if n >= fit_from and s in found[n]] for s in STAGES}
    if all(len(sizes) > 1 for sizes in large.values()):
        cells = (
            ", ".join(
                f"{exponent([(n, getattr(found[n][s], field)) for n in sizes]):.2f}"
                for field in ("wall", "processor", "peak_mb")
            )
            for s, sizes in large.items()
        )
        lines.append(f"| exponents from {min(large['import']):,} on | " + " | ".join(cells) + " |")
    return lines


def amdahl(runs: int) -> list[str]:
    """What 16 and 64 cores would give by the measured serial part, as a table."""
    trace = DATA / "growth.json"
    make_apart(write_trace, trace, 2_160_000)
    both = ",".join(str(n) for n in sorted(os.sched_getaffinity(0)))
    lines = [
        "| stage, 2.16 M events | one hardware thread | both | nothing runs | one runs | several "
        "run | " + " | ".join(f"{n} cores" for n in CORES) + " |",
        "|---|---:|---:|---:|---:|---:|" + "---:|" * len(CORES),
    ]
    for stage in ("import", "report, cold"):
        words = commands([trace])[stage]
        times = {where: [] for where in (both.split(",")[0], both)}
        for _ in range(runs):
            for where, costs in times.items():
                costs.append(pinned(words, where).wall)
        one, two = (statistics.median(costs) for costs in times.values())
        none, serial, shared = (
            statistics.median(s)
            for s in zip(*(sample_threads(words) for _ in range(runs)), strict=True)
        )
        scale = two / (none + serial + shared)  # sampling, and 16 threads on two, take time, too
        on = [scale * (none + serial + 2 * shared / n) for n in CORES]
        cells = (one, two, scale * none, scale * serial, scale * shared, *on)
        lines.append(f"| {stage} | " + " | ".join(f"{c:.2f} s" for c in cells) + " |")
    trace.unlink()
    shutil.rmtree(CACHE, ignore_errors=True)
    return lines


def picture(events: dict[int, dict[str, Cost]], ranks: dict[int, dict[str, Cost]]) -> str:
    """Processor time, which other work moves least, and memory, by events and by recordings."""
    plots = [
        Plot(
            f"{label} by {what}",
            what,
            {s: [(n, getattr(c[s], field)) for n, c in found.items() if s in c] for s in STAGES},
        )
        for what, found in (("events", events), ("recordings of 216,000 events", ranks))
        for field, label in (("processor", "Processor seconds"), ("peak_mb", "MB at the peak"))
    ]
    return draw_plots(plots)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, nargs="+", default=list(EVENTS))
    parser.add_argument("--recordings", type=int, nargs="+", default=list(RECORDINGS))
    parser.add_argument("--runs", type=int, default=3, help="above 3 million events it is one")
    parser.add_argument("--fit-from", type=int, default=1_000_000, metavar="EVENTS")
    parser.add_argument("--write", action="store_true", help="write README.md and growth.svg")
    given = parser.parse_args()
    DATA.mkdir(exist_ok=True)
    loads = [os.getloadavg()[0]]
    events, left_out = by_events(given.events, given.runs)
    loads.append(os.getloadavg()[0])
    ranks = by_recordings(given.recordings, given.runs)
    serial = amdahl(given.runs)
    loads.append(os.getloadavg()[0])
    text = [
        f"{describe_machine()}, load average {min(loads):.1f} to {max(loads):.1f}; medians of "
        f"{given.runs}, one run above 3 million events. Each cell: wall seconds, processor "
        "seconds, memory at the peak.",
        "",
        *table(events, "events", given.fit_from),
        "",
        *(f"* Left out: {line}" for line in left_out),
        "",
        *table(ranks, "recordings", 2),
        "",
        *serial,
    ]
    print("\n".join(text))
    if given.write:
        PICTURE.write_text(picture(events, ranks), encoding="utf-8")
        replace_section(HERE / "README.md", "growth.py", text)


if __name__ == "__main__":
    main()
