"""What `jobs` and `job` share: their sources, with the owners that such a list is about."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

    from sightline.session import Session

_DAYS_NS = 86_400 * 10**9
_BUCKET = "s3://"
_MOST_BROUGHT = 20_000  # ours: at some 100 kB each what a temporary folder holds
_SINCE = "7d"  # what is asked of sacct where nothing is said


def add_sources(parser: argparse.ArgumentParser) -> None:
    """SOURCE …, --since and --rules."""
    parser.add_argument(
        "recordings",
        nargs="*",
        metavar="SOURCE",
        help="output of sacct, squeue, scontrol or seff, archives and databases of "
        "ClusterCockpit (also s3://BUCKET/FOLDER); without one, sacct is asked",
    )
    parser.add_argument(
        "--prometheus",
        metavar="URL",
        help="ask this server for figures over time: Jobstats' exporters, or dcgm-exporter's with "
        "HPC jobs",
    )
    parser.add_argument(
        "--since", metavar="T", help="jobs that ran after this time: 7d, 12h, or 2026-01-31 (UTC)"
    )


def read_moment_ns(text: str) -> int:
    """A day, or a time ago, in ns since 1970. Raises RequestError where it is neither."""
    import time
    from datetime import UTC, datetime

    from sightline.core.units import parse_duration_ns
    from sightline.errors import RequestError

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return round(zoned.timestamp()) * 10**9
    try:
        return time.time_ns() - parse_duration_ns(text)
    except RequestError as error:
        raise RequestError(
            f"'{text}' is not a time", hint="Write for example  --since 7d  or  --since 2026-01-31"
        ) from error


@contextmanager
def open_sources(args: argparse.Namespace, job: str | None = None) -> Iterator[Session]:
    """The jobs of all sources, or what sacct says. Raises InputError where there is no job."""
    import shutil
    import tempfile
    from datetime import UTC, datetime
    from pathlib import Path

    from sightline.opening.scheduler import ask_accounting

    if args.recordings:
        with _bring_buckets(args.recordings, args.since) as paths:
            yield _add_series(args, _open(paths), job)
        return
    since = read_moment_ns(args.since or _SINCE)
    day = datetime.fromtimestamp(since / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    folder = Path(tempfile.mkdtemp(prefix="sightline-jobs-"))
    try:
        yield _add_series(args, _open([str(ask_accounting(folder, day, job))]), job)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _bring_buckets(given: list[str], since: str | None) -> Iterator[list[str]]:
    """Paths of this machine: of an archive in object storage a copy, while they are read."""
    import sys
    import tempfile
    from pathlib import Path

    from sightline.core.text import make_printable
    from sightline.errors import InputError

    buckets = [one for one in given if one.startswith(_BUCKET)]
    if not buckets:
        yield given
        return
    from sightline.cluster.cockpit_bucket import bring_archive

    after = read_moment_ns(since) / 1e9 if since else 0.0
    with tempfile.TemporaryDirectory(prefix="sightline-jobs-") as top:
        paths = []
        for number, one in enumerate(given):
            if one not in buckets:
                paths.append(one)
                continue
            folder = Path(top) / str(number) / "archive"
            folder.mkdir(parents=True)
            try:
                bring_archive(
                    one,
                    folder,
                    after,
                    _MOST_BROUGHT,
                    lambda text: print(f"Note: {make_printable(text)}", file=sys.stderr),
                )
            except OSError as error:
                raise InputError(f"{one} cannot be read", why=str(error)) from error
            if not any(folder.rglob("*")):
                raise InputError(
                    f"there is no job archive of ClusterCockpit at {one}",
                    why="no object there is called CLUSTER/…/meta.json or cc-archive-….parquet",
                )
            paths.append(str(folder))
        yield paths


def _open(paths: list[str]) -> Session:
    import sys

    from sightline.core.model.declare import ImportOptions
    from sightline.doors.cli._progress import Progress
    from sightline.doors.cli._shared import heed_interrupts
    from sightline.errors import MissingDataError
    from sightline.session import open_session

    heed_interrupts()
    options = ImportOptions(keep_identity=True)
    with Progress(sys.stderr) as progress:
        run = open_session(paths, options=options, progress=progress, same_job=True)
    if not run.rows("jobs"):
        raise MissingDataError(
            "there are no jobs in what was given",
            why="it describes a cluster or its nodes"
            if run.rows("metric_limits") or run.rows("cluster_nodes")
            else "it is a recording of a program",
            hint="Of a recording:  sightline report RECORDING",
        )
    _say_losses(run)
    return run


def _add_series(args: argparse.Namespace, run: Session, wanted: str | None) -> Session:
    """With what a Prometheus server knows, where one is named; of one job, or of all."""
    import sys

    if not args.prometheus:
        return run
    from sightline.record.monitor.prometheus_server import open_server
    from sightline.subjects.jobs.prometheus import add_series

    fetch = open_server(args.prometheus)
    made, asked, there = add_series(
        run, fetch, lambda job: wanted is None or is_wanted(job.row, wanted)
    )
    if asked < there:
        text = f"Note: Prometheus was asked about the {asked} largest of {there} jobs"
        print(text, file=sys.stderr)
    return made


def is_wanted(row: Mapping[str, Any], wanted: str) -> bool:
    """Whether a job has this number, or is a task of the array that has it."""
    return wanted in (row["job_id"], str(row["raw_job_id"]), row["job_id"].partition("_")[0])


def _say_losses(run: Session) -> None:
    """What could not be read, on standard error."""
    import sys

    from sightline.core.text import make_printable
    from sightline.core.units import format_note

    recordings = run.table("recordings")
    paths = recordings.select("recording_id", "path").rows() if recordings.height > 1 else []
    names = {number: make_printable(str(path)) for number, path in paths}
    for row in run.table("quality").iter_rows(named=True):
        if row["severity"] != "info":
            text = format_note(row["count"], make_printable(row["text"]))
            # A note on a file that could not be read names it itself.
            where = None if "cannot read" in text else names.get(row["recording_id"])
            print(f"Note: {f'{where}: ' if where else ''}{text}", file=sys.stderr)


def ask_rules(args: argparse.Namespace, run: Session) -> pl.DataFrame | None:
    """What rules of one's own say of each job; None where none was given."""
    from sightline.doors.cli._shared import load_own_rules

    rules = load_own_rules(args.rules)
    if not rules:
        return None
    from sightline.subjects.jobs.own_rules import ask_own_rules

    return ask_own_rules(run, rules)
