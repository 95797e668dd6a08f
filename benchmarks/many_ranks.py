"""Many ranks: are the planted causes found, at what cost, and what does it take?

python benchmarks/many_ranks.py truth --jobs 40      causes, costs and clocks against the truth
python benchmarks/many_ranks.py pipelines --jobs 20  schedules, bubbles, slow stages, late hosts
python benchmarks/many_ranks.py hangs --jobs 20      one rank stops: is it blamed, with the line?
python benchmarks/many_ranks.py pairing --jobs 20    a rank lacks one collective: are others taken?
python benchmarks/many_ranks.py speed 64 256 1024    wall time and memory, 50,000 events a rank
python benchmarks/many_ranks.py cluster 64           the same by one and two workers of Dask

Jobs are played by tests/support/many_ranks.py and pipelines.py, which share nothing with sightline:
what a cause costs is the length of the job with it less that of the same job without.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import sightline  # noqa: E402
from sightline.fleet.job import Job, compose_job  # noqa: E402
from sightline.fleet.read import reduce_recordings  # noqa: E402
from sightline.fleet.stragglers import BUBBLE, SLOW_STAGE, Verdict, find_stragglers  # noqa: E402
from support.hanging import find_line, write_hang  # noqa: E402
from support.many_ranks import (  # noqa: E402
    CLOCK,
    EPOCH_NS,
    EXPERTS,
    GROUP,
    HOST,
    LINK,
    Cause,
    Program,
    write_ranks,
)
from support.pipelines import (  # noqa: E402
    GPIPE,
    INTERLEAVED,
    ONE_F_ONE_B,
    ZERO_BUBBLE,
    Pipeline,
    write_pipeline,
)

KINDS = (HOST, CLOCK, EXPERTS, LINK)
EVENTS = 50_000
FLAGS = ("is_first", "are_all")
FILLER = 1  # operators beside each kernel and its launch: three events


@dataclass(frozen=True)
class Judged:
    """One job: whether the worst cause came first, its cost's error, and clocks in their bounds."""

    is_first: bool
    are_all: bool
    error_pct: float
    clocks: int
    clocks_inside: int


