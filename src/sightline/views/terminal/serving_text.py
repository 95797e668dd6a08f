"""An inference server on one screen: its steps by phase, where a token's time goes, its load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich.text import Text

from sightline.core.text import make_printable
from sightline.core.units import format_count, format_ns, format_pct

_NAMES = {"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM", "atom": "ATOM"}
_GAPS = {
    "scheduler_ns": "between steps, scheduling",
    "in_step_ns": "between steps, host in a step",
    "no_request_ns": "between steps, no request",
    "unclear_ns": "between steps, unclear",
}
_LOAD = {
    "ttft": "time to first token",
    "itl": "inter-token latency",
    "tpot": "time per output token",
    "latency": "latency of a request",
    "queue": "time in the queue",
    "iteration": "iteration",
    "running": "requests running",
    "waiting": "requests waiting",
    "kv_cache": "KV cache in use",
    "output_rate": "output, tokens/s",
    "preemptions": "preemptions",
}


def print_serving(serving: dict[str, Any]) -> Iterator[list[Text]]:
    """A table of phases and gaps, a line on tokens, and a table of the load."""
    if serving.get("phases"):
        yield list(_print_phases(serving))
    if serving.get("load"):
        yield list(_print_load(serving["load"]))


def _print_phases(serving: dict[str, Any]) -> Iterator[Text]:
    about = serving["about"]
    engine = _NAMES.get(about["engine"], about["engine"] or "the engine")
    title = f"Steps of {engine}, by its {about['source']}"
    yield Text(
        make_printable(f"{title:<40}{'n':>8}{'tokens':>10}{'median':>11}{'total':>11}"), "bold"
    )
    for row in serving["phases"]:
        tokens = [row[name] for name in ("prefill_tokens", "decode_tokens") if row[name]]
        shown = format_count(sum(tokens)) if tokens else "-"
        on_device = row["gpu_span_ns"] is not None
        middle = row["gpu_span_ns"] if on_device else row["cpu_span_ns"]
        whole = row["all_gpu_span_ns"] if on_device else row["all_cpu_span_ns"]
        yield _line(row["phase"] or "phase unknown", row["steps"], shown, middle, whole)
    for name, label in _GAPS.items():
        if serving["gaps"][name]:
            yield _line(label, None, "", None, serving["gaps"][name])
    if serving["tokens"]:
        yield from _print_tokens(serving["tokens"])


def _line(label: str, n: int | None, tokens: str, middle: int | None, whole: int) -> Text:
    count = "" if n is None else format_count(n)
    median = "" if middle is None else format_ns(middle)
    return Text(f"{label:<40}{count:>8}{tokens:>10}{median:>11}{format_ns(whole):>11}")


def _print_tokens(tokens: Sequence[dict[str, Any]]) -> Iterator[Text]:
    mean = sum(row["mean_ns"] for row in tokens)
    parts = ", ".join(f"{row['part']} {format_pct(row['share_pct'])}" for row in tokens[:4])
    yield Text(f"A token of a running request takes {format_ns(mean)} on average:")
    yield Text(f"  {parts}")


def _print_load(load: Sequence[dict[str, Any]]) -> Iterator[Text]:
    # What each request says is not said again as the benchmark printed it.
    exact = {row["metric"] for row in load if row["source"] == "requests"}
    shown = [
        row
        for name in _LOAD
        for row in load
        if row["metric"] == name and (row["source"] == "requests" or name not in exact)
    ]
    if not shown:
        return
    heads = "".join(f"{name:>11}" for name in ("mean", "p50", "p99", "max"))
    yield Text(f"{'Load of the server':<36}{heads}", "bold")
    for row in shown:
        mean = row["mean"] if row["mean"] is not None else row["total"]
        cells = "".join(_cell(v, row["unit"]) for v in (mean, row["p50"], row["p99"], row["max"]))
        label = f"{_LOAD[row['metric']]} ({row['source']})"
        yield Text(make_printable(f"{label[:36]:<36}{cells}"))


def _cell(value: float | None, unit: str | None) -> str:
    if value is None:
        return f"{'-':>11}"
    if unit == "ms":
        return f"{format_ns(round(value * 1e6)):>11}"
    words = " %" if unit == "%" else ""
    is_whole = float(value).is_integer() or abs(value) >= 1000
    number = f"{value:,.0f}" if is_whole else f"{value:,.1f}"
    return f"{number + words:>11}"
