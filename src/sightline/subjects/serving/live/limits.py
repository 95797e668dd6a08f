"""Which limit a running server is at, and how far it is from each.

Thresholds: the KV cache is full from FULL_PCT on (vLLM's watermark, SGLang's retraction); a unit
of the GPU limits from BOUND_PCT on, and below LATENCY_PCT neither does (NVIDIA Nsight Compute's
rule SOLBottleneck: 80 and 60 %).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sightline.core.model.declare import Finding, Rule
from sightline.core.units import format_flop_rate, format_pct, format_rate, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.roofline.hardware import Gpu
from sightline.subjects.serving.flags import find_flag
from sightline.subjects.serving.live.reading import Interval
from sightline.subjects.serving.load import FULL_PCT

BOUND_PCT, LATENCY_PCT = 80.0, 60.0
PRECISION = "bf16_tensor"
HOW_MFU = "the server counts no FLOP and no bytes: start it with --enable-mfu-metrics"
NO_COUNT = "this server does not count its FLOP and its bytes: record it (sightline run --server)"
NO_GPU = "the GPU's peaks are unknown: name it, as in --gpu 'H100 SXM'"


@dataclass(frozen=True)
class Limit:
    """How near a server is to one of its limits.

    `used_pct` is 100 where it is reached, null where that is unknown; `text` says it in words.
    """

    name: str
    used_pct: float | None
    holds: bool
    text: str


@dataclass(frozen=True)
class Goals:
    """What was promised to clients: the longest time to a first and to each further token, ms."""

    ttft_ms: float | None = None
    itl_ms: float | None = None


@dataclass(frozen=True)
class Verdict:
    """All limits, the one that holds (None where none is known to), and what to change."""

    limits: list[Limit]
    holds: str | None
    text: str
    findings: list[Finding]


def judge_interval(load: Interval, gpu: Gpu | None, goals: Goals | None = None) -> Verdict:
    """Say which limit holds: the one that makes requests wait before what makes tokens slow."""
    goals = goals or Goals()
    limits = [
        _judge_cache(load),
        _judge_preemptions(load),
        _judge_queue(load),
        *_judge_times(load, goals),
        *_judge_roofline(load, gpu),
    ]
    running = load.gauges.get("running", 0.0)
    first = next((limit for limit in limits if limit.holds), None)
    if first is not None:
        text = first.text
    elif not running and not load.growths.get("output_tokens"):
        text = "no limit: no requests"
    else:
        text = f"no limit is reached; {_name_nearest(limits)}"
    name = None if first is None else first.name
    return Verdict(limits, name, text, list(_find(load, limits)))


def _name_nearest(limits: list[Limit]) -> str:
    known = [limit for limit in limits if limit.used_pct is not None]
    if not known:
        return "the server says too little to tell how close one is"
    nearest = max(known, key=lambda limit: limit.used_pct or 0.0)
    return f"the nearest is {nearest.name}, at {format_pct(nearest.used_pct)}"


def _judge_cache(load: Interval) -> Limit:
    usage, waiting = load.gauges.get("kv_cache"), load.gauges.get("waiting", 0.0)
    if usage is None:
        return Limit("KV cache", None, False, "the server does not say how full it is")
    holds = usage >= FULL_PCT and (waiting > 0 or load.growths.get("preemptions", 0.0) > 0)
    text = f"the KV cache is {format_pct(usage)} full"
    if holds and waiting:
        text += f", and {format_several(round(waiting), 'request waits', 'requests wait')}"
    return Limit("KV cache", usage, holds, text)


def _judge_preemptions(load: Interval) -> Limit:
    count = load.growths.get("preemptions")
    if count is None:
        return Limit("preemptions", None, False, "the server does not count them")
    text = f"{format_several(round(count), 'request')} preempted in {load.seconds:.0f} s"
    return Limit("preemptions", 100.0 if count > 0 else 0.0, count > 0, text)


def _judge_queue(load: Interval) -> Limit:
    waiting, running = load.gauges.get("waiting"), load.gauges.get("running")
    if waiting is None:
        return Limit("queue", None, False, "the server does not say who waits")
    text = format_several(round(waiting), "request waits", "requests wait")
    if running is not None:
        text += f" while {round(running):,} run"
    if (queue := load.times.get("queue")) is not None:
        text += f"; {queue['mean']:,.1f} ms in the queue (mean)"
    # What is admitted of what is there: 100 % where anybody waits for it.
    used = 100.0 if waiting > 0 else 0.0
    return Limit("queue", used, waiting > 0, text)


def _judge_times(load: Interval, goals: Goals) -> Iterator[Limit]:
    for name, concept, goal in (("TTFT", "ttft", goals.ttft_ms), ("ITL", "itl", goals.itl_ms)):
        told = load.times.get(concept) or (load.times.get("tpot") if concept == "itl" else None)
        if told is None:
            yield Limit(name, None, False, "no token came in this time")
            continue
        text = f"{name} {told['mean']:,.1f} ms (mean), p99 {told['p99']:,.1f} ms"
        if goal is None:
            yield Limit(name, None, False, text)
        else:
            used = 100 * told["p99"] / goal
            yield Limit(name, used, used > 100, f"{text}, of {goal:g} ms promised")


def _judge_roofline(load: Interval, gpu: Gpu | None) -> Iterator[Limit]:
    flops = load.rates.get("flops", 0.0)
    moved = load.rates.get("read_bytes", 0.0) + load.rates.get("written_bytes", 0.0)
    if not flops and not moved:
        how = HOW_MFU if load.engine in ("vllm", "sglang") else NO_COUNT
        if load.engine != "trtllm" and not load.growths.get("output_tokens"):
            how = "no token was computed in this time"
        yield Limit("memory bandwidth", None, False, how)
        yield Limit("compute", None, False, how)
        return
    peak_bytes = None if gpu is None else gpu.number("memory_bandwidth")
    peak_flops = None if gpu is None else gpu.number(f"peak.{PRECISION}")
    for name, rate, peak, written in (
        ("memory bandwidth", moved, peak_bytes, format_rate),
        ("compute", flops, peak_flops, format_flop_rate),
    ):
        if not peak:
            yield Limit(name, None, False, f"{written(rate)} by the server's count; {NO_GPU}")
            continue
        used = 100 * rate / peak
        of = f"{written(rate)} of {written(peak)}"
        yield Limit(name, used, used >= BOUND_PCT, f"{format_pct(used)} of the peak: {of}")


def _find(load: Interval, limits: list[Limit]) -> Iterator[Finding]:
    """What a person should change: full caches, queues, drafts that are rejected."""
    by_name = {limit.name: limit for limit in limits}
    cache, preempted, queue = (by_name[n] for n in ("KV cache", "preemptions", "queue"))
    if cache.holds or preempted.holds:
        lines = [limit.text for limit in (cache, preempted, queue) if limit.used_pct is not None]
        title = "Requests are preempted" if preempted.holds else "The KV cache is full"
        yield _write_finding(load, "kv-cache-preemption", title, lines)
    elif queue.holds:
        yield _write_finding(
            load, "requests-waiting", "Requests wait to be admitted", [queue.text, cache.text]
        )


def _write_finding(load: Interval, rule: str, title: str, lines: list[str]) -> Finding:
    flag = find_flag(load.engine, rule)
    return build_finding(
        Rule(rule, title),
        f"{title[0]}{title[1:]} now.",
        Evidence(lines),
        Advice(fix=flag.fix, verify="sightline watch --server URL --once", sources=(flag.source,)),
        severity="warning",
    )
