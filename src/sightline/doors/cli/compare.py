"""Before and after: what changed, by how much, is it real, and why.

sightline compare before.json after.json
sightline compare --before a1 a2 a3 --after b1 b2 b3      several runs a side
sightline compare before after -o diff.html               also .md, .json
sightline compare before after --fail-on 'step_ns > 3%'   exit 1, for CI
sightline compare --calibrate floor.json run1 run2 run3   how equal runs differ
sightline compare before after --floor floor.json         judged by that
sightline compare v1 v2 v3 v4                             a trend
sightline compare --self-test trace.json                  a run against itself

Each path is a run. Ranks of one job belong together, also as a folder or glob
in quotes: 'rank*.json'.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sightline.doors.cli._output import (
    add_output,
    choose_format,
    deliver,
    encode_json,
    refuse_inputs,
    write_file,
)
from sightline.doors.cli._shared import GATE_FAILED, add_reading

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.text import Text

    from sightline.compare.floor import StoredFloor
    from sightline.compare.sample import Sample

HELP = "before and after: what changed, by how much, is it real, and why"
FORMATS = ("text", "json", "markdown", "sarif", "html")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recordings", nargs="*", metavar="RECORDING", help="BEFORE and AFTER")
    parser.add_argument("--before", nargs="+", metavar="RUN", help="several runs of the one side")
    parser.add_argument("--after", nargs="+", metavar="RUN", help="several runs of the other side")
    parser.add_argument(
        "--window",
        metavar="W",
        help="step:N, or a range such as 10ms..25ms; steady: also steps that were detected with "
        "low confidence; default: all steps but the first, where they are sure",
    )
    parser.add_argument("--floor", metavar="FILE", help="what --calibrate wrote")
    parser.add_argument(
        "--calibrate",
        metavar="FILE",
        help="write how much the given runs of the same program differ",
    )
    parser.add_argument(
        "--same-workload",
        action="store_true",
        help="both sides do the same work, though their operators' shapes differ",
    )
    parser.add_argument(
        "--self-test",
        action="store_true",
        help="compare both halves of each recording, of which nothing changed",
    )
    parser.add_argument(
        "--no-findings", action="store_true", help="do not ask which problems are fixed or new"
    )
    add_output(parser, FORMATS)
    parser.add_argument(
        "--fail-on",
        metavar="CONDITION",
        action="append",
        default=[],
        dest="fail_on",
        help="exit 1 if this is so: 'step_ns > 3%%', 'kernel:PATTERN > 50us', 'launches > 0', "
        "'peak_memory > 5%%', slower or inconclusive; always where the sides are not comparable; "
        "may be given several times",
    )
    add_reading(parser)


def run(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    if args.calibrate is not None:
        return _calibrate(args)
    if args.self_test:
        return _test_self(args)
    from sightline.compare.gate import judge_gate, parse_gate
    from sightline.errors import MissingDataError

    form = choose_format(args)
    if len(args.recordings) > 2 and not (args.before or args.after):
        return _show_trend(args, form)
    gates = [parse_gate(text) for text in args.fail_on]
    before, after = _list_sides(args)
    inputs = [*before, *after, *([args.floor] if args.floor else [])]
    if args.output is not None:
        refuse_inputs([Path(args.output)], inputs)
    try:
        data, sides = _compare(args, before, after)
    except MissingDataError:
        # No timeline: reports of a kernel profiler, or of an allocator?
        if not _show_without_timeline(args, before, after, form):
            raise
        return 0
    from sightline.views.comparison.comparison import render_comparison

    render = (lambda width: render_comparison(data, width)) if form == "text" else None
    deliver(args.output, inputs, lambda: _encode(data, form, sides), render)
    failed = [why for gate in gates if (why := judge_gate(gate, data)) is not None]
    for why in failed:
        print(f"gate failed: {why}", file=sys.stderr)
    return GATE_FAILED if failed else 0


def _list_sides(args: argparse.Namespace) -> tuple[list[str], list[str]]:
    from sightline.errors import RequestError

    if args.before or args.after:
        if not (args.before and args.after) or args.recordings:
            raise RequestError(
                "one side is missing" if not args.recordings else "a path belongs to no side",
                hint="sightline compare --before RUN RUN --after RUN RUN",
            )
        return list(args.before), list(args.after)
    if len(args.recordings) != 2:
        given = "one was" if args.recordings else "none was"
        raise RequestError(
            f"compare takes two recordings, and {given} given",
            hint="Two runs:      sightline compare BEFORE AFTER\n"
            "Several a side: sightline compare --before RUN RUN --after RUN RUN",
        )
    return args.recordings[:1], args.recordings[1:]


def _open(args: argparse.Namespace, paths: list[str]) -> list[Sample]:
    import sys

    from sightline.compare.sides import open_side
    from sightline.core.model.declare import ImportOptions
    from sightline.doors.cli._progress import Progress

    options = ImportOptions(keep_identity=args.keep_identity)
    with Progress(sys.stderr) as progress:
        return open_side(paths, window=args.window, options=options, progress=progress)


def _compare(
    args: argparse.Namespace, before: list[str], after: list[str]
) -> tuple[dict[str, Any], list[list[Sample]]]:
    from sightline.compare.common_steps import take_common_steps
    from sightline.compare.comparison import compare_samples
    from sightline.compare.findings import compare_findings
    from sightline.compare.verdict import NOT_COMPARABLE

    stored = _read_floor(args)
    sides = [*take_common_steps(_open(args, before), _open(args, after))]
    _check_floor(stored, [sample for side in sides for sample in side])
    data = compare_samples(
        sides[0],
        sides[1],
        stored.floor if stored else None,
        same_workload=args.same_workload,
    )
    one, other = sides[0][0], sides[1][0]
    if not args.no_findings and one.run is not None and other.run is not None:
        from sightline.session import Session

        found = [Session.of(run).report()["findings"] for run in (one.run, other.run)]
        data["findings"] = compare_findings(
            one,
            other,
            (found[0], found[1]),
            is_comparable=data["verdict"]["word"] != NOT_COMPARABLE,
        )
    return data, sides


def _show_without_timeline(
    args: argparse.Namespace, before: list[str], after: list[str], form: str
) -> bool:
    """Compare two kernel profiles, memory recordings or a server's loads; whether they are such."""
    from sightline.compare.kernel_profiles import compare_profiles, has_profiles
    from sightline.compare.memory_peaks import compare_peaks, has_memory_only
    from sightline.compare.server_load import compare_loads, has_load_only
    from sightline.errors import RequestError
    from sightline.opening.run import open_run
    from sightline.views.comparison.kernel_profiles import render_profiles
    from sightline.views.comparison.load_comparison import render_loads
    from sightline.views.comparison.memory_comparison import render_peaks

    runs = [open_run(paths) for paths in (before, after)]
    if all(map(has_profiles, runs)):
        what, why = "kernel profiles", "each kernel was measured once"
        compare, render = compare_profiles, render_profiles
    elif all(map(has_memory_only, runs)):
        what, why = "memory recordings", "they have no timeline"
        compare, render = compare_peaks, render_peaks
    elif all(map(has_load_only, runs)):
        what, why = "loads of a server", "they have no timeline"
        compare, render = compare_loads, render_loads
    else:
        return False
    if form not in ("text", "json") or args.fail_on:
        raise RequestError(f"{what} are compared as text and json, and have no gate", why=why)
    _deliver_data(args, [*before, *after], form, compare(*runs), render)
    return True


