"""Servers that are slow for one reason, and how much faster they are without it.

The gain is what the same requests take less, played without the cause; of prompts that hold up
running requests, how much shorter the steps with both are without the prompts' tokens.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from .kineto import ATTENTION, KV_SHAPE
from .server import Served, Settings, serve

Asked = list[tuple[int, int, int]]


@dataclass(frozen=True)
class Case:
    """A server with one cause: what it did, and what its end gains, ns."""

    cause: str
    served: Served
    gain_ns: int
    engine: str = "vllm"
    has_client: bool = False
    has_metrics: bool = False


def _ask_at_once(dice: random.Random, count: int, output: tuple[int, int] = (40, 90)) -> Asked:
    """Short prompts that all come at the begin."""
    return [(0, dice.randint(16, 64), dice.randint(*output)) for _ in range(count)]


def _compare(cause: str, slow: Settings, fast: Settings, asked: Asked, **more: object) -> Case:
    served = serve(slow, asked)
    gain = served.length_ns - serve(fast, asked).length_ns
    return Case(cause, served, gain, **more)  # type: ignore[arg-type]


def schedule_slowly(dice: random.Random) -> Case:
    slow = Settings(schedule_ns=dice.randint(200_000, 500_000))
    asked = _ask_at_once(dice, dice.randint(12, 48))
    return _compare("scheduler-bubble", slow, replace(slow, runs_ahead=True), asked)


def prefill_long_prompts(dice: random.Random) -> Case:
    asked = _ask_at_once(dice, 24, (150, 220))
    every = dice.randint(4_000_000, 9_000_000)
    asked += [(every * n, dice.randint(2_000, 6_000), 30) for n in range(1, 12)]
    served = serve(Settings(), asked)
    gain = sum(step.without_prompts_ns for step in served.steps)
    return Case("prefill-stalls-decode", served, gain)


def admit_few(dice: random.Random) -> Case:
    slow = Settings(most_requests=dice.randint(3, 6))
    asked = [(0, dice.randint(16, 64), 60) for _ in range(dice.randint(24, 40))]
    fast = replace(slow, most_requests=256)
    return _compare("small-batch-decode", slow, fast, asked, has_client=True)


def run_eager(dice: random.Random) -> Case:
    slow = Settings(graphs=(), launch_ns=dice.randint(11_000, 16_000))
    fast = replace(slow, graphs=Settings().graphs)
    return _compare("eager-mode", slow, fast, _ask_at_once(dice, dice.randint(8, 40)))


def miss_graphs(dice: random.Random) -> Case:
    slow = Settings(graphs=(1, 2, 4, 8, 16), launch_ns=dice.randint(11_000, 16_000))
    fast = replace(slow, graphs=Settings().graphs)
    return _compare("graph-miss", slow, fast, _ask_at_once(dice, 32, (30, 120)))


def pad_graphs(dice: random.Random) -> Case:
    slow = Settings(
        graphs=(8, 64, 128), pads=True, place_ns=dice.randint(80, 160), most_requests=128
    )
    asked = _ask_at_once(dice, dice.randint(70, 80), (20, 120))
    fast = replace(slow, graphs=tuple(range(1, 129)))
    return _compare("padding-waste", slow, fast, asked, engine="atom")


def sample_on_host(dice: random.Random) -> Case:
    slow = Settings(sample_ns=dice.randint(200_000, 500_000))
    asked = _ask_at_once(dice, dice.randint(12, 48))
    return _compare("host-sampling", slow, replace(slow, sample_ns=10_000), asked)


def exchange_slowly(dice: random.Random) -> Case:
    slow = Settings(exchanges=24, exchange_ns=dice.randint(14_000, 30_000))
    asked = _ask_at_once(dice, dice.randint(12, 48))
    return _compare("all-reduce-latency-bound", slow, replace(slow, exchange_ns=4_160), asked)


def attend_slowly(dice: random.Random) -> Case:
    """Long contexts: reading them takes 1.22 ns a token at an H100's bandwidth, and so many times.

    The fast kernel reaches 85 % of it.
    """
    reading = 2 * KV_SHAPE[0] * KV_SHAPE[1] * 2 / 3.35
    slow = Settings(
        graphs=(),
        launch_ns=1_500,
        attention=ATTENTION,
        attention_ns=reading / 1000 * dice.uniform(4, 8),
    )
    fast = replace(slow, attention_ns=reading / 1000 / 0.85)
    asked = [(0, dice.randint(1_000, 3_000), dice.randint(40, 60)) for _ in range(24)]
    return _compare("attention-backend-slow-path", slow, fast, asked, engine="vllm detailed")


def unpack_weights(dice: random.Random) -> Case:
    slow = Settings(unpack_ns=dice.randint(3_000, 9_000))
    asked = _ask_at_once(dice, dice.randint(12, 48))
    return _compare("dequantization-overhead", slow, replace(slow, unpack_ns=0), asked)


def wait_for_keys(dice: random.Random) -> Case:
    slow = Settings(transfer_ns=dice.randint(2_000_000, 5_000_000), most_tokens=512)
    asked = [(0, dice.randint(1_000, 2_000), dice.randint(20, 40)) for _ in range(16)]
    return _compare("kv-transfer-exposed", slow, replace(slow, transfer_ns=0), asked)


def load_experts_unevenly(dice: random.Random) -> Case:
    loads = [dice.randint(8_000, 16_000) for _ in range(3)]
    loads.append(dice.randint(50_000, 90_000))
    slow = Settings(experts=tuple(loads))
    even = round(sum(loads) / len(loads))
    asked = _ask_at_once(dice, dice.randint(12, 48))
    return _compare("expert-imbalance", slow, replace(slow, experts=(even,) * 4), asked)


def draft_in_vain(dice: random.Random) -> Case:
    slow = Settings(
        place_ns=1,
        drafts=dice.randint(3, 5),
        draft_ns=dice.randint(100_000, 180_000),
        accepts=(0, 0, dice.randint(0, 1), 0),
    )
    asked = _ask_at_once(dice, dice.randint(12, 32))
    fast = replace(slow, drafts=0)
    return _compare("speculative-acceptance-low", slow, fast, asked, has_client=True)


def preempt(dice: random.Random) -> Case:
    """Requests start anew, and are missing in the steps until then."""
    slow = Settings(kv_tokens=dice.randint(6_000, 9_000), token_ns=dice.randint(200, 300))
    asked = [(0, dice.randint(60, 120), dice.randint(900, 1_100)) for _ in range(24)]
    fast = replace(slow, kv_tokens=None)
    return _compare("kv-cache-preemption", slow, fast, asked, has_client=True, has_metrics=True)


CAUSES: tuple[Callable[[random.Random], Case], ...] = (
    schedule_slowly,
    prefill_long_prompts,
    admit_few,
    run_eager,
    miss_graphs,
    pad_graphs,
    sample_on_host,
    exchange_slowly,
    attend_slowly,
    unpack_weights,
    wait_for_keys,
    load_experts_unevenly,
    draft_in_vain,
    preempt,
)


def serve_well(dice: random.Random) -> Served:
    """A server without any of the causes."""
    settings = Settings(schedule_ns=5_000, prepare_ns=3_000, sample_ns=2_000, graph_launch_ns=5_000)
    return serve(settings, _ask_at_once(dice, dice.randint(24, 60)))
