"""Many ranks: where they are read, and the answer as text, data or a page."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from sightline.doors.cli._output import choose_format, deliver, encode_json, refuse_inputs

if TYPE_CHECKING:
    from sightline.core.model.run import Run
    from sightline.fleet.answer import Answer
    from sightline.fleet.power_table import Level
    from sightline.fleet.read import Reduced

_JOBS = 4


def add_places(parser: argparse.ArgumentParser) -> None:
    """Where recordings are read, and whose timelines the page has."""
    places = parser.add_mutually_exclusive_group()
    places.add_argument(
        "--scheduler", metavar="ADDRESS", help="Dask scheduler whose workers read the recordings"
    )
    places.add_argument(
        "--slurm", metavar="PARTITION", help="Slurm partition whose jobs read the recordings"
    )
    parser.add_argument("--workers", type=int, metavar="N", help="how many Slurm jobs to start (4)")
    parser.add_argument(
        "--show",
        metavar="RANKS",
        help="ranks whose timelines the page shows, such as 0,517 (default: the worst ones and a "
        "typical one); none for no timeline",
    )


def answer_ranks(args: argparse.Namespace) -> int:
    """Read the ranks, judge them, and print or write the answer."""
    from sightline.fleet.answer import choose_ranks, judge_ranks
    from sightline.fleet.clock_plan import plan_clocks
    from sightline.views.comparison.clock_plan import describe_plan, draw_plan
    from sightline.views.comparison.ranks import describe_ranks, write_screen

    form = choose_format(args)
    if args.output is not None:
        from pathlib import Path

        refuse_inputs([Path(args.output)], args.recordings)
    asked = _parse_ranks(args.show)
    levels = _read_levels(args, form)
    reduced = _reduce(args)
    if len(reduced.ranks) == 1:
        from sightline.errors import RequestError

        raise RequestError(
            "there is one rank only, and nothing to compare it with",
            hint="Give all ranks' recordings, or ask  sightline report RECORDING",
        )
    answer = judge_ranks(reduced)
    known = set(answer.excess.get_column("rank"))
    if asked and not known.issuperset(asked):
        from sightline.errors import RequestError

        missing = min(set(asked) - known)
        raise RequestError(
            f"there is no rank {missing} to show",
            why=f"ranks are {min(known)} to {max(known)}",
        )

    def write() -> bytes:
        plan = None if levels is None else plan_clocks(answer.job, levels, args.may_lose / 100)
        if form == "json":
            more = {} if plan is None else {"clock_plan": describe_plan(plan)}
            return encode_json({**describe_ranks(answer), **more})
        if form == "text":
            screen = [write_screen(answer)]
            screen += [] if plan is None else ["", *draw_plan(plan, answer)]
            return ("\n".join(screen) + "\n").encode()
        from sightline.views.html.ranks import write_ranks_page

        chosen = choose_ranks(answer) if asked is None else asked
        return write_ranks_page(answer, _open_ranks(answer, chosen))

    deliver(args.output, args.recordings, write, None)
    return 0


def _read_levels(args: argparse.Namespace, form: str) -> list[Level] | None:
    """The clocks that a plan may choose of; None where none is asked for. Raises RequestError."""
    from pathlib import Path

    from sightline.errors import RequestError
    from sightline.fleet.power_table import read_power_table

    power = getattr(args, "power", None)
    if power is None:
        return None
    if form == "html":
        raise RequestError(
            "the page cannot show the clock plan", hint="--power  is for text and --json"
        )
    if not 0 <= args.may_lose <= 100:
        raise RequestError(
            f"--may-lose {args.may_lose:g} is not a valid value", why="it must be 0 to 100 %"
        )
    return read_power_table(Path(power))


def _parse_ranks(text: str | None) -> list[int] | None:
    """Ranks as they are typed; None where they are left to us."""
    from sightline.errors import RequestError

    if text is None:
        return None
    numbers = [] if text == "none" else text.split(",")
    if not all(n.strip().isdecimal() for n in numbers):
        raise RequestError(
            f"--show {text} are not ranks", hint="Give numbers, such as  --show 0,517"
        )
    return sorted({int(n) for n in numbers})


def _open_ranks(answer: Answer, ranks: list[int]) -> Run | None:
    """The recordings of some ranks as one run, on one clock; None of none."""
    import polars as pl

    from sightline.doors.cli._progress import Progress
    from sightline.opening.run import open_run

    rows = answer.excess.filter(pl.col("rank").is_in(ranks))
    names = rows.get_column("recording").drop_nulls().unique(maintain_order=True).to_list()
    if not names:
        return None
    fit = answer.job.fit
    known = fit if fit is not None and fit.is_apart() and not fit.is_contradictory else None
    with Progress(sys.stderr) as progress:
        return open_run(names, progress=progress, fit=known)


def _reduce(args: argparse.Namespace) -> Reduced:
    """The ranks, reduced here or by workers elsewhere."""
    from sightline.doors.cli._progress import Progress
    from sightline.errors import RequestError

    if args.workers is not None and (args.slurm is None or args.workers < 1):
        raise RequestError(
            "--workers says how many jobs --slurm starts: 1 or more, and only with it"
        )
    with Progress(sys.stderr, unit="recordings") as progress:
        if args.scheduler is None and args.slurm is None:
            from sightline.fleet.read import reduce_recordings

            return reduce_recordings(args.recordings, progress=progress)
        from sightline.fleet.cluster import connect_scheduler, reduce_on_cluster, start_slurm

        if args.scheduler is not None:
            place = connect_scheduler(args.scheduler)
        else:
            print(
                f"submitted Slurm jobs to {args.slurm}; waiting for the first to start (see "
                "squeue)",
                file=sys.stderr,
            )
            place = start_slurm(args.slurm, args.workers or _JOBS)
        with place as client:
            return reduce_on_cluster(args.recordings, client, progress=progress)
