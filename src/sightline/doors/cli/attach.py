"""Record a program that already runs, without restarting it.

sightline attach                       which programs can be recorded
sightline attach 4242                  5 s of one process and what it started
sightline attach 4242 4243 --for 10s   several, over the same time
sightline attach 4242 --stacks         with Python stacks (slower)
sightline attach 4242 --samples        with CPU stacks of all its threads, too
sightline attach --jax 9012,9013       programs that serve JAX's profiler

A PyTorch program must have been started with KINETO_USE_DAEMON=1: its own
profiler then asks for orders every 5 s. ROCm: with ROCP_TOOL_ATTACH=1. JAX:
it called jax.profiler.start_server(9012).
Leaves attach.sightline, which every command opens. Which GPU calls any other
program makes:  sightline probe --pid P
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sightline.record.collect.attach import Opening

HELP = "record a program that already runs"
_HZ = 99  # sampling.events.HZ, which is not imported for a help text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pid", nargs="*", type=int, metavar="PID", help="these processes and their children"
    )
    parser.add_argument("--for", dest="length", metavar="T", help="record for this time (5s)")
    parser.add_argument(
        "--backend",
        choices=("torch", "rocprofv3"),
        help="use only this method; default: whatever each process allows",
    )
    parser.add_argument(
        "--jax", metavar="PORT,...", help="programs whose JAX serves its profiler at these ports"
    )
    parser.add_argument(
        "--stacks", action="store_true", help="PyTorch, JAX: Python stacks (slower)"
    )
    parser.add_argument("--memory", action="store_true", help="PyTorch: every allocation (slower)")
    parser.add_argument(
        "--no-shapes", action="store_true", help="PyTorch: do not record the inputs' shapes"
    )
    parser.add_argument(
        "--samples",
        nargs="?",
        type=int,
        const=_HZ,
        metavar="HZ",
        help=f"sample the threads' CPU stacks, too ({_HZ} times a second of CPU time)",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help="the run's folder")
    parser.add_argument("--no-report", action="store_true", help="only record")


def run(args: argparse.Namespace) -> int:
    from sightline.core.units import parse_duration_ns
    from sightline.doors.cli._recorded import (
        hold_made,
        make_folder,
        name_again,
        name_folder,
        print_report,
        remove_empty,
        remove_recording,
    )
    from sightline.errors import InputError, RequestError
    from sightline.record.collect.attach import SECONDS, record_processes
    from sightline.record.collect.frameworks import MAX_TORCH_S
    from sightline.record.sampling.events import check_rate

    if not args.pid and not args.jax:
        return _list(args)
    seconds = parse_duration_ns(args.length) / 1e9 if args.length else SECONDS
    if not 0.1 <= seconds <= MAX_TORCH_S:
        raise RequestError(
            f"--for {args.length} is not a valid value",
            why=f"a profiler keeps what it sees in memory: 100ms to {MAX_TORCH_S:g}s",
        )
    if args.samples is not None:
        check_rate("--samples", args.samples)
    openings = _choose_openings(args)
    folder = make_folder(name_folder(args.output, "attach"), chosen=args.output is not None)
    for opening in openings:
        print(f"  {opening.pid:<8}{opening.backend or 'no':<11}{opening.why}", file=sys.stderr)
    wanted = [w for w in ("stacks", "memory") if getattr(args, w)]
    wanted += [] if args.no_shapes else ["shapes"]
    with hold_made(folder) as held:
        try:
            outcome = record_processes(openings, held, seconds, wanted, _say, hz=args.samples)
        except BaseException:
            remove_empty(folder)
            raise
        if not outcome.files:
            remove_recording(held, folder)
    if not outcome.files:
        raise InputError("nothing was recorded", why="; ".join(outcome.problems) or None)
    for problem in outcome.problems:
        print(f"  !  {problem}", file=sys.stderr)
    if not args.no_report:
        print_report(folder, sys.stdout)
    print(f"\nTo see it again, or for more:  {name_again(folder)}", file=sys.stderr)
    return 0


def _choose_openings(args: argparse.Namespace) -> Sequence[Opening]:
    """How the processes can be recorded. Raises RequestError where none of them can be."""
    import psutil

    from sightline.errors import RequestError
    from sightline.record.collect.attach import list_openings, open_servers
    from sightline.record.collect.jax_door import read_ports

    for pid in args.pid:
        if not psutil.pid_exists(pid):
            raise RequestError(f"there is no process {pid}")
    openings = list_openings(args.pid, args.backend)
    if args.jax:
        openings += open_servers(read_ports(args.jax))
    if any(opening.backend for opening in openings):
        return openings
    whys = "; ".join(dict.fromkeys(o.why for o in openings if o.why))
    first = args.pid[0]
    raise RequestError(
        "there is no profiler to switch on in "
        + (f"process {first}" if len(args.pid) == 1 else "these processes"),
        why=whys or "it uses neither PyTorch's profiler nor ROCm",
        hint=f"The GPU calls that it makes:  sightline probe --pid {first} --samples\n"
        "To record it next time, start it with:  KINETO_USE_DAEMON=1 (PyTorch), "
        "ROCP_TOOL_ATTACH=1 (ROCm)",
    )


def _list(args: argparse.Namespace) -> int:
    """Every process that could be recorded, or why not; exit code 0 though there is none."""
    import os
    import shlex

    import psutil

    from sightline.record.collect.attach import list_openings

    pids = [pid for pid in psutil.pids() if pid != os.getpid()]
    openings = [o for o in list_openings(pids, args.backend) if _is_of_interest(o)]
    for o in openings:
        command = shlex.join(o.command)
        print(f"{o.pid:<8} {o.backend or 'no':<10} {command[:58]}")
        if o.backend is None:
            print(f"{'':<20}{o.why}")
    if not openings:
        print("No process here uses PyTorch or ROCm.")
    return 0


def _is_of_interest(opening: Opening) -> bool:
    """Not one of the many of which nothing is known but that they are another user's."""
    return opening.backend is not None or (bool(opening.why) and "another user" not in opening.why)


def _say(text: str) -> None:
    print(f"sightline: {text}", file=sys.stderr, flush=True)
