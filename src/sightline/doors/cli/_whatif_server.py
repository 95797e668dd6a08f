"""`sightline whatif` for an inference server: its flags and its load, instead of single work."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sightline.subjects.serving.planning.prediction import Prediction, Times

_WORDS = ("max_num_seqs", "max_num_batched_tokens", "load", "concurrency")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("an inference server, from its steps and its clients' log")
    group.add_argument("--max-num-seqs", type=int, metavar="N", help="requests in a step at most")
    group.add_argument(
        "--max-num-batched-tokens", type=int, metavar="N", help="tokens in a step at most"
    )
    group.add_argument(
        "--load", type=float, metavar="F", help="let requests arrive F times as fast"
    )
    group.add_argument(
        "--concurrency",
        type=int,
        metavar="N",
        help="N clients, each of which sends its next request once the last is answered",
    )


def asks_server(args: argparse.Namespace) -> bool:
    """Whether any of a server's options was given."""
    return any(getattr(args, word) is not None for word in _WORDS)


def answer_server(args: argparse.Namespace) -> int:
    """Print what was measured, the same by the model, and the prediction."""
    from sightline.doors.cli._output import encode_json, wants_json
    from sightline.doors.cli._shared import open_recordings
    from sightline.errors import RequestError
    from sightline.subjects.serving.planning.prediction import predict

    if args.scale or args.remove:
        raise RequestError(
            "a server's settings and --scale or --remove are two questions",
            hint="Ask them one after the other.",
        )
    told = predict(
        open_recordings(args),
        max_num_seqs=args.max_num_seqs,
        max_num_batched_tokens=args.max_num_batched_tokens,
        load=1.0 if args.load is None else args.load,
        clients=args.concurrency,
    )
    if wants_json(args):
        print(encode_json(_list_values(told)).decode(), end="")
    else:
        print("\n".join(_write(told)))
    return 0


def _list_values(told: Prediction) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(told)


def _write(told: Prediction) -> list[str]:
    from sightline.core.units import format_ns, format_several

    loop = "requests arrive on their own schedule"
    if told.clients is not None:
        loop = (
            f"{format_several(told.clients, 'client')}, each sends its next request when the "
            "last is answered"
        )
    lines = [
        f"{format_several(told.requests, 'request')}, {format_several(told.steps, 'step')}; {loop}",
        f"{'':<24}{'measured':>12}{'by the model':>14}{'predicted':>12}",
    ]
    for label, name in (
        ("--max-num-seqs", "max_num_seqs"),
        ("--max-num-batched-tokens", "max_num_batched_tokens"),
    ):
        was, new = getattr(told.recorded, name), getattr(told.settings, name)
        shown = "not reached" if was is None else f"{was:,}"
        lines.append(f"{label:<24}{shown:>12}{'':>14}{'as recorded' if new is None else new:>12}")
    if told.predicted_clients is not None:
        lines.append(
            f"{'clients':<24}{told.clients or '-':>12}{'':>14}{told.predicted_clients:>12}"
        )
    for label, name in (
        ("TTFT, mean", "ttft_mean_ms"),
        ("TTFT, p50", "ttft_p50_ms"),
        ("TTFT, p99", "ttft_p99_ms"),
        ("ITL, mean", "itl_mean_ms"),
        ("ITL, p50", "itl_p50_ms"),
        ("ITL, p99", "itl_p99_ms"),
    ):
        lines.append(_write_row(told, label, name, lambda ms: format_ns(ms * 1e6)))
    lines.append(_write_row(told, "tokens a second", "tokens_per_s", lambda v: f"{v:,.1f}"))
    lines.append(_write_row(told, "requests a second", "requests_per_s", lambda v: f"{v:,.2f}"))
    if told.overhead_ns >= 1_000:
        lines.append(
            f"each step has {format_ns(told.overhead_ns)} that the recording does not show"
        )
    if told.delivery_ns >= 1_000:
        lines.append(f"a request takes {format_ns(told.delivery_ns)} to reach the engine")
    lines += [f"not recorded: {text}" for text in told.beyond]
    if told.settings.max_num_seqs is None:
        lines.append("no step reached a limit on requests: name the limit if there is one")
    return lines


def _write_row(told: Prediction, label: str, name: str, write: Any) -> str:
    def value(times: Times) -> str:
        return str(write(getattr(times, name)))

    return (
        f"{label:<24}{value(told.measured):>12}{value(told.replayed):>14}"
        f"{value(told.predicted):>12}"
    )
