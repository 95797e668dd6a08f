"""A run's fingerprint: what a comparison needs of it, in at most 20 KB of text.

sightline fingerprint run.json -o baseline.json    for git, or another machine
sightline compare baseline.json new.json           as a side of a comparison
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._output import deliver, refuse_inputs
from sightline.doors.cli._shared import add_recordings, open_recordings

HELP = "what a comparison needs of a run, in a file of at most 20 KB"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write to FILE")


def run(args: argparse.Namespace) -> int:
    from pathlib import Path

    from sightline.compare.fingerprint import write_fingerprint
    from sightline.compare.sample import take_sample

    if args.output is not None:
        refuse_inputs([Path(args.output)], args.recordings)
    data = write_fingerprint(take_sample(open_recordings(args), args.recordings[0]))
    deliver(args.output, args.recordings, lambda: data, None)
    return 0
