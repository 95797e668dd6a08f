"""Jobs of a cluster: what they were given, what they wasted, who should do what.

sightline jobs                         on a login node: a week, as sacct has it
sightline jobs sacct.json ARCHIVE job.db    from files: see docs/jobs.md
sightline jobs SOURCE --user ada --since 30d --sort hours
sightline jobs SOURCE --problem job-idle-gpus
sightline jobs SOURCE --digest > week.md    for each user, with next steps
sightline jobs SOURCE --rules tagger/       rules of your own, in any dialect
sightline job 4711 SOURCE                   one job: why, and what to do

Nothing is installed on nodes, and nothing is written. Figures of use come from
Jobstats' summaries in Slurm's accounting, gres/gpuutil, or ClusterCockpit.
"""

from __future__ import annotations

import argparse
import os

from sightline.doors.cli._jobs import add_sources
from sightline.doors.cli._output import add_target, wants_json
from sightline.doors.cli._shared import add_rules

HELP = "jobs of a cluster: what they wasted, and who should do what"

_SORTS = ("wasted", "hours", "start", "length")
_DIGESTS = ("user", "project", "site")
_OWNERS = ("user", "project", "cluster")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sources(parser)
    parser.add_argument("--until", metavar="T", help="jobs that began before this time")
    for name, about in (
        ("user", "jobs of this user"),
        ("project", "jobs of this account or project"),
        ("state", "jobs in this state: completed, timeout, running, ..."),
        ("problem", "jobs with this problem: a name of  sightline rules"),
    ):
        parser.add_argument(
            f"--{name}", action="append", default=[], metavar=name.upper(), help=f"only {about}"
        )
    parser.add_argument(
        "--by", choices=_OWNERS, default="user", help="whose waste is summed (user)"
    )
    parser.add_argument(
        "--sort", choices=_SORTS, default="wasted", help="what comes first (wasted)"
    )
    parser.add_argument("--most", type=int, default=20, metavar="N", help="jobs to list (20)")
    parser.add_argument(
        "--digest",
        nargs="?",
        const="user",
        metavar="{user,project,site}",
        help="as Markdown, a section for each user (default) or project, or one for the site",
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_target(parser)
    add_rules(parser)


def _part_digest(args: argparse.Namespace) -> None:
    """What stands behind --digest is a source where it is no owner: `jobs --digest sacct.json`."""
    from sightline.errors import RequestError

    if args.digest in (None, *_DIGESTS):
        return
    if not os.path.exists(args.digest):  # noqa: PTH110
        raise RequestError(
            f"there is no digest by '{args.digest}'", why=f"there are {', '.join(_DIGESTS)}"
        )
    args.recordings.insert(0, args.digest)
    args.digest = "user"


def run(args: argparse.Namespace) -> int:
    import json
    import sys

    from sightline.doors.cli._jobs import ask_rules, open_sources, read_moment_ns
    from sightline.doors.cli._shared import find_width
    from sightline.errors import RequestError
    from sightline.views.jobs.digest import write_digest
    from sightline.views.jobs.figures import Choice, collect_figures, to_plain
    from sightline.views.jobs.listing import write_listing

    _part_digest(args)
    if args.most < 0:
        raise RequestError("--most is less than 0")
    choice = Choice(
        args.user,
        args.project,
        [state.lower() for state in args.state],
        args.problem,
        read_moment_ns(args.since) if args.since else None,
        read_moment_ns(args.until) if args.until else None,
    )
    with open_sources(args) as found:
        figures = collect_figures(found, choice, ask_rules(args, found))
        if args.digest:
            print(write_digest(figures, args.digest), end="")
        elif wants_json(args):
            print(json.dumps(to_plain(figures, args.by), indent=1, ensure_ascii=False))
        else:
            width = max(80, min(find_width(sys.stdout), 160))
            print(write_listing(figures, args.by, args.sort, args.most, width))
    return 0
