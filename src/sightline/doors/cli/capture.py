"""Record all ranks of a running job from one moment on; say who is slow and why.

sightline capture --who                       who can be recorded
sightline capture                             2 s of all on this node
sightline capture --job 4711 --steps 3        three steps of a job's ranks
sightline capture --pids 4242,4243            these processes of this node
sightline capture --hosts 'node[01-16]' --token-file T --ca ca.pem
sightline capture --hosts slurm               the nodes of this job

Every node runs  sightline daemon, and the job was started with
KINETO_USE_DAEMON=1. Nodes reduce their ranks to kilobytes and keep the traces;
those of the worst ranks come along. Leaves capture.sightline, which
sightline ranks  and all other commands open.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from sightline.capture.asking import Direct, Tree
    from sightline.capture.controller import Asked, Outcome, Wanted

HELP = "record all ranks of a running job in step, and say who is slow"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--job", metavar="ID", help="only ranks of this job (listed by --who)")
    parser.add_argument("--ranks", metavar="N,...", help="only these ranks")
    parser.add_argument("--pids", metavar="N,...", help="only these processes")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--for", dest="length", metavar="T", help="record for this time (2s)")
    length.add_argument(
        "--steps", type=int, default=0, metavar="N", help="how many optimizer steps to record"
    )
    parser.add_argument(
        "--align",
        type=int,
        default=100,
        metavar="N",
        help="--steps begin at a multiple of this step number (100); choose more than a job does "
        "in 5 s, so that all ranks begin with the same step",
    )
    parser.add_argument("--stacks", action="store_true", help="record Python stacks, too (slower)")
    parser.add_argument(
        "--memory", action="store_true", help="record every allocation, too (slower)"
    )
    parser.add_argument("--no-shapes", action="store_true", help="do not record the inputs' shapes")
    parser.add_argument(
        "--warm-up", metavar="T", help="warm-up of the profiler (5s; 0s without GPUs)"
    )
    parser.add_argument(
        "--hosts",
        metavar="HOSTS",
        help="node[01-16],login1:9477; slurm; or dns:NAME, all hosts behind a name, such as a "
        "headless Kubernetes service",
    )
    parser.add_argument(
        "--host-file", metavar="FILE", help="file of hosts, one per line, as for MPI"
    )
    parser.add_argument(
        "--socket",
        action="append",
        default=[],
        metavar="FILE",
        help="socket of a daemon on this node",
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="the daemons' token (or SIGHTLINE_TOKEN)"
    )
    parser.add_argument("--ca", metavar="FILE", help="CA that signed the daemons' certificates")
    parser.add_argument(
        "--plain", action="store_true", help="without TLS: only to 127.0.0.1 or through a tunnel"
    )
    parser.add_argument(
        "--fan-out",
        type=int,
        metavar="N",
        help="have one daemon of each N nodes ask the others (32 past 500 nodes; 0: none does)",
    )
    parser.add_argument(
        "--traces", choices=("worst", "all", "none"), default="worst", help="which traces to fetch"
    )
    parser.add_argument(
        "--fire", metavar="TRIGGER", help="fire this trigger of the daemons, and exit"
    )
    parser.add_argument("--who", action="store_true", help="list what can be recorded, and exit")
    parser.add_argument("-o", "--output", metavar="DIR", help="the run's folder")
    parser.add_argument("--json", action="store_true", help="print as JSON")


def run(args: argparse.Namespace) -> int:
    import contextlib

    from sightline.capture.addresses import Places, list_addresses
    from sightline.capture.asking import choose_asker
    from sightline.capture.client import Client
    from sightline.capture.controller import look_around
    from sightline.capture.signing import read_token

    places = Places(args.hosts, args.host_file, tuple(args.socket), args.ca, args.plain)
    is_far = bool(args.hosts or args.host_file)
    token = read_token(args.token_file) if is_far else None
    wanted = _read_wanted(args)
    with contextlib.ExitStack() as stack:
        clients = [Client(address) for address in list_addresses(places, token)]
        for client in clients:
            stack.callback(client.close)
        asker = choose_asker(clients, args.fan_out, _say)
        nodes = look_around(clients, asker)
        if args.fire:
            return _fire(asker, nodes, args.fire)
        if args.who:
            return _list(nodes, args)
        return _capture(args, asker, nodes, wanted)


def _read_wanted(args: argparse.Namespace) -> Wanted:
    from sightline.capture.controller import Wanted
    from sightline.capture.request import CaptureRequest, find_problem
    from sightline.core.units import parse_duration_ns
    from sightline.errors import RequestError

    ranks = _read_numbers("--ranks", args.ranks, "ranks")
    pids = _read_numbers("--pids", args.pids, "processes")
    words = [*(w for w in ("memory", "stacks") if getattr(args, w))]
    words += [] if args.no_shapes else ["shapes"]
    wanted = Wanted(
        args.job,
        ranks,
        parse_duration_ns(args.length) / 1e9 if args.length else 2.0,
        args.steps,
        args.align,
        tuple(words),
        parse_duration_ns(args.warm_up) / 1e9 if args.warm_up else None,
        args.traces,
        pids,
    )
    problem = find_problem(
        CaptureRequest(
            "0" * 16, 0, wanted.seconds, wanted.warm_up_s or 0.0, None, (), wanted.steps,
            wanted.align, wanted.wanted,
        )
    )  # fmt: skip
    if problem is not None:
        raise RequestError("this capture is not valid", why=problem)
    return wanted


def _read_numbers(option: str, given: str | None, what: str) -> tuple[int, ...]:
    from sightline.errors import RequestError

    texts = [text.strip() for text in given.split(",")] if given else []
    if not all(text.isascii() and text.isdecimal() and len(text) < 10 for text in texts):
        raise RequestError(f"{option} {given} are not {what}", hint=f"Write  {option} 0,7")
    return tuple(map(int, texts))


def _fire(asker: Direct | Tree, nodes: list[Asked], name: str) -> int:
    """Fire a trigger on each node. Raises RequestError where one is not armed."""
    import re

    from sightline.capture.asking import take_first
    from sightline.capture.relay import Question
    from sightline.errors import InputError, RequestError

    if not re.fullmatch("[a-z-]{1,40}", name):
        raise RequestError(f"'{name}' is not the name of a trigger")
    for node in nodes:
        if node.problem:
            raise InputError(node.problem)
    question = (Question("POST", f"/v1/triggers/{name}"),)
    for node, found in zip(nodes, asker.ask([(n.client, question) for n in nodes]), strict=True):
        told = take_first(node.client.address.name, found)
        if isinstance(told, Exception):
            raise told
    return 0


def _list(nodes: list[Asked], args: argparse.Namespace) -> int:
    import json

    from sightline.errors import InputError
    from sightline.views.terminal.capture_screen import describe_nodes, draw_nodes

    if all(node.problem for node in nodes):
        raise InputError(nodes[0].problem or "no node answers")
    data = describe_nodes(nodes)
    print(json.dumps(data, indent=1) if args.json else "\n".join(draw_nodes(nodes)))
    return 0


def _capture(
    args: argparse.Namespace, asker: Direct | Tree, nodes: list[Asked], wanted: Wanted
) -> int:
    from sightline.capture.controller import capture
    from sightline.doors.cli._recorded import (
        hold_made,
        make_folder,
        name_folder,
        remove_recording,
    )
    from sightline.errors import InputError

    folder = make_folder(name_folder(args.output, "capture"), chosen=args.output is not None)
    is_whole = False
    with hold_made(folder) as held:
        try:
            outcome = capture(nodes, wanted, held, _say, asker)
            is_whole = outcome.answer is not None or bool(outcome.files)
        finally:
            if not is_whole:
                remove_recording(held, folder)
    if not is_whole:
        raise InputError("nothing was recorded", why="; ".join(outcome.problems[:3]) or None)
    return _show(args, outcome, folder)


def _show(args: argparse.Namespace, outcome: Outcome, folder: Path) -> int:
    import json
    import sys

    from sightline.capture.controller import describe_outcome
    from sightline.doors.cli._recorded import name_again, print_report, show_folder
    from sightline.fleet.job import LEAST_PEERS
    from sightline.views.comparison.ranks import describe_ranks, write_screen
    from sightline.views.terminal.capture_screen import draw_outcome

    answer = outcome.answer
    is_compared = answer is not None and len(answer.job.ranks) >= LEAST_PEERS
    if args.json:
        ranks = None if answer is None else describe_ranks(answer)
        print(json.dumps({**describe_outcome(outcome), "ranks": ranks}, indent=1))
        return 0
    print("\n".join(draw_outcome(outcome)) + "\n")
    if answer is not None and is_compared:
        print(write_screen(answer))
        print(
            f"\nTo see it again, or for more:  sightline ranks {show_folder(folder)}",
            file=sys.stderr,
        )
    elif outcome.files:  # of two ranks none is the usual one: what each of them does says more
        print_report(folder, sys.stdout)
        print(f"\nTo see it again, or for more:  {name_again(folder)}", file=sys.stderr)
    return 0


def _say(text: str) -> None:
    import sys

    print(f"sightline: {text}", file=sys.stderr, flush=True)
