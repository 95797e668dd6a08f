"""How long the report of a ROCm database with many kernels takes, from the file to the answer.

    python benchmarks/rocpd_report.py [--dispatches N] [--runs RUNS]

Writes a rocpd database of N dispatches (default a million), each with the call that launched it,
and asks for its report in processes of their own: cold, with nothing kept; then with the import
kept, then with its answer. The floor is SQLite alone, which reads the same rows and drops them.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from synth_rocm import GPUS, GUID, KERNELS, write_rocpd  # noqa: E402

FLOOR = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for table in ("kernel_dispatch", "region", "event"):
    for row in db.execute(f'SELECT * FROM "rocpd_{table}{sys.argv[2]}"'):
        pass
"""


def write_input(path: Path, dispatches: int) -> None:
    """Behind a small program, kernels of 5 to 40 us that are launched every 10 us."""
    write_rocpd(path)
    db = sqlite3.connect(path)

    def insert(table: str, rows: list[dict[str, int | str]]) -> None:
        names = list(rows[0])
        marks = ", ".join(f":{name}" for name in names)
        db.executemany(
            f'INSERT INTO "rocpd_{table}{GUID}" ({", ".join(names)}) VALUES ({marks})', rows
        )

    texts = dict(db.execute(f'SELECT string, id FROM "rocpd_string{GUID}"'))
    (first,) = db.execute(f'SELECT max(id) + 1 FROM "rocpd_event{GUID}"').fetchone()
    (begin,) = db.execute(f'SELECT max(end) FROM "rocpd_kernel_dispatch{GUID}"').fetchone()
    names = list(KERNELS)
    events, calls, kernels = [], [], []
    free = begin + 1_000_000
    for number in range(dispatches):
        called = begin + 1_000_000 + 10_000 * number
        start = max(called + 6_000, free)
        free = start + 5_000 + 700 * (number % 50)
        own = {"id": first + 2 * number, "stack_id": 10**6 + number, "extdata": "{}"}
        events += [
            own | {"category_id": texts["HIP_RUNTIME_API"]},
            own | {"id": own["id"] + 1, "category_id": texts["KERNEL_DISPATCH"]},
        ]
        where = {"pid": 1, "tid": 1}
        calls.append(
            where
            | {"start": called, "end": called + 4_000}
            | {"event_id": own["id"], "name_id": texts["hipLaunchKernel"]}
        )
        kernels.append(
            where
            | {"agent_id": GPUS[0], "queue_id": 16, "stream_id": 5, "start": start, "end": free}
            | {"event_id": own["id"] + 1, "kernel_id": names[number % len(names)]}
            | {"workgroup_size_x": 64, "grid_size_x": 6400}
        )
    insert("event", events)
    insert("region", calls)
    insert("kernel_dispatch", kernels)
    db.commit()
    db.close()


def measure(words: list[str], cache: Path) -> tuple[float, float]:
    """Seconds, and the most memory in MB, of a command."""
    began = time.perf_counter()
    env = {**os.environ, "SIGHTLINE_CACHE": str(cache)}
    process = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"failed: {words}")
    return time.perf_counter() - began, usage.ru_maxrss * resource.getpagesize() / 4096 / 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dispatches", type=int, default=10**6)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "results.db")
        # In a process of its own: a child is said to have taken what its parent had.
        code = f"import rocpd_report as r; r.write_input(r.Path({str(path)!r}), {args.dispatches})"
        subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent)
        size = path.stat().st_size
        print(f"{size / 1e6:.0f} MB, {args.dispatches:,} dispatches, {os.cpu_count()} cores")
        report = [sys.executable, "-m", "sightline", str(path)]
        steps = {
            "SQLite reads the rows": [sys.executable, "-c", FLOOR, str(path), GUID],
            "import, file to store": [*report[:3], "sql", str(path), "SELECT 1"],
            "report, from the store": report,
            "report, once more": report,
        }
        seconds: dict[str, list[float]] = {step: [] for step in steps}
        most: dict[str, float] = dict.fromkeys(steps, 0.0)
        for number in range(args.runs):
            for step, words in steps.items():
                took, memory = measure(words, Path(folder, f"cache-{number}"))
                seconds[step].append(took)
                most[step] = max(most[step], memory)
        floor = statistics.median(seconds["SQLite reads the rows"])
        for step, took in seconds.items():
            middle = statistics.median(took)
            print(f"{step:<24}{middle:8.2f} s  {middle / floor:6.2f} × SQLite{most[step]:8.0f} MB")


if __name__ == "__main__":
    main()
