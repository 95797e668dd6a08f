"""What the GPUs do now: their real utilization next to nvidia-smi's, and why.

sightline top                 q ends, arrows and mouse select, Enter shows all
sightline top --once          one screen, then the end
sightline top --json          the same as data

smi is nvidia-smi's utilization: the share of time with any kernel running. SM
is the share of SMs that had work, which needs a Hopper GPU or a later one, or
DCGM. A line in words says what limits each GPU.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.core.optional_packages import load_package
from sightline.doors.cli._sources import open_places, read_period_s, say_no_gpu

if TYPE_CHECKING:
    from sightline.record.monitor.latest import Latest
    from sightline.record.monitor.readings import Source

HELP = "what the GPUs really do now, and what limits each"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--once", action="store_true", help="print one screen and end")
    parser.add_argument("--json", action="store_true", help="print one screen as data and end")
    parser.add_argument(
        "--period", default="1s", metavar="T", help="time between readings (default 1s)"
    )


def run(args: argparse.Namespace) -> int:
    import sys

    from sightline.record.monitor.latest import Latest
    from sightline.record.monitor.top.owners import Owners
    from sightline.record.monitor.top.screen import DRAWN

    period_s = read_period_s(args.period)
    with open_places() as found:
        sources = [place.source for place in found if place.source is not None]
        latest = Latest(history_of=frozenset(DRAWN))
        latest.note_devices(sources)
        if not latest.devices:
            say_no_gpu(found)
        if args.json or args.once or not sys.stdout.isatty():
            return _print_once(args, sources, latest, period_s)
        load_package("textual", "textual", "the live view is drawn by Textual (top --once is not)")
        from sightline.record.monitor.top.app import TopApp

        TopApp(sources, latest, Owners(), period_s).run()
        return 0


def _print_once(
    args: argparse.Namespace, sources: list[Source], latest: Latest, period_s: float
) -> int:
    import json
    import sys

    from rich.console import Console

    from sightline.doors.cli._shared import find_width
    from sightline.record.monitor.rounds import MachineClock, run_rounds
    from sightline.record.monitor.top.data import describe_all
    from sightline.record.monitor.top.owners import Owners
    from sightline.record.monitor.top.screen import draw_screen

    # Rates and true use are of what lies between two readings.
    for rounds, now in enumerate(run_rounds(sources, min(period_s, 1.0), MachineClock()), 1):
        latest.put(now)
        if rounds == 2:
            break
    if args.json:
        print(json.dumps(describe_all(latest, Owners()), indent=1, ensure_ascii=False))
        return 0
    width = find_width(sys.stdout)
    console = Console(width=width, highlight=False, soft_wrap=True)
    for line in draw_screen(latest, Owners(), width):
        console.print(line)
    return 0
