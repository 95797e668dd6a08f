"""One job of a cluster: what it used, what is wrong with it, and what to do.

sightline job 4711                  on a login node: sacct is asked
sightline job 4711_3 sacct.json     from a file, an archive or a database
sightline job 4711 ARCHIVE --json
sightline job 4711 ARCHIVE --rules tagger/

With figures over time (ClusterCockpit) more can be judged than with means.
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._jobs import add_sources
from sightline.doors.cli._output import add_target, wants_json
from sightline.doors.cli._shared import add_rules

HELP = "one job of a cluster: what it used, what is wrong, what to do"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", metavar="ID", help="its number, as the scheduler prints it")
    add_sources(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_target(parser)
    add_rules(parser)


def run(args: argparse.Namespace) -> int:
    import json

    import polars as pl

    from sightline.doors.cli._jobs import ask_rules, is_wanted, open_sources
    from sightline.errors import RequestError
    from sightline.subjects.jobs.job import list_jobs
    from sightline.subjects.jobs.judging import judge_job
    from sightline.subjects.jobs.verdict import Verdict
    from sightline.views.jobs.page import describe_job, write_job

    wanted = args.job
    with open_sources(args, wanted) as found:
        jobs = [job for job in list_jobs(found) if is_wanted(job.row, wanted)]
        if not jobs:
            raise RequestError(
                f"there is no job {wanted} in what was given",
                hint="All jobs:  sightline jobs SOURCE",
            )
        extra = ask_rules(args, found)
        pages, data = [], []
        for job in jobs:
            verdicts = list(judge_job(job))
            if extra is not None:
                own = extra.filter(pl.col("job_row_id") == job.row["job_row_id"])
                verdicts += [
                    Verdict(row["rule"], row["judged"] or None, row["text"], 0.0, row["fix"] or "")
                    for row in own.iter_rows(named=True)
                ]
            pages.append(write_job(job, verdicts))
            data.append(describe_job(job, verdicts))
    print(
        json.dumps(data, indent=1, ensure_ascii=False) if wants_json(args) else "\n\n".join(pages)
    )
    return 0
