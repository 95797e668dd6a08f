"""What fails in a fleet, how often, and what a job must expect.

sightline failures node*.log --gpus 512 --over 30d
sightline failures --incidents list.csv --gpus 16384 --over 54d
sightline failures --incidents list.csv --gpus 16384 --over 54d \\
    --job 16384:7d --checkpoint 2min --restart 10min
sightline failures node*.log --jobs sacct.txt --gpus 512 --over 30d

Kernel logs, histories of sightline watch, logs of the fabric manager: each path
is one node, by its file's name. With the jobs of a scheduler (as for sightline
jobs), it says which jobs were struck, and which ended without a known reason.
A list is CSV with component, and perhaps category, count, time and
node. MTBF is of one GPU: GPU-hours by failures, with an interval of 90 %.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.health.failures.causes import Cause
    from sightline.health.failures.incidents import Incident
    from sightline.health.failures.jobs import Matched
    from sightline.health.failures.rates import Interval
    from sightline.views.terminal.failures_screen import Checkpoint

HELP = "what fails in a fleet, how often; checkpoints and goodput of a job"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recordings", nargs="*", metavar="LOG", help="logs, histories: one a node")
    parser.add_argument("--incidents", metavar="FILE", help="a list of incidents, as CSV")
    parser.add_argument("--gpus", type=int, metavar="N", help="GPUs of the fleet")
    parser.add_argument("--over", metavar="T", help="length of the observed period: 54d")
    parser.add_argument("--job", metavar="N:T", help="a job of N GPUs for T: 16384:7d")
    parser.add_argument(
        "--jobs", action="append", metavar="FILE", help="which jobs ran: output of sacct, ..."
    )
    parser.add_argument("--checkpoint", metavar="T", help="how long writing a checkpoint takes")
    parser.add_argument(
        "--restart",
        default="10min",
        metavar="T",
        help="time from a failure until the job works again (10min)",
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    from itertools import pairwise

    from sightline.health.failures.rates import bound_rate, expect_interruptions, fit_shape
    from sightline.views.terminal import failures_screen as screen

    counts, incidents = _collect(args)
    gpus, hours = _find_exposure(args)
    times = sorted(one.time_ns for one in incidents if one.time_ns)
    gaps = [(after - before) / 3.6e12 for before, after in pairwise(times)]
    shape = fit_shape(gaps) if len(times) == sum(counts.values()) else None
    rate = bound_rate(sum(counts.values()), gpus * hours)
    job_gpus, job_hours = _parse_job(args, gpus)
    expected = expect_interruptions(rate, job_gpus, job_hours) if job_hours else None
    checkpoints = _choose_checkpoints(args, rate, job_gpus)
    matched = _match_jobs(args, incidents)
    if args.json:
        _print_data(counts, gpus, hours, shape, expected, checkpoints, matched)
        return 0
    lines = [*screen.draw_causes(counts, gpus, hours), "", *screen.draw_shape(shape)]
    if expected is not None and job_hours:
        lines += ["", *screen.draw_job(job_gpus, job_hours, expected)]
    if matched is not None:
        lines += ["", *screen.draw_struck(matched)]
    if checkpoints:
        cost, restart = _parse_checkpoint(args)
        lines += ["", *screen.draw_checkpoints(checkpoints, cost, restart)]
    print("\n".join(lines))
    return 0


def _collect(args: argparse.Namespace) -> tuple[dict[Cause, int], list[Incident]]:
    """Counts by cause, and the incidents that have a time."""
    from pathlib import Path

    from sightline.errors import RequestError
    from sightline.health.failures.incidents import count_causes, list_incidents, read_table
    from sightline.health.reading.quiet_logs import read_node

    if not args.recordings and not args.incidents:
        raise RequestError(
            "there is nothing to count",
            hint="sightline failures node*.log --gpus 512 --over 30d\n"
            "sightline failures --incidents list.csv --gpus 512 --over 30d",
        )
    incidents: list[Incident] = []
    for path in args.recordings:
        incidents += list_incidents(Path(path).name, read_node(path).events)
    counts = count_causes(incidents)
    if args.incidents:
        table = read_table(Path(args.incidents))
        for cause, count in table.counts.items():
            counts[cause] = counts.get(cause, 0) + count
        incidents += table.incidents
    if not counts:
        raise RequestError(
            "no failure is recorded here",
            why="no event of these recordings interrupts work",
            hint="What there is:  sightline health LOG",
        )
    return counts, incidents


def _match_jobs(args: argparse.Namespace, incidents: list[Incident]) -> Matched | None:
    """The incidents against the jobs that ran, where they are given."""
    from sightline.core.model.declare import ImportOptions
    from sightline.errors import MissingDataError
    from sightline.health.failures.jobs import list_jobs, match_jobs
    from sightline.opening.run import open_run

    if not args.jobs:
        return None
    # Nodes are matched by their names, of which only those of struck jobs are printed.
    run = open_run(args.jobs, options=ImportOptions(keep_identity=True), same_job=True)
    if not run.rows("jobs"):
        raise MissingDataError("there are no jobs in what was given with --jobs")
    jobs = list_jobs(run)
    if not jobs:
        raise MissingDataError(
            "no job that was given with --jobs says when it began",
            hint="sacct --parsable2 --format=JobID,State,Start,End,NodeList,AllocTRES",
        )
    return match_jobs(jobs, incidents)


def _find_exposure(args: argparse.Namespace) -> tuple[int, float]:
    """GPUs and hours in which these incidents happened."""
    from sightline.errors import RequestError
    from sightline.health.failures.incidents import parse_hours

    if args.gpus is None or args.gpus < 1 or not args.over:
        raise RequestError(
            "the number of GPUs and the period of these failures are missing",
            why="a log shows only the GPUs that failed, not how many there are",
            hint="--gpus 512 --over 30d",
        )
    return args.gpus, parse_hours(args.over)


def _parse_job(args: argparse.Namespace, gpus: int) -> tuple[int, float | None]:
    from sightline.errors import RequestError
    from sightline.health.failures.incidents import parse_hours

    if not args.job:
        return gpus, None
    count, colon, length = args.job.partition(":")
    if not count.isdecimal() or int(count) < 1 or not colon:
        raise RequestError(f"'{args.job}' is not a job", hint="--job 16384:7d")
    return int(count), parse_hours(length)


def _parse_checkpoint(args: argparse.Namespace) -> tuple[float, float]:
    from sightline.health.failures.incidents import parse_hours

    return parse_hours(args.checkpoint), parse_hours(args.restart)


def _choose_checkpoints(args: argparse.Namespace, rate: Interval, gpus: int) -> list[Checkpoint]:
    """Young's, Daly's and the best interval, each with its goodput by formula and simulated."""
    from sightline.health.failures import goodput
    from sightline.views.terminal.failures_screen import Checkpoint

    if not args.checkpoint:
        return []
    cost, restart = _parse_checkpoint(args)
    mtbf = 1 / (rate.value * gpus)
    chosen = {
        "Young": goodput.choose_young(cost, mtbf),
        "Daly": goodput.choose_daly(cost, mtbf),
        "search": goodput.find_best(cost, restart, mtbf),
    }
    return [
        Checkpoint(
            name,
            interval,
            goodput.predict_goodput(interval, cost, restart, mtbf),
            goodput.simulate_goodput(interval, cost, restart, mtbf),
        )
        for name, interval in chosen.items()
    ]


def _print_data(
    counts: dict[Cause, int],
    gpus: int,
    hours: float,
    shape: Interval | None,
    expected: Interval | None,
    checkpoints: list[Checkpoint],
    matched: Matched | None,
) -> None:
    import json
    import math

    from sightline.health.failures.rates import bound_mtbf

    def as_finite(interval: Interval) -> dict[str, Any]:
        return {k: v if math.isfinite(v) else None for k, v in interval._asdict().items()}

    total = sum(counts.values())
    causes = [
        {
            "component": cause.component,
            "category": cause.category,
            "count": count,
            "share": count / total,
            "mtbf_gpu_hours": as_finite(bound_mtbf(count, gpus * hours)),
        }
        for cause, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    told = {
        "interruptions": total,
        "gpus": gpus,
        "hours": hours,
        "causes": causes,
        "mtbf_gpu_hours": as_finite(bound_mtbf(total, gpus * hours)),
        "weibull_shape": None if shape is None else as_finite(shape),
        "job_interruptions": None if expected is None else as_finite(expected),
        "checkpoints": [row._asdict() for row in checkpoints],
        "jobs": None if matched is None else _describe_jobs(matched),
    }
    print(json.dumps(told, indent=1))


def _describe_jobs(matched: Matched) -> dict[str, Any]:
    return {
        "struck": [
            {
                "job_id": one.job.job_id,
                "state": one.job.state,
                "gpus": one.job.gpus,
                "node": one.incident.node,
                "component": one.incident.cause.component,
                "time_ns": one.incident.time_ns,
                "is_ended": one.is_ended,
                "lost_gpu_hours": one.lost_gpu_hours,
            }
            for one in matched.struck
        ],
        "unexplained": [job.job_id for job in matched.unexplained],
        "incidents_without_a_job": len(matched.elsewhere),
    }
