"""What fills a device's memory at its peak, who allocated it, what would lower it.

sightline memory snapshot.pickle
sightline memory trace.json                   of torch.profiler (profile_memory)
sightline memory snapshot.pickle --json       the same as data
sightline stats peak_blocks snapshot.pickle   every call stack at the peak
sightline flame snapshot.pickle --weight peak_bytes -o peak.html
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._shared import add_recordings, find_width, open_recordings
from sightline.errors import RequestError

HELP = "what fills the device's memory, at the peak and at the end"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    import json
    import sys

    from rich.console import Console

    from sightline.views.terminal.memory_screen import print_screen

    if args.window:
        raise RequestError(
            "sightline memory reads a whole recording: --window does not apply",
            hint="Keep the part first:\n"
            "  sightline import RECORDING --between 10ms..25ms -o part.sightline\n"
            "  sightline memory part.sightline",
        )
    data = open_recordings(args).memory()
    if args.json:
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return 0
    width = find_width(sys.stdout)
    console = Console(width=width, highlight=False, soft_wrap=True)
    for line in print_screen(data, width):
        console.print(line)
    return 0
