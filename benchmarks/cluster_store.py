"""The cluster's store under load: a million archived jobs, and 100,000 live series.

    python benchmarks/cluster_store.py jobs [--jobs 1000000] [--days 365] [--folder FOLDER]
    python benchmarks/cluster_store.py live [--rounds 66] [--after 60] [--period 10]

`jobs` writes jobs with four series each, and prints the medians of lists, filters, sorts, sums and
a job's page, beside what DuckDB takes for the bare query on the same files. `live` sends a sample
of each of 100,000 series in each round as line protocol, 500 a request, as fast as it is taken;
after 60 rounds a checkpoint begins, as the service does it, and a round each `--period` seconds.
It prints what a round takes of the clock and of the processor, and the largest memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from sightline.cluster import shelf
from sightline.cluster.courses import SCHEMA as COURSES
from sightline.cluster.points import PointReader
from sightline.cluster.search import Search, Wanted
from sightline.cluster.store import Store
from sightline.cluster.verdicts import JOB_SCHEMA, PROBLEM_SCHEMA

DAY_NS = 86_400 * 10**9
FIRST_NS = 20_000 * DAY_NS  # a day of 2024
RULES = ("job-idle-gpus", "job-low-cpu-load", "job-hang", None, None, None)
SAMPLES = 20
COURSE_METRICS = ("cpu_load", "mem_used", "mem_bw", "flops_any")
RUNS = 9


def write_jobs(root: Path, jobs: int, days: int) -> None:
    """Days of jobs, as checkpoints write them; numbers of one seed."""
    kept, rng = shelf.Folder(root), np.random.default_rng(62)
    each = -(-jobs // days)
    for day in range(days):
        n = min(each, jobs - day * each)
        if n <= 0:
            return
        start = FIRST_NS + day * DAY_NS + np.sort(rng.integers(0, 86_400, n)) * 10**9
        length = (rng.lognormal(8, 1.5, n)).astype(np.int64) * 10**9
        numbers = np.arange(day * each, day * each + n)
        rule = rng.integers(0, len(RULES), n)
        gpus = rng.choice([0, 1, 4, 8], n)
        wasted = np.where(rule < 3, rng.random(n), 0) * gpus * length / 3.6e12
        known = {
            "job_key": [f"c1/{k}/{s // 10**9}" for k, s in zip(numbers, start, strict=True)],
            "job_id": numbers.astype(str).tolist(),
            "raw_job_id": numbers,
            "user": [f"user{k}" for k in rng.zipf(1.3, n) % 2000],
            "project": [f"project{k}" for k in rng.integers(0, 300, n)],
            "name": [f"run-{k}" for k in rng.integers(0, 9999, n)],
            "partition": rng.choice(["gpu", "cpu", "long"], n).tolist(),
            "state": rng.choice(
                ["completed", "failed", "timeout"], n, p=[0.8, 0.15, 0.05]
            ).tolist(),
            "start_ns": start,
            "duration_ns": length,
            "end_ns": start + length,
            "nodes": rng.integers(1, 9, n),
            "cpus": rng.integers(8, 128, n),
            "gpus": gpus,
            "hosts": [[f"n{k}"] for k in rng.integers(0, 900, n)],
            "gpu_hours": gpus * length / 3.6e12,
            "core_hours": 32 * length / 3.6e12,
            "gpu_used_pct": rng.random(n) * 100,
            "cpu_used_pct": rng.random(n) * 100,
            "worst_rule": [RULES[k] for k in rule],
            "problems": (rule < 3).astype(int),
            "wasted_gpu_hours": wasted,
            "wasted_core_hours": np.zeros(n),
            "mean_cpu_load": rng.random(n) * 64,
            "mean_mem_bw": rng.random(n) * 1e11,
        }
        frame = pl.DataFrame(
            {
                name: pl.Series(name, known[name]).cast(kind)
                if name in known
                else pl.Series(name, [None] * n, dtype=kind)
                for name, kind in JOB_SCHEMA.items()
            }
        ).sort("job_key")
        name = shelf.find_day(FIRST_NS + day * DAY_NS)
        kept.write(shelf.name_part(shelf.JOBS, "c1", name, 0), frame)
        keys = frame.get_column("job_key").to_list()
        starts = dict(zip(known["job_key"], start.tolist(), strict=True))
        rows = {
            "job_key": [k for k in keys for _ in COURSE_METRICS],
            "metric": [m for _ in keys for m in COURSE_METRICS],
            "scope": ["node"] * (4 * n),
            "host": ["n1"] * (4 * n),
            "element": [None] * (4 * n),
            "start_ns": [starts[k] for k in keys for _ in COURSE_METRICS],
            "step_ns": [60 * 10**9] * (4 * n),
            "values": (rng.random((4 * n, SAMPLES)) * 50).tolist(),
        }
        courses = pl.DataFrame(rows, schema=COURSES)
        kept.write(shelf.name_part(shelf.COURSES, "c1", name, 0), courses)
        found = frame.filter(pl.col("worst_rule").is_not_null())
        problems = dict.fromkeys(PROBLEM_SCHEMA) | {
            "job_key": found.get_column("job_key"),
            "rule": found.get_column("worst_rule"),
        }
        rows = pl.DataFrame(problems).cast(PROBLEM_SCHEMA)
        kept.write(shelf.name_part(shelf.PROBLEMS, "c1", name, 0), rows)


def time_median(ask: Callable[[], object]) -> float:
    """Milliseconds, the median of some runs after one."""
    ask()
    taken = []
    for _ in range(RUNS):
        began = time.perf_counter()
        ask()
        taken.append(1e3 * (time.perf_counter() - began))
    return statistics.median(taken)


def measure_jobs(root: Path, jobs: int, days: int) -> None:
    """Medians of what a page asks, beside the bare queries."""
    began = time.perf_counter()
    if not (root / "jobs").is_dir():  # a folder that is given again is read as it is
        write_jobs(root, jobs, days)
    size = sum(p.stat().st_size for p in root.rglob("*.parquet"))
    print(f"{jobs:,} jobs written in {time.perf_counter() - began:.0f} s, {size / 1e6:,.0f} MB")
    store = Store(root)
    search = Search(store)
    bare = duckdb.connect(":memory:")
    bare.execute("SET parquet_metadata_cache=true")
    files = [store.archive.address(name) for name in store.list_parts(shelf.JOBS)]
    source = f"read_parquet({files!r}, hive_partitioning=true)"
    user = (("user", "user7"),)
    last_month = FIRST_NS + (days - 30) * DAY_NS
    middle = store.archive.address(store.list_parts(shelf.JOBS)[days // 2])
    key = pl.read_parquet(middle).item(50, "job_key")
    asked = {
        "the latest 50": (
            lambda: search.list_jobs(Wanted()),
            f"SELECT * FROM {source} ORDER BY start_ns DESC LIMIT 50",
        ),
        "a user's, by waste": (
            lambda: search.list_jobs(Wanted(exact=user), "wasted"),
            f"SELECT * FROM {source} WHERE \"user\" = 'user7' "
            "ORDER BY wasted_gpu_hours DESC LIMIT 50",
        ),
        "failed ones by length": (
            lambda: search.list_jobs(Wanted(exact=(("state", "failed"),)), "length"),
            f"SELECT * FROM {source} WHERE state = 'failed' ORDER BY duration_ns DESC LIMIT 50",
        ),
        "a month's by GPU use": (
            lambda: search.list_jobs(Wanted(since_ns=last_month), "gpu", ascending=True),
            f"SELECT * FROM {source} WHERE start_ns >= {last_month} ORDER BY gpu_used_pct LIMIT 50",
        ),
        "a node's, or of a name": (
            lambda: search.list_jobs(Wanted(text="n7")),
            f"SELECT * FROM {source} WHERE job_id = 'n7' OR contains(lower(name), 'n7') OR "
            "list_contains(hosts, 'n7') ORDER BY start_ns DESC LIMIT 50",
        ),
        "users by waste": (
            lambda: search.sum_by(Wanted(), "user"),
            f'SELECT "user", sum(wasted_gpu_hours) w FROM {source} GROUP BY 1 '
            "ORDER BY w DESC LIMIT 100",
        ),
    }
    print(f"{'asked':<24}{'here ms':>9}{'DuckDB ms':>11}")
    for name, (ask, query) in asked.items():
        ours = time_median(ask)
        theirs = time_median(lambda query=query: bare.execute(query).fetchall())
        print(f"{name:<24}{ours:>9.0f}{theirs:>11.0f}")
    page = time_median(lambda: draw_page(store, search, key))
    courses = [store.archive.address(name) for name in store.list_parts(shelf.COURSES)]
    theirs = time_median(
        lambda: bare.execute(
            f"SELECT * FROM read_parquet({courses!r}, hive_partitioning=true) WHERE job_key = ?",
            [key],
        ).fetchall()
    )
    print(f"{'a job page':<24}{page:>9.0f}{theirs:>11.0f}")
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"largest memory {usage:.2f} GB (with the writing)")


def draw_page(store: Store, search: Search, key: str) -> object:
    """What the page of a job asks and draws."""
    from sightline.cluster.access import Visitor
    from sightline.views.cluster.pages import Pages

    return Pages(store, search, None).show_job(Visitor("ada", "admin"), {"id": key})


def measure_live(root: Path, series: int, rounds: int, after: int, period_s: float) -> None:
    """What 100,000 series take: processor time a round, memory, the log's size."""
    store, reader = Store(root), PointReader()
    hosts, each = max(1, series // 500), 500
    heads = [
        [f"metric_{m},hostname=n{h},type=hwthread,type-id={m % 64} value=" for m in range(each)]
        for h in range(hosts)
    ]
    start = int(time.time()) - 10 * rounds
    rng = np.random.default_rng(1)
    taken, waits = [], []
    sealing = threading.Thread(target=lambda: store.checkpoint(gently=True))
    sealed_s = 0.0
    for number in range(rounds):
        values = rng.random((hosts, each)).round(4)
        moment = start + 10 * number
        bodies = [
            "\n".join(f"{h}{v} {moment}" for h, v in zip(heads[n], row, strict=True)).encode()
            for n, row in enumerate(values.tolist())
        ]
        if number == after:
            sealed_s = time.perf_counter()
            sealing.start()
        cpu, began = time.process_time(), time.perf_counter()
        for body in bodies:
            one = time.perf_counter()
            store.write_points(reader.read(body, cluster="c1"))
            waits.append(time.perf_counter() - one)
        taken.append((time.perf_counter() - began, time.process_time() - cpu))
        if number >= after:
            time.sleep(max(0.0, period_s - taken[-1][0]))
            if not sealing.is_alive() and sealed_s > 0:
                sealed_s -= time.perf_counter()  # now it is a length, and negative
    if sealing.ident is not None:
        sealing.join()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    wal = sum(p.stat().st_size for p in root.rglob("*.wal"))
    began = time.perf_counter()
    store.checkpoint()
    print(
        json.dumps(
            {
                "series": store.live_series,
                "rounds": rounds,
                "samples": rounds * hosts * each,
                "round_s_median": round(statistics.median(t for t, _ in taken), 3),
                "round_s_most": round(max(t for t, _ in taken), 3),
                "rounds_s_since_checkpoint": [round(t, 2) for t, _ in taken[after:]],
                "checkpoint_s_at_most": round(-sealed_s, 1) if sealed_s < 0 else None,
                "cpu_s_of_10_s": round(statistics.median(c for _, c in taken), 3),
                "request_ms_median": round(1e3 * statistics.median(waits), 2),
                "request_ms_most": round(1e3 * max(waits), 1),
                "largest_memory_gb": round(memory, 2),
                "log_mb": round(wal / 1e6),
                "last_checkpoint_s": round(time.perf_counter() - began, 2),
            },
            indent=1,
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("jobs", "live"))
    parser.add_argument("--jobs", type=int, default=1_000_000)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=66)
    parser.add_argument("--after", type=int, default=60)
    parser.add_argument("--period", type=float, default=10.0)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    folder = args.folder or Path(tempfile.mkdtemp(prefix="cluster-store-"))
    try:
        if args.what == "jobs":
            measure_jobs(folder, args.jobs, args.days)
        else:
            measure_live(folder, args.series, args.rounds, args.after, args.period)
    finally:
        if args.folder is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
