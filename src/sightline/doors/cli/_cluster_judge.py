"""`sightline cluster judge`: the rules of today, or rules of one's own, on all kept jobs."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from sightline.cluster.back import Task

_FOREVER_NS = 2**62
Map = Callable[[list[Any]], Iterator[Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--rules",
        action="append",
        default=[],
        metavar="FILE",
        help="judge: rules of your own instead of the built-in ones",
    )
    parser.add_argument("--since", metavar="T", help="judge: jobs that began after this time: 90d")
    parser.add_argument("--until", metavar="T", help="judge: jobs that began before this time")
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="judge: let a Dask scheduler's workers do it"
    )
    parser.add_argument("--slurm", metavar="PARTITION", help="judge: let Slurm jobs do it")
    parser.add_argument(
        "--workers", type=int, default=4, metavar="N", help="judge: how many Slurm jobs (4)"
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="judge: all verdicts as Parquet")
    parser.add_argument("--json", action="store_true", help="judge: the table as JSON")


def run(args: argparse.Namespace) -> int:
    from functools import partial
    from pathlib import Path

    import polars as pl

    from sightline.cluster import back
    from sightline.cluster.config import read_config
    from sightline.cluster.feeds import read_limits
    from sightline.doors.cli._jobs import read_moment_ns
    from sightline.doors.cli._shared import load_own_rules
    from sightline.errors import InputError

    config = read_config(Path(args.config))
    rules = load_own_rules(args.rules)
    since = read_moment_ns(args.since) if args.since else 0
    until = read_moment_ns(args.until) if args.until else _FOREVER_NS
    shelf, checkpoint = back.open_archive(config.store, config.bucket)
    work = partial(back.judge, rules=rules, limits=read_limits(config.sources.limits))
    try:
        tasks = list(back.list_tasks(shelf, checkpoint, since, until))
        parts, lost = _judge_all(args, tasks, work)
        said = pl.concat(parts) if parts else pl.DataFrame(schema=back.SCHEMA)
        keys = [key for task in tasks for key in task.keys]
        then = {} if rules else back.read_then(shelf, checkpoint, keys)
    except OSError as error:
        raise InputError(
            "the kept jobs cannot be read", why=str(error), hint="Try it again."
        ) from error
    if args.output:
        said.write_parquet(args.output)
    _print(args, back.sum_rules(said, then), len(keys), lost, own=bool(rules))
    return 0


def _judge_all(
    args: argparse.Namespace, tasks: list[Task], work: Callable[[Task], pl.DataFrame]
) -> tuple[list[pl.DataFrame], list[str]]:
    """The verdicts, and what could not be judged, as sentences."""
    import sys

    from sightline.core.text import make_printable
    from sightline.core.units import format_several
    from sightline.doors.cli._progress import Progress

    parts, lost = [], []
    with Progress(sys.stderr) as progress, _open_map(args, work) as answers:
        for done, (task, answer) in enumerate(answers(tasks), 1):
            if isinstance(answer, Exception):
                jobs = format_several(len(task.keys), "job")
                lost.append(f"{jobs} could not be judged: {make_printable(str(answer))[:300]}")
            else:
                parts.append(answer)
            progress("jobs judged", done, len(tasks))
    return parts, lost


@contextmanager
def _open_map(args: argparse.Namespace, work: Callable[[Task], pl.DataFrame]) -> Iterator[Map]:
    """Tasks with their answers or errors, here or on workers."""
    if not (args.scheduler or args.slurm):
        yield lambda tasks: ((task, _try(work, task)) for task in tasks)
        return
    from sightline.fleet.cluster import connect_scheduler, start_slurm

    opened = (
        connect_scheduler(args.scheduler)
        if args.scheduler
        else start_slurm(args.slurm, args.workers)
    )
    with opened as client:

        def ask(tasks: list[Task]) -> Iterator[tuple[Task, Any]]:
            import distributed

            futures = client.map(_try, [work] * len(tasks), tasks, pure=False)
            of = dict(zip(futures, tasks, strict=True))
            with client.as_current():
                done: Any = distributed.as_completed
                for future in done(futures, raise_errors=False):
                    error = future.exception() if future.status == "error" else None
                    yield of[future], error or future.result()
                    future.release()

        yield ask


def _try(work: Callable[[Task], pl.DataFrame], task: Task) -> pl.DataFrame | Exception:
    try:
        return work(task)
    except OSError as error:
        return error


def _print(
    args: argparse.Namespace, rows: list[dict[str, Any]], jobs: int, lost: list[str], *, own: bool
) -> None:
    import json
    import sys

    from sightline.core.units import format_several

    for text in lost:
        print(f"Note: {text}", file=sys.stderr)
    if args.json:
        print(json.dumps({"jobs": jobs, "rules": rows, "lost": lost}, indent=1))
        return
    print(f"{format_several(jobs, 'job')} judged")
    if not rows:
        return
    width = max(len(row["rule"]) for row in rows)
    then = "" if own else f"{'then':>8}"
    print(
        f"{'rule':<{width}}{'jobs':>8}{then}{'users':>7}{'GPU h':>12}{'core h':>12}{'unknown':>9}"
    )
    for row in rows:
        then = "" if own else f"{row['then']:>8,}"
        print(
            f"{row['rule']:<{width}}{row['jobs']:>8,}{then}{row['users']:>7,}"
            f"{row['gpu_hours']:>12,.1f}{row['core_hours']:>12,.1f}{row['not_judged']:>9,}"
        )
