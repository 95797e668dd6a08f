"""How long the report's page takes from a store, and where the time goes.

    python benchmarks/report_page.py [EVENTS] [--times N]

Writes a simulated training loop of EVENTS events (default 1 million; tests/web/million.py) as a
store, then N times (default 3), each in a process of its own:

command   `sightline report STORE -o page.html`, as a person runs it: wall and processor time
stages    the same one after another on one thread: what each part costs

Prints medians and the load of the machine: other people's work shows in the wall times.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]


def stages(store: str) -> dict[str, tuple[float, float]]:
    """Wall and processor seconds of each stage."""
    taken: dict[str, tuple[float, float]] = {}

    def timed(name: str, act: object) -> object:
        wall, work = time.perf_counter(), time.process_time()
        assert callable(act)
        answer = act()
        was = taken.get(name, (0.0, 0.0))
        taken[name] = (was[0] + time.perf_counter() - wall, was[1] + time.process_time() - work)
        return answer

    def libraries() -> None:
        pass

    timed("start Python's modules", libraries)
    import sightline
    from sightline.answer.summary import answer_run
    from sightline.core.page.declare import View
    from sightline.diagnosis.diagnose import diagnose_run
    from sightline.errors import MissingDataError
    from sightline.views.html import page

    run = timed("open, read the tables", lambda: sightline.open(store))
    for table in ("device_ops", "host_ops"):
        timed("open, read the tables", lambda table=table: run.table(table))
    timed("rules and what they ask", lambda: diagnose_run(run))
    found = diagnose_run(run)  # all that it asks is known by now
    sys.modules["sightline.answer.summary"].diagnose_run = lambda run, own=(): found
    view = View(run)
    view.summary = timed("rest of the summary", lambda: answer_run(run))
    timed("timeline: rows and lanes", lambda: view.timeline)
    timed("timeline: pack", lambda: view.columns)
    made: dict[str, Future[object]] = {}
    for module in page.list_modules():
        name, future = module.PANEL.name, Future()
        try:
            future.set_result(timed(f"panel {name}", lambda module=module: module.data(view)))
        except MissingDataError as missing:
            future.set_exception(missing)
        made[name] = future
    timed("page from its panels", lambda: page._write_page(view, made, None))
    return taken


def command(store: str, target: Path) -> tuple[float, float, float]:
    """Wall and processor seconds and MB of memory at its peak of `sightline report`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "sightline.doors.cli.main", "report", store, "-o", str(target)],
        # A cache of its own: an answer that is kept from the time before would be taken.
        env={**os.environ, "SIGHTLINE_CACHE": tempfile.mkdtemp(dir=target.parent)},
        check=True,
        stderr=subprocess.DEVNULL,
    )
    wall = time.perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    work = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, work, after.ru_maxrss / 1e3


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--stages-of", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stages_of:
        print(json.dumps(stages(args.stages_of)))
        return 0
    sys.path.insert(0, str(ROOT / "tests"))
    from web.million import write

    with tempfile.TemporaryDirectory() as folder:
        store, target = Path(folder) / "million.sightline", Path(folder) / "page.html"
        write(store, args.events)
        whole = [command(str(store), target) for _ in range(args.times)]
        own = [sys.executable, str(Path(__file__)), "--stages-of", str(store)]
        parts = []
        for _ in range(args.times):
            # Parts of a page are kept, too.
            env = {**os.environ, "SIGHTLINE_CACHE": tempfile.mkdtemp(dir=folder)}
            told = subprocess.run(own, check=True, capture_output=True, text=True, env=env)
            parts.append(json.loads(told.stdout))
        size = target.stat().st_size
    load = os.getloadavg()[0]
    print(
        f"{args.events:,} events, {os.cpu_count()} cores, load {load:.1f}, medians of {args.times}"
    )
    print(f"{'':34}{'wall s':>8}{'cpu s':>8}")
    for name in parts[0]:
        wall, work = (median(p[name][i] for p in parts) for i in (0, 1))
        if wall >= 0.01:
            print(f"{name:34}{wall:8.2f}{work:8.2f}")
    sums = [sum(v[1] for v in p.values()) for p in parts]
    rules = [p["rules and what they ask"][1] for p in parts]
    share = 100 * median(r / s for r, s in zip(rules, sums, strict=True))
    walls = median(sum(v[0] for v in p.values()) for p in parts)
    print(
        f"{'all stages, one after another':34}{walls:8.2f}{median(sums):8.2f}   "
        f"rules {share:.0f} % of it"
    )
    wall, work, memory = (median(w[i] for w in whole) for i in range(3))
    print(
        f"{'sightline report -o page.html':34}{wall:8.2f}{work:8.2f}   {memory:,.0f} MB at most, "
        f"page {size / 1e6:.2f} MB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
