"""Runs over time: keep them, see when they became slower, and find the commit.

sightline history add run.sightline --label commit=$(git rev-parse HEAD)
sightline history show step_ns             the series, and its changes of level
sightline history show 'kernel:gemm' -o gemm.html
sightline history list                     the runs; --metrics: what is known
sightline history push pyroscope=http://127.0.0.1:4040
                                           windows to a server of profiles
sightline history bisect --good v1.0 --bad main -- python bench.py

It is a folder of Parquet files: sightline-history, or --history FOLDER.
"""

from __future__ import annotations

import argparse
from typing import Any

from sightline.doors.cli._output import (
    add_output,
    choose_format,
    deliver,
    encode_json,
    refuse_inputs,
)
from sightline.doors.cli._shared import GATE_FAILED, add_reading

HELP = "runs over time: when they became slower, and with which commit"
FORMATS = ("text", "json", "html")
_FOLDER = "sightline-history"
# What a person takes in, and what is searched for changes in 0.2 s; and what takes some seconds.
_LAST, _MOST = 200, 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", dest="action", required=True)
    add = _add_action(actions, "add", _add, "put runs into the history, each with its labels")
    add.add_argument("recordings", nargs="+", metavar="RUN", help="recordings or fingerprints")
    add.add_argument(
        "--label",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="such as commit=1a2b3c or machine=ci-3; may be given several times",
    )
    add.add_argument(
        "--time", metavar="T", help="when it ran, such as 2026-01-31T12:00, in UTC; default: now"
    )
    add.add_argument("--window", metavar="W", help="the part of each run, as for compare")
    add_reading(add)
    show = _add_action(actions, "show", _show, "a metric over time, and its changes of level")
    show.add_argument("metric", metavar="METRIC", help="step_ns, compute_ns, kernel:PATTERN …")
    show.add_argument("--last", type=int, default=_LAST, metavar="N", help=f"points ({_LAST})")
    show.add_argument(
        "--by",
        default="commit",
        metavar="KEY",
        help="label whose runs are one point (commit)",
    )
    show.add_argument(
        "--fail-on-change",
        action="store_true",
        help="exit with 1 if the last change of level was upward",
    )
    _add_where(show)
    add_output(show, FORMATS)
    listed = _add_action(actions, "list", _list, "the runs of the history, or its metrics")
    listed.add_argument(
        "--metrics", action="store_true", help="list the metrics that `show` can show"
    )
    listed.add_argument("--json", action="store_true", help="print as JSON")
    _add_where(listed)
    push = _add_action(
        actions, "push", _push, "pass the windows of a continuous profile to a server of profiles"
    )
    push.add_argument(
        "server", metavar="KIND=URL", help="otlp=, pyroscope= or parca=http://HOST:PORT"
    )
    push.add_argument("--job", metavar="ID", help="only windows of this job")
    push.add_argument("--since", metavar="T", help="only windows from then on, in UTC")
    push.add_argument("--last", type=int, metavar="N", help="only the last of them")
    bisect = _add_action(actions, "bisect", _bisect, "the commit that made a program slower")
    bisect.add_argument("--good", required=True, metavar="REV", help="a commit before the change")
    bisect.add_argument("--bad", required=True, metavar="REV", help="a commit after it")
    bisect.add_argument("--runs", type=int, default=3, metavar="N", help="runs of each commit (3)")
    bisect.add_argument(
        "--metric", default="step_ns", metavar="M", help="metric that changed (step_ns)"
    )
    bisect.add_argument(
        "--recording",
        metavar="PATH",
        help="recording that the command writes itself; default: sightline run records it",
    )
    bisect.add_argument("command", nargs=argparse.REMAINDER, help="what to run, after --")


def _add_action(actions: Any, name: str, run: Any, about: str) -> argparse.ArgumentParser:
    made: argparse.ArgumentParser = actions.add_parser(name, help=about, description=about)
    made.set_defaults(act=run)
    made.add_argument(
        "--history", default=_FOLDER, metavar="FOLDER", help=f"where it is kept ({_FOLDER})"
    )
    return made


def _add_where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="only runs with this label, or gpu=NAME; may be given several times",
    )


def run(args: argparse.Namespace) -> int:
    code: int = args.act(args)
    return code


def _parse_labels(given: list[str]) -> dict[str, str]:
    from sightline.errors import RequestError

    labels = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not (key and equals):
            raise RequestError(f"'{text}' is not a label", hint="Write it as  KEY=VALUE")
        labels[key] = value
    return labels


