"""The window if some work were faster or gone: the dependency graph, replayed.

sightline whatif trace.json --remove 'memcpy:HtoD'
sightline whatif trace.json --scale 'kernel:flash.*=0.5' --scale 'comm:.*=0.8'
sightline whatif trace.json --remove 'think:DataLoader'   host time in ranges
sightline whatif trace.json --remove 'call:Synchronize'   calls that wait

Kinds: kernel, comm, memcpy, memset, graph, op, call, think. PATTERN: a regex.
"""

from __future__ import annotations

import argparse

from sightline.doors.cli._shared import add_recordings, open_recordings

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
    parser.add_argument("--json", action="store_true", help="print as data")


def run(args: argparse.Namespace) -> int:
    import json

    from sightline.core.units import format_count, format_ns, format_pct
    from sightline.errors import RequestError
    from sightline.replay.whatif import parse_wish, replay_wishes, select_nodes

    wishes = [parse_wish(text, scale=True) for text in args.scale]
    wishes += [parse_wish(text, scale=False) for text in args.remove]
    if not wishes:
        raise RequestError(
            "nothing was asked for", hint="Add  --scale 'kernel:gemm=0.5'  or  --remove memcpy:HtoD"
        )
    run = open_recordings(args)
    nodes = run.ask("dependencies")
    counts = [int(select_nodes(run, wish, nodes).sum()) for wish in wishes]
    for wish, count in zip(wishes, counts, strict=True):
        if not count:
            raise RequestError(f"'{wish.text}' matches nothing in this recording")
    result, most = replay_wishes(run, wishes)
    saved = result.before_ns - result.after_ns
    pct = 100 * saved / max(result.before_ns, 1)
    if args.json:
        data = {
            "window_ns": result.before_ns,
            "new_window_ns": result.after_ns,
            "saved_ns": saved,
            "saved_pct": pct,
            "most_saved_ns": most.before_ns - most.after_ns,
            "changes": [
                {"selector": w.text, "factor": w.factor, "matched": n}
                for w, n in zip(wishes, counts, strict=True)
            ],
        }
        print(json.dumps(data, indent=1, ensure_ascii=False))
        return 0
    for wish, count in zip(wishes, counts, strict=True):
        print(f"{wish.text}  matches {format_count(count)}")
    word = "shorter" if saved >= 0 else "longer"
    print(
        f"window {format_ns(result.before_ns)} → {format_ns(result.after_ns)}  "
        f"({format_ns(abs(saved))}, {format_pct(abs(pct))} {word})"
    )
    if most.after_ns != result.after_ns:
        print(
            f"or up to {format_ns(most.after_ns)}: if operations waited for others as their times "
            "suggest; no wait was recorded"
        )
    return 0
