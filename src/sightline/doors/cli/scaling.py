"""One program on more and more ranks: where speed is lost, and what more give.

sightline scaling one/ two/ four/ eight/    the same work (strong scaling)
sightline scaling --weak one/ two/ --at 64  the same work a rank; a forecast

Each argument is one job: a recording, a folder of its ranks' recordings, a
glob or a store.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.core.units import format_several
from sightline.doors.cli._output import add_target, wants_json

if TYPE_CHECKING:
    from sightline.doors.cli._progress import Progress
    from sightline.fleet.efficiency import Efficiency
    from sightline.fleet.scaling import Forecast, Point

_UNKNOWN = 1000  # %: an interval beyond ten times the ideal says nothing
HELP = "efficiency over the number of ranks, and a forecast"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("jobs", nargs="+", metavar="JOB", help="a job: recordings of its ranks")
    parser.add_argument("--weak", action="store_true", help="each rank has the same work")
    parser.add_argument("--at", type=int, metavar="N", help="forecast the efficiency at N ranks")
    parser.add_argument(
        "--same-program",
        action="store_true",
        help="the jobs are of one program, however little their operations have in common",
    )
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_target(parser)


_FOR_EACH = "Give a job for each number of ranks:  sightline scaling one/ two/ four/"


def run(args: argparse.Namespace) -> int:
    import json

    from sightline.doors.cli._progress import Progress
    from sightline.errors import RequestError
    from sightline.fleet.scaling import compare_jobs, forecast

    if args.at is not None and args.at < 1:
        raise RequestError(f"{args.at} is not a number of ranks")
    if twice := next((job for job in args.jobs if args.jobs.count(job) > 1), None):
        raise RequestError(f"{twice} is given twice", hint="Give one job for each number of ranks.")
    if not args.same_program and len(args.jobs) > 1:
        _check_same_program(args.jobs)
    with Progress(sys.stderr, unit="recordings") as progress:
        found = [_measure(job, progress) for job in args.jobs]
    if len(found) == 1 and found[0].ranks == 1:
        raise RequestError(
            "one job of one rank does not show how the program scales",
            hint=_FOR_EACH,
        )
    if all(job.ranks == 1 for job in found):
        number = format_several(len(found), "recording")
        raise RequestError(
            f"{number} of one rank each do not show how the program scales",
            why="each argument must be a job",
            hint=f"{_FOR_EACH}\nThe ranks of one job:  sightline ranks "
            f"{shlex.join(args.jobs[:2])} …",
        )
    points = compare_jobs(found, weak=args.weak)
    ahead = None if args.at is None else forecast(points, args.at, weak=args.weak)
    if wants_json(args):
        data = {
            "scaling": "weak" if args.weak else "strong",
            "jobs": [vars(p) | {"largest_loss": p.largest_loss} for p in points],
            "talp": [
                {
                    "ranks": job.ranks,
                    "parallel_efficiency": job.talp_parallel,
                    "load_balance": job.talp_load_balance,
                    "communication": job.talp_communication,
                    "orchestration": job.talp_orchestration,
                }
                for job in sorted(found, key=lambda job: job.ranks)
            ],
            "forecast": None if ahead is None else vars(ahead),
        }
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return 0
    _print_tables(found, points, weak=args.weak)
    if args.at is not None:
        print("\n" + _say_forecast(ahead, args.at, points[-1]))
    return 0


def _check_same_program(jobs: Sequence[str]) -> None:
    """By the first recording of each job. Raises RequestError where they are of several."""
    from sightline.fleet.same_program import check_same_program, list_work
    from sightline.opening.paths import expand_paths
    from sightline.opening.run import open_run

    firsts = {job: expand_paths([job]).names[:1] for job in jobs}
    check_same_program({job: list_work(open_run(names)) for job, names in firsts.items() if names})


def print_scaling(jobs: Sequence[str]) -> None:
    """Both tables of jobs with the same work."""
    from sightline.doors.cli._progress import Progress
    from sightline.fleet.scaling import compare_jobs

    with Progress(sys.stderr, unit="recordings") as progress:
        found = [_measure(job, progress) for job in jobs]
    _print_tables(found, compare_jobs(found, weak=False), weak=False)


def _print_tables(found: Sequence[Efficiency], points: Sequence[Point], *, weak: bool) -> None:
    print(f"{'weak' if weak else 'strong'} scaling, relative to the fewest ranks\n")
    print(
        f"{'ranks':>6}{'length':>11}{'efficiency':>12} = {'computation':>11} × {'balance':>8}"
        f" × {'serial.':>8} × {'transfer':>8}"
    )
    for point in points:
        print(_say_point(point))
    print("\nTALP's hierarchy, each job by itself\n")
    print(f"{'ranks':>6}{'parallel':>23} = {'balance':>11} × {'communic.':>9} × {'orchestr.':>9}")
    for job in sorted(found, key=lambda job: job.ranks):
        print(
            f"{job.ranks:>6}{job.talp_parallel:>23.3f} = {job.talp_load_balance:>11.3f} × "
            f"{job.talp_communication:>9.3f} × {job.talp_orchestration:>9.3f}"
        )


def _measure(job: str, progress: Progress) -> Efficiency:
    """The factors of a job: of its devices, or of its processes where it has none."""
    from sightline.fleet.efficiency import measure_efficiency
    from sightline.fleet.host_efficiency import measure_host_efficiency
    from sightline.fleet.job import compose_job
    from sightline.fleet.read import reduce_recordings
    from sightline.opening.paths import expand_paths
    from sightline.opening.run import open_run
    from sightline.timeline.host_parts import has_only_host

    names = expand_paths([job]).names
    if names and has_only_host(open_run([names[0]])):
        return measure_host_efficiency(open_run([job]))
    return measure_efficiency(compose_job(reduce_recordings([job], progress=progress).ranks))


def _say_point(point: Point) -> str:
    from sightline.core.units import format_ns

    f = point.factors
    return (
        f"{point.ranks:>6}{format_ns(point.length_ns):>11}{point.efficiency:>12.3f} = "
        f"{f['computation']:>11.3f} × {f['load_balance']:>8.3f} × {f['serialisation']:>8.3f} × "
        f"{f['transfer']:>8.3f}"
    )


def _say_forecast(ahead: Forecast | None, ranks: int, last: Point) -> str:
    if ahead is None:
        return f"no forecast for {ranks} ranks: it takes jobs of three numbers of ranks or more"
    said = f"at {ranks} ranks: {100 * ahead.efficiency:.1f} %"
    if ahead.low is not None and ahead.high is not None:
        least, most = 100 * ahead.low, 100 * ahead.high
        edge = f"to {most:.1f} %" if most < _UNKNOWN else "% or more"
        said += f" ({least:.1f} {edge}, 95 % interval)"
    else:
        said += ", with no interval: there are no more jobs than the model has parameters"
    if last.largest_loss is not None:
        said += f"; the largest loss is {last.largest_loss.replace('_', ' ')}"
    return f"{said}\nmodel of the length: {ahead.model}, the best of those that were tried"
