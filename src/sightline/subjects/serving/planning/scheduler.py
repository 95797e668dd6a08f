"""A model of an engine's scheduler: continuous batching with prompts in chunks.

As vLLM's first engine loop has it (vllm/v1/core/sched/scheduler.py), and SGLang with mixed chunks:
a step has a budget of tokens and of requests; running requests come first, in order, each with one
token or the next chunk of its prompt; then the waiting ones, as long as both last. The step in
which a prompt ends makes its first token. The KV cache is taken to have room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from sightline.errors import RequestError
from sightline.subjects.serving.planning.step_costs import StepCosts

# What a person waits for, some seconds of plain Python (ours: 2 million a second).
MOST_WORK = 20_000_000


@dataclass(frozen=True)
class Settings:
    """The engine's limits of a step; None is none."""

    max_num_seqs: int | None = None
    max_num_batched_tokens: int | None = None


@dataclass(frozen=True)
class Asked:
    """A request: when it is sent (ns; not in a closed loop), tokens of its prompt and answer."""

    sent_ns: float
    prompt: int
    output: int


@dataclass
class Played:
    """What became of a request: when it was sent, and when each token came, ns."""

    asked: Asked
    sent_ns: float
    tokens_ns: list[float] = field(default_factory=list)
    computed: int = 0


def play_requests(
    asked: Sequence[Asked],
    costs: StepCosts,
    settings: Settings,
    *,
    clients: int | None = None,
    overhead_ns: float = 0.0,
    delivery_ns: float = 0.0,
) -> list[Played]:
    """Play the requests, in order of sending; each step takes its cost and `overhead_ns`.

    A request reaches the engine `delivery_ns` after it is sent. With `clients` it is a closed loop:
    so many are on their way, and the next is sent when one ends. Raises RequestError where that is
    more work than a person waits for.
    """
    work = sum(one.output + one.prompt // 64 for one in asked)
    _check_work(work)
    order = sorted(asked, key=lambda one: one.sent_ns)
    unsent, done = deque(order), []
    arriving: deque[Played] = deque()

    def send(at: float | None = None) -> None:
        one = unsent.popleft()
        played = Played(one, one.sent_ns if at is None else at)
        arriving.append(played)
        done.append(played)

    now = order[0].sent_ns if order else 0.0
    for _ in range(len(order) if clients is None else min(clients, len(order))):
        send(None if clients is None else now)
    waiting: deque[Played] = deque()
    running: list[Played] = []
    while arriving or waiting or running:
        if not running and not waiting:
            now = max(now, arriving[0].sent_ns + delivery_ns)
        while arriving and arriving[0].sent_ns + delivery_ns <= now:
            waiting.append(arriving.popleft())
        chunks, decodes = _fill_step(running, waiting, settings)
        if chunks:  # a budget of one token makes a step of each token of a prompt
            work += 1 + len(running) // 16
            _check_work(work)
        now += overhead_ns + costs.price(sum(n for _, n in chunks), len(decodes))
        for one, tokens in chunks:
            one.computed += tokens
            if one.computed >= one.asked.prompt:
                one.tokens_ns.append(now)
        for one in decodes:
            one.tokens_ns.append(now)
        ended = [one for one in running if len(one.tokens_ns) >= one.asked.output]
        if ended:
            running = [one for one in running if len(one.tokens_ns) < one.asked.output]
            if clients is not None:
                for _ in range(min(len(ended), len(unsent))):
                    send(now)
    return done


def _check_work(work: int) -> None:
    if work > MOST_WORK:
        raise RequestError(
            "too many tokens to play",
            why=f"more than {MOST_WORK:,}",
            hint="Take a shorter recording, or more tokens in a step.",
        )


def _fill_step(
    running: list[Played], waiting: deque[Played], settings: Settings
) -> tuple[list[tuple[Played, int]], list[Played]]:
    """Chunks of prompts with their tokens, and who gets one token more; admits to `running`."""
    budget = settings.max_num_batched_tokens or 1 << 60
    most = settings.max_num_seqs or 1 << 60
    chunks: list[tuple[Played, int]] = []
    decodes: list[Played] = []
    for one in running:
        left = one.asked.prompt - one.computed
        if budget <= 0:
            break
        if left > 0:
            chunks.append((one, min(left, budget)))
            budget -= min(left, budget)
        else:
            decodes.append(one)
            budget -= 1
    while waiting and len(running) < most and budget > 0:
        one = waiting.popleft()
        running.append(one)
        tokens = min(one.asked.prompt, budget)
        chunks.append((one, tokens))
        budget -= tokens
    return chunks, decodes