def _show_trend(args: argparse.Namespace, form: str) -> int:
    from sightline.errors import RequestError
    from sightline.history.trend import compare_trend
    from sightline.views.comparison.trend import render_trend

    if form not in ("text", "json"):
        raise RequestError(f"a trend has no format '{form}'", why="it has text and json")
    if args.fail_on:
        raise RequestError("a gate needs two sides", hint="--before RUN RUN --after RUN RUN")
    floor, samples = _read_floor(args), _open(args, args.recordings)
    _check_floor(floor, samples)
    data = compare_trend(samples, floor.floor if floor else None)
    _deliver_data(args, args.recordings, form, data, render_trend)
    return 0


def _deliver_data(
    args: argparse.Namespace,
    inputs: Sequence[str],
    form: str,
    data: dict[str, Any],
    render: Callable[..., Text],
) -> None:
    """An answer that has two forms: a screen, and data."""

    def write() -> bytes:
        return encode_json(data) if form == "json" else f"{render(data).plain}\n".encode()

    screen = (lambda width: render(data, width)) if form == "text" else None
    deliver(args.output, inputs, write, screen)


def _read_floor(args: argparse.Namespace) -> StoredFloor | None:
    from pathlib import Path

    from sightline.compare.floor import read_floor

    return read_floor(Path(args.floor)) if args.floor else None


def _check_floor(stored: StoredFloor | None, samples: list[Sample]) -> None:
    from sightline.compare.floor import check_floor

    if stored is not None:
        check_floor(stored, samples)


def _encode(data: dict[str, Any], form: str, sides: list[list[Sample]]) -> bytes:
    if form == "json":
        return encode_json(data)
    if form == "sarif":
        from sightline.views.comparison.comparison_sarif import write_sarif

        return encode_json(write_sarif(data))
    if form == "markdown":
        from sightline.views.comparison.comparison_markdown import write_markdown

        return write_markdown(data).encode()
    if form == "html":
        from sightline.views.html.comparison import write_page

        return write_page(data, *sides)
    from sightline.views.comparison.comparison import render_comparison

    return (render_comparison(data).plain + "\n").encode()


def _calibrate(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.compare.floor import calibrate_floor
    from sightline.core.units import format_pct

    paths = [*args.recordings, *(args.before or ()), *(args.after or ())]
    refuse_inputs([Path(args.calibrate)], paths)
    found = calibrate_floor(_open(args, paths))
    write_file(Path(args.calibrate), encode_json(found), paths)
    print(
        f"{args.calibrate} written: {found['runs']} runs vary by {format_pct(found['spread_pct'])}",
        file=sys.stderr,
    )
    return 0


def _test_self(args: argparse.Namespace) -> int:
    import sys

    from sightline.compare.self_test import compare_halves
    from sightline.errors import RequestError
    from sightline.views.comparison.comparison import write_halves

    if not args.recordings:
        raise RequestError(
            "no recording is named", hint="sightline compare --self-test trace.json.gz"
        )
    rows = [compare_halves(sample) for sample in _open(args, args.recordings)]
    if args.json:
        sys.stdout.write(encode_json(rows).decode())
        return 0
    for row in rows:
        print(write_halves(row))
    return 0
