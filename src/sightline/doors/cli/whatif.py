"""The window if some work were faster or gone; a server at other flags and loads.

sightline whatif trace.json --remove 'memcpy:HtoD'
sightline whatif trace.json --scale 'kernel:flash.*=0.5' --scale 'comm:.*=0.8'
sightline whatif trace.json --remove 'cpu:DataLoader'   CPU time in ranges
sightline whatif trace.json --remove 'call:Synchronize'   calls that wait
sightline whatif trace.json --remove dataloader-starved   what a finding names
sightline whatif trace.json client.json --max-num-seqs 64 --load 2   of vLLM

Kinds: kernel, comm, memcpy, memset, graph, op, call, cpu. PATTERN: a regex.
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._output import add_target, encode_json, wants_json
from sightline.doors.cli._shared import add_recordings, open_recordings
from sightline.doors.cli._whatif_server import add_arguments as add_server_arguments

HELP = "the new step time if some work were faster or gone"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument(
        "--scale",
        action="append",
        default=[],
        metavar="KIND:PATTERN=FACTOR",
        help="work takes FACTOR times as long",
    )
    parser.add_argument(
        "--remove",
        action="append",
        default=[],
        metavar="KIND:PATTERN",
        help="work, its launch calls and the waits for it are gone",
    )
    add_server_arguments(parser)
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    add_target(parser)


def run(args: argparse.Namespace) -> int:
    from sightline.answer.what_if_finding import names_finding
    from sightline.core.units import format_count, format_ns, format_pct
    from sightline.doors.cli._whatif_server import answer_server, asks_server

    if asks_server(args):
        return answer_server(args)
    if names_finding(args.scale, args.remove):
        return _answer_finding(args)
    data = open_recordings(args).what_if(scale=args.scale, remove=args.remove)
    if wants_json(args):
        print(encode_json(data).decode(), end="")
        return 0
    for change in data["changes"]:
        print(f"{change['selector']}  matches {format_count(change['matched'])}")
    before, saved, most = data["window_ns"], data["saved_ns"], data["most_saved_ns"]
    word = "shorter" if saved >= 0 else "longer"
    print(
        f"window {format_ns(before)} → {format_ns(data['new_window_ns'])}  "
        f"({format_ns(abs(saved))}, {format_pct(abs(data['saved_pct']))} {word})"
    )
    if most != saved:
        print(
            f"or up to {format_ns(before - most)}: if operations waited for others as their times "
            "suggest; no wait was recorded"
        )
    return 0


def _answer_finding(args: argparse.Namespace) -> int:
    """What the report says of the finding: one question has one answer."""
    from sightline.answer.price_words import write_price
    from sightline.answer.what_if_finding import (
        describe_findings,
        describe_window,
        select_findings,
    )
    from sightline.core.units import format_ns

    opened = open_recordings(args)
    mine = select_findings(opened, opened.findings(), args.remove[0])
    if wants_json(args):
        print(encode_json(describe_findings(opened, mine)).decode(), end="")
        return 0
    breakdown = opened.ask("breakdown").to_dicts() if opened.rows("device_ops") else []
    for finding in mine:
        print(f"without  {finding.title} ({finding.rule})")
        print(f"  {' · '.join(write_price(finding.to_dict(), breakdown))}")
        window = describe_window(opened, finding)
        if window:
            before, after = map(format_ns, window.values())
            print(f"  window {before} → at least {after}")
        if finding.method:
            print(f"  by {finding.method}")
    return 0
