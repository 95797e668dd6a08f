"""Two simulated servers: one computes prompts, one decodes, and keys and values go between them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from .kineto import write_client, write_trace
from .server import Kernel, Request, Served, Step


@dataclass(frozen=True)
class Apart:
    """What both servers did, and for each request when its prompt was done and had come, ns."""

    prefill: Served
    decode: Served
    transfers: list[tuple[int, int]]
    prefilled_ns: list[int]


def serve_apart(dice: random.Random, count: int = 40) -> Apart:
    """Prompts one after the other, transfers over one link, batches of decode."""
    at, requests = 0, []
    for _ in range(count):
        at += round(dice.expovariate(1 / 6e6))
        requests.append(Request(at, dice.randint(50, 900), dice.randint(5, 60)))
    prefills, done, now = [], [], 0
    for request in requests:
        now = max(now, request.arrival_ns) + 30_000
        prefills.append(_make_step("prefill", (1, request.prompt), 0, now, 5_000 * request.prompt))
        now = prefills[-1].end_ns
        done.append(prefills[-1].kernels[-1].end_ns)
    transfers, free = [], 0
    for request, ended in zip(requests, done, strict=True):
        begin = max(free, ended)
        free = begin + 2_000 * request.prompt
        transfers.append((begin, free))
    decodes: list[Step] = []
    waiting, running, now = list(zip(requests, transfers, strict=True)), [], 0
    while waiting or running:
        if not running:
            now = max(now, waiting[0][1][1])
        while waiting and waiting[0][1][1] <= now and len(running) < 16:
            running.append(waiting.pop(0)[0])
        decodes.append(
            _make_step("decode", (0, 0), len(running), now, 700_000 + 9_000 * len(running))
        )
        now = decodes[-1].end_ns + 20_000
        for request in running:
            request.token_ns.append(decodes[-1].kernels[-1].end_ns)
        running = [r for r in running if len(r.token_ns) < r.output]
    return Apart(Served(prefills, [], 0), Served(decodes, requests, 0), transfers, done)


def _make_step(phase: str, prefill: tuple[int, int], decode: int, at: int, took: int) -> Step:
    begin = at + 10_000
    kernel = Kernel("gemm", begin, begin + took)
    launch = (at + 2_000, at + 6_000, 1)
    end = kernel.end_ns + 5_000
    return Step(
        phase, prefill, decode, 0, at, end, (launch,), (kernel,), (kernel.end_ns, end), 0,
        checked=decode,
    )  # fmt: skip


def write_apart(
    apart: Apart, folder: Path, decode_clock_ns: int = 0, delivery_ns: int = 0
) -> list[Path]:
    """Both servers' traces, the decode server's on a clock of its own, and the client's log."""
    paths = []
    for name, served, moves, clock in (
        ("prefill", apart.prefill, [], 0),
        ("decode", apart.decode, apart.transfers, decode_clock_ns),
    ):
        place = folder / name
        place.mkdir()
        paths.append(write_trace(served, place, transfers=moves, clock_ns=clock))
    late = [
        replace(r, token_ns=[at + delivery_ns for at in r.token_ns]) for r in apart.decode.requests
    ]
    paths.append(write_client(Served([], late, 0), folder))
    return paths