def draw_program(seed: int, ranks: int, causes: int) -> Program:
    """A job with so many causes, of different kinds and ranks of different groups."""
    dice = np.random.default_rng([seed, ranks, causes])
    # Where all are one group, its links are slow throughout: only their own peak tells.
    possible = len(KINDS) - (ranks <= GROUP)
    kinds = dice.permutation(possible)[:causes]
    # Far enough from each other that no group has two.
    first = int(dice.integers(ranks))
    whose = [(first + n * (ranks // 2 + 1)) % ranks for n in range(causes)]
    size = {
        HOST: lambda: dice.uniform(2e5, 8e5),
        CLOCK: lambda: dice.uniform(0.15, 0.5),
        EXPERTS: lambda: dice.uniform(0.4, 1.2),
        LINK: lambda: dice.uniform(0.8, 3.0),
    }
    planted = tuple(
        Cause(KINDS[k], rank, float(size[KINDS[k]]())) for k, rank in zip(kinds, whose, strict=True)
    )
    return Program(
        ranks, steps=15, seed=seed, causes=planted, offset_ns=50e6, drift_ppm=20.0, kernels=3
    )


def judge(program: Program, job: Job, verdict: Verdict) -> Judged:
    """What was found, against what was planted."""
    cost = {cause: program.measure_cost(cause) for cause in program.causes}
    order = sorted(cost, key=lambda c: -cost[c])
    found = list(verdict.stragglers.select("cause", "ranks", "gain_ns").iter_rows())

    def is_it(cause: Cause, row: tuple[str, list[int], int]) -> bool:
        group = program.group_of("tp")
        mine = np.flatnonzero(group == group[cause.rank]).tolist()
        return row[0] == cause.kind and row[1] == (mine if cause.kind == LINK else [cause.rank])

    worst = order[0]
    # What hides behind another cause costs nothing: below 1 % of the job nothing is said.
    seen = [c for c in order if cost[c] >= 0.01 * program.play().length_ns]
    gain = next((row[2] for row in found if is_it(worst, row)), 0)
    inside, clocks = judge_clocks(program, job)
    return Judged(
        bool(found) and is_it(worst, found[0]),
        all(any(is_it(c, row) for row in found[: len(order)]) for c in seen),
        100 * abs(gain - cost[worst]) / cost[worst],
        clocks,
        inside,
    )


def judge_clocks(program: Program, job: Job) -> tuple[int, int]:
    """How many ranks' times, at begin, middle and end, are as near to rank 0's as stated."""
    if job.fit is None:
        return 0, 3 * program.ranks
    offset, rate = program.clocks()
    shift, drift, at, sure = (
        job.fit.clocks[c].to_numpy() for c in ("shift_ns", "drift", "at_ns", "uncertainty_ns")
    )
    length = program.play().length_ns
    inside = 0
    for true in (0, length / 2, length):
        away = offset + rate * true
        moved = shift + drift * (true + away - (at - EPOCH_NS))
        inside += int((np.abs(moved + away - away[0]) <= sure).sum())
    return inside, 3 * program.ranks


def run_truth(jobs: int, sizes: list[int]) -> None:
    print("| ranks | causes | jobs | first | all | error, median | error, worst | clocks inside |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for ranks in sizes:
        for causes in (1, 2):
            judged = []
            for seed in range(jobs):
                program = draw_program(seed, ranks, causes)
                with tempfile.TemporaryDirectory() as folder:
                    os.environ["SIGHTLINE_CACHE"] = folder
                    paths = [str(p) for p in write_ranks(program, Path(folder) / "ranks")]
                    job = compose_job(reduce_recordings(paths).ranks)
                judged.append(judge(program, job, find_stragglers(job)))
            errors = [j.error_pct for j in judged]
            clocks = 100 * sum(j.clocks_inside for j in judged) / sum(j.clocks for j in judged)
            first, both = (100 * np.mean([getattr(j, n) for j in judged]) for n in FLAGS)
            print(
                f"| {ranks} | {causes} | {jobs} | {first:.1f} % | {both:.1f} % "
                f"| {np.median(errors):.2f} % | {max(errors):.2f} % | {clocks:.1f} % |",
                flush=True,
            )


def draw_pipeline(seed: int, ranks: int) -> Pipeline:
    """A pipeline of 4 or 8 stages with a slow stage, a late host, or neither."""
    dice = np.random.default_rng([seed, ranks, 7])
    schedule = (GPIPE, ONE_F_ONE_B, INTERLEAVED, ZERO_BUBBLE)[seed % 4]
    stages = 4 if ranks < 16 else int(dice.choice([4, 8]))
    planted = (
        {},
        {"slow_stage": int(dice.integers(stages)), "slow": float(dice.uniform(0.15, 0.8))},
        {"late_rank": int(dice.integers(ranks)), "late_ns": int(dice.uniform(1e6, 8e6))},
    )[seed // 4 % 3]
    # Of two replicas neither is the usual one: a late host of theirs cannot be told.
    if ranks // stages < 3:
        planted.pop("late_rank", None)
        planted.pop("late_ns", None)
    return Pipeline(
        stages,
        ranks // stages,
        batches=stages * int(dice.integers(1, 5)),
        schedule=schedule,
        steps=8,
        chunks=2 if schedule == INTERLEAVED else 1,
        seed=seed,
        offset_ns=50e6,
        **planted,
    )


def run_pipelines(jobs: int, sizes: list[int]) -> None:
    """Which of bubble, slow stage and late host costs most, whose it is, and what it costs."""
    print("| ranks | jobs | schedule | worst first | error, median | error, worst |")
    print("|---:|---:|---:|---:|---:|---:|")
    for ranks in sizes:
        named, first, errors = [], [], []
        for seed in range(jobs):
            of = draw_pipeline(seed, ranks)
            with tempfile.TemporaryDirectory() as folder:
                os.environ["SIGHTLINE_CACHE"] = folder
                paths = [str(p) for p in write_pipeline(of, Path(folder) / "ranks")]
                job = compose_job(reduce_recordings(paths).ranks)
            found = find_stragglers(job).stragglers
            truth = {(BUBBLE, tuple(range(ranks))): of.measure_cost(waits=False)}
            if of.slow_stage is not None:
                mine = range(of.slow_stage * of.replicas, (of.slow_stage + 1) * of.replicas)
                truth[SLOW_STAGE, tuple(mine)] = of.measure_cost(slow_stage=None)
            if of.late_rank is not None:
                truth[HOST, (of.late_rank,)] = of.measure_cost(late_rank=None)
            worst = max(truth, key=lambda key: truth[key])
            rows = {(r["cause"], tuple(r["ranks"])): r["gain_ns"] for r in found.to_dicts()}
            named.append(job.pipeline is not None and job.pipeline.schedule == of.schedule)
            first.append(next(iter(rows), None) == worst)
            errors.append(100 * abs(rows.get(worst, 0) - truth[worst]) / truth[worst])
            if not (named[-1] and first[-1]) or errors[-1] > 5:
                said = job.pipeline and job.pipeline.schedule
                print(f"seed {seed}: {of}: {said}, {truth} {rows}", file=sys.stderr)
        print(
            f"| {ranks} | {jobs} | {100 * np.mean(named):.1f} % | {100 * np.mean(first):.1f} % "
            f"| {np.median(errors):.2f} % | {max(errors):.2f} % |",
            flush=True,
        )


def run_hangs(jobs: int, sizes: list[int]) -> None:
    """Flight recorder dumps of jobs in which one rank stops, anywhere."""
    print("| ranks | hangs | rank first | and the line |")
    print("|---:|---:|---:|---:|")
    for ranks in sizes:
        right = []
        for seed in range(jobs):
            dice = np.random.default_rng([seed, ranks])
            stopped, after = int(dice.integers(ranks)), int(dice.integers(60))
            with tempfile.TemporaryDirectory() as folder:
                os.environ["SIGHTLINE_CACHE"] = folder
                first = sightline.open(*write_hang(Path(folder), ranks, stopped, after)).findings()[
                    0
                ]
            is_rank = first.rule == "collective-hang" and first.where["ranks"] == [stopped]
            place = f"train.py({find_line(ranks, stopped, after)}): step"
            right.append((is_rank, is_rank and first.where["source"] == place))
        rank, line = (100 * np.mean(column) for column in zip(*right, strict=True))
        print(f"| {ranks} | {jobs} | {rank:.1f} % | {line:.1f} % |", flush=True)


def run_pairing(jobs: int, sizes: list[int]) -> None:
    """A rank's recording lacks its first tensor parallel collective: its others pair up wrongly."""
    print("| ranks | jobs | wrongly paired | drawn upon | jobs refused | clocks of others inside |")
    print("|---:|---:|---:|---:|---:|---:|")
    for ranks in sizes:
        wrong = drawn = inside = clocks = refused = 0
        for seed in range(jobs):
            program = Program(ranks, steps=15, seed=seed, offset_ns=50e6, drift_ppm=20.0)
            who = int(np.random.default_rng([seed, ranks]).integers(ranks))
            with tempfile.TemporaryDirectory() as folder:
                os.environ["SIGHTLINE_CACHE"] = folder
                paths = list(write_ranks(program, Path(folder) / "ranks"))
                drop_first(paths[who], "ncclDevKernel_allreduce")
                job = compose_job(reduce_recordings([str(p) for p in paths]).ranks)
            group = who // GROUP
            mine = job.rows.filter(pl.col("rank") == who, pl.col("op") == "allreduce")
            mine = mine.filter(pl.col("group") == f"tp{group}")
            wrong += mine.height
            drawn += int((~mine.get_column("alone")).sum())
            refused += job.is_contradictory
            good, judged = (0, 0) if job.is_contradictory else judge_clocks(program, job)
            inside, clocks = inside + good, clocks + judged
        told = f"{100 * inside / clocks:.1f} %" if clocks else "-"
        print(f"| {ranks} | {jobs} | {wrong} | {drawn} | {refused} | {told} |", flush=True)


def drop_first(path: Path, name: str) -> None:
    """The recording without its first event of that name."""
    text = gzip.decompress(path.read_bytes()).decode()
    lines = text.split(",\n")
    place = next(n for n, line in enumerate(lines) if name in line and n > 0)
    path.write_bytes(gzip.compress(",\n".join(lines[:place] + lines[place + 1 :]).encode(), 1))


def write_large(ranks: int, place: Path) -> int:
    """Recordings of 50,000 events in `place`, one rank late; how many bytes they are."""
    # Layers of 4 a step, each of 40 kernels and a collective; three events a kernel.
    steps = EVENTS // (4 * 41 * (2 + FILLER))
    cause = Cause(HOST, ranks // 3, 500_000)
    program = Program(ranks, steps, 40, 20_000, 1, (cause,), offset_ns=50e6, drift_ppm=20.0)
    return sum(p.stat().st_size for p in write_ranks(program, place, filler=FILLER))


def measure_command(place: Path, *words: str) -> tuple[float, float, int, str]:
    """Seconds, peak of memory in MB, exit status and output of `sightline ranks` on `place`."""
    command = [sys.executable, "-m", "sightline", "ranks", str(place), *words]
    began = time.monotonic()
    with tempfile.TemporaryFile("w+") as out:
        child = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.monotonic() - began
        out.seek(0)
        return wall, usage.ru_maxrss / 1e3, status, out.read()


def run_speed(sizes: list[int], folder: Path | None) -> None:
    print("| ranks | events | files | wall | per rank | peak memory | first finding |")
    print("|---:|---:|---:|---:|---:|---:|---|")
    for ranks in sizes:
        with tempfile.TemporaryDirectory(dir=folder) as place:
            size = write_large(ranks, Path(place) / "ranks")
            os.environ["SIGHTLINE_CACHE"] = place
            wall, memory, status, said = measure_command(Path(place) / "ranks")
            first = next(
                (line for line in said.splitlines() if line.startswith("1  ")), said[-200:]
            )
            events = ranks * (EVENTS // (4 * 41 * (2 + FILLER))) * 4 * 41 * (2 + FILLER)
            print(
                f"| {ranks} | {events:,} | {size / 1e6:.0f} MB | {wall:.1f} s "
                f"| {1000 * wall / ranks:.0f} ms | {memory:.0f} MB "
                f"| {first[3:]}{' (exit ' + str(status) + ')' if status else ''} |",
                flush=True,
            )


def run_cluster(sizes: list[int], folder: Path | None) -> None:
    """By workers of one thread each, which read nothing before; the answers must be one."""
    from distributed import LocalCluster

    print("| ranks | workers | wall | processor time of workers | worker | coordinator | same |")
    print("|---:|---:|---:|---:|---:|---:|---|")
    # What Polars does at once a worker of one thread has to do one by one.
    os.environ["POLARS_MAX_THREADS"] = "1"
    for ranks in sizes:
        answers = []
        with tempfile.TemporaryDirectory(dir=folder) as place:
            write_large(ranks, Path(place) / "ranks")
            for workers in (1, 2):
                os.environ["SIGHTLINE_CACHE"] = str(Path(place) / f"cache{workers}")
                with LocalCluster(
                    n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
                ) as cluster:
                    wall, memory, _, said = measure_command(
                        Path(place) / "ranks", "--json", "--scheduler", cluster.scheduler_address
                    )
                    with cluster.get_client() as client:
                        used = client.run(measure_process).values()
                answers.append(said)
                print(
                    f"| {ranks} | {workers} | {wall:.1f} s | {sum(u[0] for u in used):.1f} s "
                    f"| {max(u[1] for u in used):.0f} MB | {memory:.0f} MB "
                    f"| {'yes' if answers[0] == said else 'NO'} |",
                    flush=True,
                )


def measure_process() -> tuple[float, float]:
    """Processor time in seconds, and the peak of memory in MB, of this process."""
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kinds = parser.add_subparsers(dest="kind", required=True)
    truth = kinds.add_parser("truth")
    truth.add_argument("sizes", nargs="*", type=int, default=[8, 32, 128])
    truth.add_argument("--jobs", type=int, default=40)
    speed = kinds.add_parser("speed")
    speed.add_argument("sizes", nargs="*", type=int, default=[64, 256, 1024])
    speed.add_argument("--folder", type=Path, help="where the recordings are written")
    for name in ("hangs", "pairing"):
        other = kinds.add_parser(name)
        other.add_argument("sizes", nargs="*", type=int, default=[8, 32, 128])
        other.add_argument("--jobs", type=int, default=20)
    pipelines = kinds.add_parser("pipelines")
    pipelines.add_argument("sizes", nargs="*", type=int, default=[8, 32, 128])
    pipelines.add_argument("--jobs", type=int, default=24)
    cluster = kinds.add_parser("cluster")
    cluster.add_argument("sizes", nargs="*", type=int, default=[64])
    cluster.add_argument("--folder", type=Path, help="where the recordings are written")
    args = parser.parse_args()
    if args.kind == "truth":
        run_truth(args.jobs, args.sizes)
    elif args.kind == "pipelines":
        run_pipelines(args.jobs, args.sizes)
    elif args.kind == "hangs":
        run_hangs(args.jobs, args.sizes)
    elif args.kind == "pairing":
        run_pairing(args.jobs, args.sizes)
    elif args.kind == "cluster":
        run_cluster(args.sizes, args.folder)
    else:
        run_speed(args.sizes, args.folder)


if __name__ == "__main__":
    main()
