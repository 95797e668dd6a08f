"""What the GPUs and the host do, second by second: kept, exported, judged.

sightline watch -o gpu-history           keep a history; stop with Ctrl-C
sightline watch --metrics                for Prometheus, on 127.0.0.1:9400
sightline watch -o gpu-history --policy default --webhook http://…
sightline report gpu-history             what it shows, as of any recording
sightline sql gpu-history "SELECT device_id, avg(power_w) FROM gpus GROUP BY 1"
sightline watch --alert 'temperature > 60 for 30s'   a policy in one line
sightline watch --list                   the metrics, and what can be read here
sightline watch --server http://127.0.0.1:8000   which limit vLLM, SGLang is at

The history is Parquet by day; values get sparser with age, and the folder never
exceeds its bound. --policy FILE has conditions as docs/own-rules.md has them;
'default' are those that ship. Exit code 1: a policy was violated.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from sightline.doors.cli._shared import GATE_FAILED
from sightline.doors.cli._sources import open_places, read_period_s, say_no_gpu
from sightline.doors.cli._watch_server import add_arguments as add_server_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sightline.record.monitor.latest import Latest
    from sightline.record.monitor.readings import Source

HELP = "what the GPUs do, second by second: keep it, export it, judge it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", metavar="DIR", help="keep a history in this folder")
    parser.add_argument(
        "--period", default="1s", metavar="T", help="time between readings (default 1s)"
    )
    parser.add_argument("--for", dest="length", metavar="T", help="stop after this time")
    parser.add_argument(
        "--metrics",
        nargs="?",
        const="127.0.0.1:9400",
        metavar="[HOST:]PORT",
        help="serve /metrics (default 127.0.0.1:9400)",
    )
    parser.add_argument(
        "--names",
        choices=("dcgm", "otel"),
        default="dcgm",
        help="whose metric names --metrics and --otlp use: dcgm-exporter's or OpenTelemetry's",
    )
    parser.add_argument(
        "--otlp",
        metavar="URL",
        help="push the metrics to an OpenTelemetry collector, every 15 s (http://127.0.0.1:4318)",
    )
    parser.add_argument(
        "--push",
        metavar="URL",
        help="push readings as line protocol, every 10 s: to sightline cluster serve, cc-backend; "
        "the token is in SIGHTLINE_PUSH_TOKEN",
    )
    parser.add_argument("--token-file", metavar="FILE", help="require the token in this file")
    parser.add_argument(
        "--policy",
        action="append",
        metavar="FILE",
        help="file of conditions to judge; 'default' for those that ship",
    )
    parser.add_argument(
        "--alert",
        action="append",
        metavar="CONDITION",
        help="a policy in one line: 'temperature > 60', 'sm_active < 5 for 10min'",
    )
    parser.add_argument(
        "--webhook", metavar="URL", help="post violations and XIDs to this URL, as JSON"
    )
    parser.add_argument(
        "--run",
        dest="command",
        metavar="COMMAND",
        help="run this command on a violation, without a shell, with JSON on its stdin",
    )
    parser.add_argument(
        "--max-size",
        default="2GB",
        metavar="SIZE",
        help="size of the history at most (default 2GB)",
    )
    parser.add_argument(
        "--thin",
        default="2d:10s,14d:1min,90d:10min",
        metavar="AGE:T,...",
        help="from this age on, keep one value per this time (default %(default)s)",
    )
    parser.add_argument("--source", action="append", metavar="NAME", help="read only this source")
    parser.add_argument(
        "--cpus", action="store_true", help="read CPUs one by one, too (the source cpu)"
    )
    parser.add_argument("--list", action="store_true", help="list metrics and sources, and exit")
    add_server_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from sightline.record.monitor.latest import Latest
    from sightline.record.monitor.sources import list_usual

    if args.server:
        from sightline.doors.cli._watch_server import watch_server

        return watch_server(args)

    _check(args)
    names = args.source
    if args.cpus:
        names = [*dict.fromkeys([*(names or list_usual()), "cpu"])]
    with open_places(names) as found:
        if args.list:
            _list(found)
            return 0
        sources = [place.source for place in found if place.source is not None]
        latest = Latest()
        latest.note_devices(sources)
        if not latest.devices:
            say_no_gpu(found)
        for place in found:
            for name, why in _ask_missing(place.source):
                _say(f"Not read: {name}: {why}")
        return _watch(args, sources, latest)


def _check(args: argparse.Namespace) -> None:
    from sightline.core.registry import did_you_mean
    from sightline.errors import RequestError
    from sightline.record.monitor.sources import list_sources

    for name in args.source or ():
        if name not in list_sources():
            raise RequestError(
                f"there is no source called '{name}'",
                why=did_you_mean(name, list_sources()),
                hint=f"There are:  {', '.join(list_sources())}",
            )
    asked = (args.output, args.metrics, args.otlp, args.push, args.policy, args.alert, args.list)
    if not any(asked):
        raise RequestError(
            "there is nothing to do with the readings",
            hint="Keep the readings:  sightline watch -o gpu-history\nWatch an inference server:  "
            "sightline watch --server http://127.0.0.1:8000\nExport them:  sightline watch "
            "--metrics\nLook at them:  sightline top",
        )


def _watch(args: argparse.Namespace, sources: list[Source], latest: Latest) -> int:
    import signal
    import threading
    from pathlib import Path

    from sightline.core.model.history_folder import LOG
    from sightline.core.units import parse_duration_ns, parse_size
    from sightline.doors.cli._edge import keep_talk
    from sightline.record.monitor.history import HistoryWriter, Limits
    from sightline.record.monitor.notices import Notifier
    from sightline.record.monitor.policies import Policies, load_policies, parse_alert
    from sightline.record.monitor.rounds import MachineClock
    from sightline.record.monitor.watching import Watch

    period_s = read_period_s(args.period)
    rules = [*load_policies(args.policy or ()), *map(parse_alert, args.alert or ())]
    policies = Policies(rules) if rules else None
    limits = Limits(_parse_thinning(args.thin), parse_size(args.max_size))
    length_s = parse_duration_ns(args.length) / 1e9 if args.length else None
    clock = MachineClock(length_s)
    notifier = Notifier(args.webhook, args.command, _say) if args.webhook or args.command else None
    history = HistoryWriter(Path(args.output), limits, period_s) if args.output else None
    if history is not None:
        keep_talk(history.place, LOG)
    server: Any = None
    pushers = list(_open_pushers(args, latest))
    handlers: dict[signal.Signals, Any] = {}
    try:
        if args.metrics:
            server = _open_exporter(args, latest)
            threading.Thread(target=server.serve_forever, daemon=True).start()
        _announce(args, latest, server)
        for number in (signal.SIGINT, signal.SIGTERM):
            handlers[number] = signal.signal(number, lambda *_: clock.stop())
        Watch(sources, latest, _say_with_time, history, policies, notifier).run(period_s, clock)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if server is not None:
            server.shutdown()
        if history is not None:
            history.close()
        for pusher in pushers:
            pusher.close()
        if notifier is not None:
            notifier.close()
    if history is not None and not history.folder.is_dir():
        _say(f"There is no history: {args.output} was removed, or moved elsewhere")
    elif history is not None:
        _say(f"The history is in {args.output}:  sightline report {args.output}")
    return GATE_FAILED if policies is not None and policies.violations else 0


_DAY_NS = 86_400 * 10**9


def _parse_thinning(text: str) -> tuple[tuple[float, int], ...]:
    """Ages in days with seconds between values, from '2d:10s,14d:1min'; none from ''."""
    from sightline.core.units import parse_duration_ns
    from sightline.errors import RequestError

    found = []
    for part in filter(None, text.split(",")):
        age, colon, interval = part.partition(":")
        seconds = parse_duration_ns(interval) // 10**9 if colon else 0
        if seconds < 1:
            raise RequestError(
                f"'{part}' does not say how much is kept",
                hint="Write for example --thin 2d:10s,14d:1min: a value in 10 s from two days on.",
            )
        found.append((parse_duration_ns(age) / _DAY_NS, seconds))
    return tuple(found)


def _open_exporter(args: argparse.Namespace, latest: Latest) -> Any:
    from pathlib import Path

    from sightline.errors import RequestError
    from sightline.record.monitor.exporter import Collector, make_exporter

    host, _, port = args.metrics.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise RequestError(f"'{args.metrics}' is not a port", hint="Write for example 9400.")
    token = None
    if args.token_file:
        try:
            token = Path(args.token_file).read_text().strip()
        except OSError as error:
            raise RequestError(f"cannot read {args.token_file}", why=error.strerror) from error
        if not token:
            raise RequestError(f"{args.token_file} holds no token")
    try:
        collector = Collector(latest, args.names)
        return make_exporter(collector, host.strip("[]") or "127.0.0.1", int(port), token)
    except OSError as error:
        raise RequestError(
            f"cannot serve metrics on {args.metrics}", why=error.strerror or str(error)
        ) from error


def _open_pushers(args: argparse.Namespace, latest: Latest) -> Iterator[Any]:
    import os
    import socket

    if args.push:
        from sightline.record.monitor.push import LinePusher

        token = os.environ.get("SIGHTLINE_PUSH_TOKEN")
        yield LinePusher(args.push, token, latest, _say_with_time)
    if args.otlp:
        from sightline.record.monitor.exporter import Collector
        from sightline.record.monitor.otlp import Pusher

        collector = Collector(latest, args.names)
        yield Pusher(args.otlp, collector, _say_with_time, socket.gethostname())


def _announce(args: argparse.Namespace, latest: Latest, server: Any) -> None:
    from collections import Counter

    names = Counter(
        device.name or "a GPU that does not answer" for device in latest.devices.values()
    )
    watched = [f"{count} × {name}" for name, count in names.items()]
    _say(f"Watching {', '.join([*watched, 'the host'])}; stop with Ctrl-C")
    if server is not None:
        host, port = server.server_address[:2]
        _say(f"Metrics at http://{host}:{port}/metrics")
        if not str(host).startswith("127.") and host != "::1" and not args.token_file:
            _say("Anybody who reaches this address can read them: --token-file asks for a token")
    if args.output:
        _say(f"History in {args.output}")


def _list(found: list[Any]) -> None:
    from sightline.core.watched_metrics import METRICS

    print("What can be read here")
    for place in found:
        print(f"  {'yes' if place.source else 'no '}  {place.name:<6} {place.why}")
        for name, why in _ask_missing(place.source):
            print(f"              not {name}: {why}")
    print("\nMetrics")
    for metric in METRICS.values():
        print(f"  {metric.column:<38} {metric.help}")


def _ask_missing(source: Source | None) -> list[tuple[str, str]]:
    """What a place does not give of the host, and why."""
    import time

    from sightline.record.monitor.readings import HOST

    if source is None:
        return []
    readings = source.read(time.time_ns(), time.monotonic_ns()).readings
    return [pair for r in readings if r.entity.kind == HOST for pair in r.missing.items()]


def _say(text: str) -> None:
    import sys

    print(text, file=sys.stderr, flush=True)


def _say_with_time(text: str) -> None:
    import time

    from sightline.core.text import clean_text

    _say(f"{time.strftime('%H:%M:%S')}  {clean_text(text)}")
