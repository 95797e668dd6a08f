"""`sightline watch --server URL`: which limit a running inference server is at, every ten seconds.

The words of the door; what is judged: sightline.subjects.serving.live.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.roofline.hardware import Gpu
    from sightline.subjects.serving.live.limits import Verdict
    from sightline.subjects.serving.live.reading import Interval

_LOCAL = ("127.0.0.1", "localhost", "::1")
_OTHERS = ("output", "metrics", "otlp", "policy", "alert", "webhook", "command", "list", "source")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("an inference server instead of GPUs")
    group.add_argument(
        "--server",
        metavar="URL",
        help="say from its metrics which limit it has reached: vLLM, SGLang, TRT-LLM",
    )
    group.add_argument(
        "--interval", default="10s", metavar="T", help="time between verdicts (default 10s)"
    )
    group.add_argument("--once", action="store_true", help="print one verdict, and exit")
    group.add_argument("--json", action="store_true", help="print each verdict as a line of JSON")
    group.add_argument("--gpu", metavar="NAME", help="the server's GPU, for its peaks: 'H100 SXM'")
    group.add_argument("--ttft", metavar="T", help="promised time to the first token: 500ms")
    group.add_argument("--itl", metavar="T", help="promised time between two tokens: 50ms")


def watch_server(args: argparse.Namespace) -> int:
    """Print verdicts until it is over. Raises RequestError and InputError."""
    import signal
    import sys

    from sightline.core.text import clean_text
    from sightline.core.units import parse_duration_ns
    from sightline.doors.cli._sources import read_period_s
    from sightline.record.collect.server_metrics import watch_server as read_server
    from sightline.record.monitor.rounds import MachineClock
    from sightline.subjects.serving.live.limits import Goals, judge_interval

    _refuse_others(args)
    interval_s = read_period_s(args.interval, "--interval")
    length_s = parse_duration_ns(args.length) / 1e9 if args.length else None
    goals = Goals(*(parse_duration_ns(t) / 1e6 if t else None for t in (args.ttft, args.itl)))
    gpu = _find_gpu(args)
    clock = MachineClock(length_s)

    def say(text: str) -> None:
        print(clean_text(text), file=sys.stderr, flush=True)

    def wait(seconds: float) -> bool:
        return not clock.wait(seconds)

    handlers = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        for number in handlers:
            signal.signal(number, lambda *_: clock.stop())
        last = object()
        for load in read_server(args.server, interval_s, wait, say):
            verdict = judge_interval(load, gpu, goals)
            print(_write(args, load, verdict, whole=verdict.holds != last), flush=True)
            last = verdict.holds
            if args.once:
                break
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return 0


def _refuse_others(args: argparse.Namespace) -> None:
    from sightline.errors import RequestError

    names = {"command": "run"}
    others = [f"--{names.get(n, n)}" for n in _OTHERS if getattr(args, n)]
    if others:
        raise RequestError(
            f"--server and {others[0]} do not go together",
            why=f"{others[0]} is about the GPUs and the host",
            hint="Start a second  sightline watch  for them.",
        )


def _find_gpu(args: argparse.Namespace) -> Gpu | None:
    """The GPU that was named, or this machine's where the server runs on it."""
    from sightline.errors import RequestError
    from sightline.record.collect.server_api import split_url
    from sightline.roofline.hardware import find_gpu, load_table

    if args.gpu:
        if (found := find_gpu(args.gpu) or _find_named(args.gpu)) is None:
            raise RequestError(
                f"no GPU is called '{args.gpu}'",
                hint="There are:  " + ", ".join(gpu.name for gpu in load_table()),
            )
        return found
    if split_url(args.server).hostname not in _LOCAL:
        return None
    from sightline.doors.cli._sources import open_places
    from sightline.record.monitor.latest import Latest

    with open_places() as places:
        latest = Latest()
        latest.note_devices([p.source for p in places if p.source is not None])
        names = {device.name for device in latest.devices.values() if device.name}
    return find_gpu(names.pop()) if len(names) == 1 else None


def _find_named(name: str) -> Gpu | None:
    from sightline.roofline.hardware import load_table

    return next((gpu for gpu in load_table() if gpu.name.lower() == name.lower()), None)


def _write(args: argparse.Namespace, load: Interval, verdict: Verdict, *, whole: bool) -> str:
    if args.json:
        return _encode(load, verdict)
    import time

    from sightline.core.text import clean_text

    lines = [f"{time.strftime('%H:%M:%S')}  {load.engine}: {verdict.text}"]
    if load.restarted:
        lines.append(
            "  its counters restarted from 0: the server was restarted; what follows counts from "
            "then on"
        )
    if whole:
        lines += [_write_limit(limit) for limit in verdict.limits]
        for found in verdict.findings:
            lines.append(f"  {found.title}. {(found.fix or '')[:1].upper()}{(found.fix or '')[1:]}")
    return clean_text("\n".join(lines))


def _write_limit(limit: Any) -> str:
    from sightline.core.units import format_pct

    used = "-" if limit.used_pct is None else format_pct(limit.used_pct)
    return f"  {limit.name:<17} {used:>8}  {limit.text}"


def _encode(load: Interval, verdict: Verdict) -> str:
    import json
    import time

    told = {
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "engine": load.engine,
        "seconds": round(load.seconds, 3),
        "restarted": load.restarted,
        "holds": verdict.holds,
        "text": verdict.text,
        "limits": [limit.__dict__ for limit in verdict.limits],
        "gauges": load.gauges,
        "rates": load.rates,
        "times": load.times,
        "findings": [found.to_dict() for found in verdict.findings],
    }
    return json.dumps(told, ensure_ascii=False)
