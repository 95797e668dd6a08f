"""Five minutes with sightline, on recordings that come with it.

sightline tour              stop by stop; Enter goes on, q ends
sightline tour --no-wait    all of it at once

Every stop prints a command, runs it, and says what to look at. Nothing is
recorded or written.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import textwrap
from typing import TYPE_CHECKING, NamedTuple

from sightline.core.units import format_several

if TYPE_CHECKING:
    from pathlib import Path

HELP = "five minutes with sightline, on recordings that come with it"


class Stop(NamedTuple):
    """One command, what to say before it, and how many lines of its output say enough."""

    title: str
    text: str
    command: str
    lines: int | None = None


STOPS = (
    Stop(
        "Why is it slow?",
        "A training loop on a CPU was recorded. The report is one screen: where the time went, "
        "and what to change, the largest gain first. A finding has what it costs, what fixing it "
        "could save, its evidence, the fix, and how to check it.",
        "sightline data-loading/recorded/baseline.sightline",
        24,
    ),
    Stop(
        "Where is that from?",
        "Every number is in a table: these parts add up to the window, to the nanosecond. "
        "Any table can be had as csv, json or parquet with --format.",
        "sightline stats host_breakdown data-loading/recorded/baseline.sightline",
    ),
    Stop(
        "Why should I believe it?",
        "Each rule has a page: what it looks for, its threshold and where that comes from, and "
        "when it is wrong.",
        "sightline explain host-loading",
    ),
    Stop(
        "Did the fix help?",
        "The same loop was recorded again with a worker that loads the data. A comparison says "
        "whether the difference is real, and where it comes from.",
        "sightline compare data-loading/recorded/baseline.sightline "
        "data-loading/recorded/improved.sightline",
        30,
    ),
    Stop(
        "Was the estimate right?",
        "The lab has programs that are slow for one reason each. The gain that the slow "
        "program's report estimates is shown next to the gain of the fix, measured without a "
        "profiler.",
        "sightline lab run data-loading --kept",
    ),
    Stop(
        "And on a GPU?",
        "The bar is the GPU's time now: compute, communication and copies that nothing overlaps, "
        "idle. This recording is simulated, so that its cause is known: too few loader workers.",
        "sightline gpu-data-loading/recorded/baseline.json.gz",
        24,
    ),
    Stop(
        "What would another change bring?",
        "Before a change is made, a replay of the recording with it says what it is worth: here "
        "kernels twice as fast, on a GPU that waits for its data.",
        "sightline whatif gpu-data-loading/recorded/baseline.json.gz --scale 'kernel:.*=0.5'",
    ),
    Stop(
        "And what no report asks?",
        "The tables are open: SQL reads them.",
        "sightline sql data-loading/recorded/baseline.sightline "
        "\"SELECT name, count(*) AS calls FROM host_ops WHERE layer = 'op' GROUP BY ALL "
        'ORDER BY calls DESC LIMIT 5"',
    ),
    Stop(
        "And many processes?",
        "The same work on one, two and four processes of a machine with two CPUs. Each factor is "
        "1 where nothing is lost: computation to slower work, balance to uneven work, "
        "serialization to waiting for each other, transfer to messages.",
        "sightline scaling scaling-on-cpus/recorded/baseline-1.sightline "
        "scaling-on-cpus/recorded/baseline-2.sightline "
        "scaling-on-cpus/recorded/baseline-4.sightline",
    ),
)
END = """\
That is all. Now your own program:

  sightline run -- python train.py    record a program, and say why it is slow
  sightline trace.json.gz             read what another profiler recorded
  sightline lab                       more programs to find the cause in
  sightline doctor                    what can be recorded on this machine
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--no-wait", action="store_true", help="do not wait for Enter")


def run(args: argparse.Namespace) -> int:
    from sightline.lab.exercises import find_lab

    waits = not args.no_wait and sys.stdin.isatty() and sys.stdout.isatty()
    lab = find_lab()
    print(f"The recordings lie in {lab}; the commands are run there.\n")
    for number, stop in enumerate(STOPS, 1):
        print(f"{number} of {len(STOPS)}  {stop.title}\n")
        print(textwrap.fill(stop.text, 78), end="\n\n")
        _run_command(stop, lab)
        if waits and not _goes_on():
            return 0
    print(END, end="")
    return 0


def _run_command(stop: Stop, lab: Path) -> None:
    """Print the command as it would be typed, and what it prints, cut where that says enough."""
    import subprocess

    lines = textwrap.wrap(stop.command, 74, break_long_words=False, break_on_hyphens=False)
    print("  $ " + " \\\n      ".join(lines), end="\n\n", flush=True)
    width = min(os.get_terminal_size().columns or 80, 100) if sys.stdout.isatty() else 80
    done = subprocess.run(  # noqa: S603  # our own command line, on our own recordings
        [sys.executable, "-m", *shlex.split(stop.command)],
        capture_output=True,
        cwd=lab,
        text=True,
        env={**os.environ, "COLUMNS": str(width)},
        check=False,
    )
    if done.returncode not in (0, 1):  # 1 is a verdict
        sys.stderr.write(done.stderr)
    said = done.stdout.splitlines()
    for line in said[: stop.lines]:
        print(line.rstrip())
    if stop.lines is not None and len(said) > stop.lines:
        print(f"… and {format_several(len(said) - stop.lines, 'line')} more")
    print()


def _goes_on() -> bool:
    try:
        return input("Enter goes on, q ends: ").strip().lower() not in ("q", "quit")
    except EOFError:
        return False
