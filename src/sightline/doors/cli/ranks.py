"""Many ranks: which of them cost the job how much, and why.

sightline ranks 'rank*.json.gz'  one recording of each rank, up to thousands
sightline ranks trace/ --json    verdict, ranks by cause, and path as data
sightline ranks trace/ -o ranks.html   a page: who is late when, why, and the
                                 timelines of the worst ranks on one clock
sightline ranks '/shared/rank*.json.gz' --scheduler tcp://head:8786
                                 read by the workers of a Dask scheduler
sightline ranks '/shared/rank*.json.gz' --slurm gpu --workers 16
                                 read by jobs in a partition of Slurm
sightline ranks capture.sightline --power power.csv   lower clocks for ranks
                                 that wait: joules saved, time at risk

Ranks are read a few at a time and reduced, so that memory does not grow with
their recordings. Past one machine, workers read them where they lie: they must
see the same files, under the same paths, and have Dask
(pip install distributed dask-jobqueue).
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._output import add_output
from sightline.doors.cli._places import add_places, answer_ranks

HELP = "which of many ranks cost the job how much, and why"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recordings", nargs="+", metavar="RECORDING", help="files, folders, globs or stores"
    )
    add_output(parser, ("text", "json", "html"))
    parser.add_argument(
        "--power",
        metavar="FILE",
        help="measured powers by clock (CSV; docs/fleet.md): plan a clock for each rank",
    )
    parser.add_argument(
        "--may-lose",
        type=float,
        default=0.5,
        metavar="PCT",
        help="how much longer the plan may make the job, in %% (0.5)",
    )
    add_places(parser)


def run(args: argparse.Namespace) -> int:
    return answer_ranks(args)
