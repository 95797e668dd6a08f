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
from typing import TYPE_CHECKING

from sightline.doors.cli._output import add_target, encode_json, wants_json
from sightline.doors.cli._shared import add_recordings, open_recordings
from sightline.doors.cli._whatif_server import add_arguments as add_server_arguments

if TYPE_CHECKING:
    from sightline.core.model.declare import Finding
    from sightline.core.model.run import Run

# Shares of two windows that differ by less are of one, which is rounded (ours).
_SAME_PCT = 0.01

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
    from sightline.core.units import format_count, format_ns, format_pct
    from sightline.doors.cli._whatif_server import answer_server, asks_server

    if asks_server(args):
        return answer_server(args)
    if _names_finding(args):
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


def _names_finding(args: argparse.Namespace) -> bool:
    """Whether --remove names a finding, or idle time by its cause, and nothing else is asked."""
    from sightline.core import registry

    if len(args.remove) != 1 or args.scale:
        return False
    (word,) = args.remove
    return word.startswith("idle:") or word.replace("-", "_") in registry.list_names("rules")


def _find_rule(run: Run, word: str) -> str:
    """The rule of that name, or the one that speaks for most of the idle time of that cause."""
    import polars as pl

    from sightline.core import registry
    from sightline.errors import RequestError

    if not word.startswith("idle:"):
        return str(registry.load("rules", word.replace("-", "_")).RULE.name)
    parts = run.ask("idle_rules")
    mine = parts.filter(pl.col("cause") == word.removeprefix("idle:"))
    if mine.is_empty():
        known = parts.get_column("cause").unique().sort().to_list()
        raise RequestError(
            f"no idle time is '{word.removeprefix('idle:')}'", why=f"there is {', '.join(known)}"
        )
    sums = mine.group_by("rule").agg(pl.col("duration_ns").sum()).sort("duration_ns", "rule")
    cause = sums.item(-1, "rule")
    rules = (module.RULE for _, module in registry.load_members("rules"))
    return str(next((rule.name for rule in rules if cause in rule.causes), cause))


def _answer_finding(args: argparse.Namespace) -> int:
    """What the report says of the finding: one question has one answer."""
    from sightline.answer.price_words import write_price
    from sightline.core.units import format_ns
    from sightline.errors import RequestError

    opened = open_recordings(args)
    tag = _find_rule(opened, args.remove[0])
    findings = [f for f in opened.findings() if not f.abstained]
    mine = [f for f in findings if f.rule == tag]
    if not mine:
        known = ", ".join(dict.fromkeys(f.rule for f in findings))
        raise RequestError(
            f"{tag} is not a finding of this recording",
            why=f"it has {known}" if known else "it has none",
        )
    if wants_json(args):
        rows = [
            {
                "rule": f.rule,
                "title": f.title,
                "saved": f.gain and f.gain._asdict(),
                "method": f.method,
                **_describe_window(opened, f),
            }
            for f in mine
        ]
        print(encode_json(rows).decode(), end="")
        return 0
    breakdown = opened.ask("breakdown").to_dicts() if opened.rows("device_ops") else []
    for finding in mine:
        print(f"without  {finding.title} ({finding.rule})")
        print(f"  {' · '.join(write_price(finding.to_dict(), breakdown))}")
        window = _describe_window(opened, finding)
        if window:
            before, after = map(format_ns, window.values())
            print(f"  window {before} → at least {after}")
        if finding.method:
            print(f"  by {finding.method}")
    return 0


def _describe_window(run: Run, finding: Finding) -> dict[str, int]:
    """The window now, and without what the finding could save, ns; empty where it is of none.

    Where the recorder took much of it, both are without the recorder, as gains are.
    """
    from sightline.core.registry import OF_WINDOW
    from sightline.diagnosis.price import share_of
    from sightline.timeline.host_parts import find_longest_window
    from sightline.timeline.segments import select_repeating

    gain = finding.gain
    if gain is None or gain.unit != "ns" or not gain.pct or share_of(finding.rule) != OF_WINDOW:
        return {}
    window = find_longest_window(select_repeating(run))
    if window is None or abs(100 * gain.amount / window - gain.pct) > _SAME_PCT:
        window = round(100 * gain.amount / gain.pct)
    return {"window_ns": window, "new_window_ns": max(window - round(gain.amount), 0)}