def _add(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.compare.sides import open_side
    from sightline.core.model.declare import ImportOptions
    from sightline.doors.cli._progress import Progress
    from sightline.history.history import add_run

    labels, added = _parse_labels(args.label), _parse_time(args.time)
    options = ImportOptions(keep_identity=args.keep_identity)
    with Progress(sys.stderr) as progress:
        samples = open_side(args.recordings, window=args.window, options=options, progress=progress)
    for sample in samples:
        run_id = add_run(Path(args.history), sample, labels, added)
        print(f"{sample.name} is run {run_id} of {args.history}", file=sys.stderr)
    return 0


def _parse_time(text: str | None) -> int:
    import datetime
    import time

    from sightline.errors import RequestError

    if text is None:
        return time.time_ns()
    try:
        when = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise RequestError(
            f"'{text}' is not a time", hint="Write it as  2026-01-31  or  2026-01-31T12:00"
        ) from None
    when = when if when.tzinfo else when.replace(tzinfo=datetime.UTC)
    return round(when.timestamp() * 1e6) * 1000


def _show(args: argparse.Namespace) -> int:
    from pathlib import Path

    from sightline.errors import RequestError
    from sightline.history.history import describe_series
    from sightline.views.comparison.history import render_series

    form = choose_format(args)
    if not 1 <= args.last <= _MOST:
        raise RequestError(
            f"--last {args.last} is not a valid value", why=f"it must be 1 to {_MOST}"
        )
    folder = Path(args.history)
    if args.output is not None:
        refuse_inputs([Path(args.output)], [args.history])
    where = _parse_labels(args.where)
    data = describe_series(folder, args.metric, where, args.by, args.last)
    render = (lambda width: render_series(data, width)) if form == "text" else None
    deliver(args.output, [args.history], lambda: _encode(data, form), render)
    changes = data["changes"]
    is_worse = any((c["ratio"] or 0) > 1 and not c["went_away"] for c in changes)
    return GATE_FAILED if args.fail_on_change and is_worse else 0


def _encode(data: dict[str, Any], form: str) -> bytes:
    if form == "json":
        return encode_json(data)
    if form == "html":
        from sightline.views.html.history import write_page

        return write_page(data)
    from sightline.views.comparison.history import render_series

    return (render_series(data).plain + "\n").encode()


def _list(args: argparse.Namespace) -> int:
    import json
    from pathlib import Path

    from sightline.core.text import make_printable
    from sightline.history.history import list_names, read_runs
    from sightline.views.comparison.history import write_date

    folder = Path(args.history)
    if args.metrics:
        names = list_names(folder)
        print(json.dumps(names, indent=1) if args.json else "\n".join(names))
        return 0
    runs = read_runs(folder, _parse_labels(args.where))
    rows = [{**row, "labels": json.loads(row["labels"])} for row in runs.to_dicts()]
    if args.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
        return 0
    for row in rows:
        labels = " ".join(f"{key}={value}" for key, value in row["labels"].items())
        told = f"{write_date(row['added_ns'])}  {row['name']}  {labels}  {row['gpu']}"
        print(make_printable(told).rstrip())
    return 0


def _push(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.capture.profile_push import list_pushed, push_all, read_target
    from sightline.core.units import format_several
    from sightline.errors import InputError, RequestError

    target = read_target(args.server)
    if args.last is not None and args.last < 1:
        raise RequestError(f"--last {args.last} is not a valid value", why="it must be 1 or more")
    where = {"job": args.job} if args.job else {}
    since = _parse_time(args.since) if args.since else 0
    windows = list_pushed(Path(args.history), where, since, args.last)
    if not windows:
        raise InputError("there is no window with stacks to push", hint="sightline history list")
    count = push_all(target, windows, lambda text: print(f"sightline: {text}", file=sys.stderr))
    print(f"{format_several(count, 'window')} pushed to {target.kind}", file=sys.stderr)
    return 0


def _bisect(args: argparse.Namespace) -> int:
    import sys
    from pathlib import Path

    from sightline.compare.comparison import compare_samples
    from sightline.doors.cli._edge import print_screen
    from sightline.doors.cli._shared import find_width
    from sightline.errors import RequestError
    from sightline.history.bisect import Search, find_commit
    from sightline.views.comparison.comparison import render_comparison
    from sightline.views.comparison.history import format_value

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise RequestError(
            "there is no program to run",
            hint="sightline history bisect --good REV --bad REV -- python bench.py",
        )
    if args.runs < 2:
        raise RequestError("one run does not say how runs differ", hint="As  --runs 3")
    search = Search(command, Path(args.history), args.runs, args.metric, args.recording)

    def tell(commit: str, level: float | None) -> None:
        told = "skipped, the command fails or leaves no recording"
        if level is not None:
            told = f"{args.metric} {format_value(args.metric, level)}"
        print(f"{commit[:12]}  {told}", file=sys.stderr)

    found = find_commit(search, args.good, args.bad, tell)
    print(f"{found.commit} is the first commit with the change.\n")
    width = find_width(sys.stdout)
    data = compare_samples(found.before, found.after)
    print_screen(render_comparison(data, width), sys.stdout, width)
    return 0
