"""A capture of very many nodes, simulated: asked by one, or by a tree of daemons that ask others.

    python benchmarks/fleet_tree.py --nodes 1250

Played event by event, with what messages were measured to cost (`fleet_messages.py`, on one core
of a Xeon). Who asks has one core, as Python has, and 64 conversations at a time; a conversation
takes turns: it is prepared, travels, is answered, travels back. A daemon that asks others answers
when all of them have. Real ones, of one level, are `fleet_messages.py --fan-out`.

What is not simulated: the 8 s until all have heard of a capture, and the comparison of the ranks,
which is measured (docs/scale.md) and is the same work whoever gathered them.
"""

from __future__ import annotations

import argparse
import heapq
from collections.abc import Sequence
from dataclasses import dataclass

AT_ONCE = 64  # controller's and daemons' own limit
LOOK, BEGIN, GATHER = "look", "begin", "gather"


@dataclass(frozen=True)
class Costs:
    """Seconds; measured, but for the wire."""

    ask: float = 0.0005  # of a signed question and its answer, at who asks
    connect: float = 0.001  # a TLS handshake, at who asks
    answer: float = 0.0006  # at the daemon that answers
    wire: float = 0.0001  # one way, across a cluster's network
    rank: float = 0.00002  # to take one rank out of an answer, or put it into one


@dataclass(frozen=True)
class Phase:
    """What one conversation is: so many questions, after a connection or not; ranks in it."""

    questions: int
    connects: bool
    has_ranks: bool


PHASES = {
    LOOK: Phase(5, connects=True, has_ranks=True),
    BEGIN: Phase(1, connects=False, has_ranks=False),
    GATHER: Phase(2, connects=False, has_ranks=True),
}


def ask_all(ready: Sequence[float], ranks: Sequence[int], phase: Phase, costs: Costs) -> float:
    """When one that begins at 0 has asked all; none answers its last question before `ready`."""
    core = 0.0  # free from then on
    waiting = [(0.0, n, 0) for n in range(min(AT_ONCE, len(ready)))]
    heapq.heapify(waiting)
    following, ended = len(waiting), 0.0
    while waiting:
        at, node, turn = heapq.heappop(waiting)
        work = costs.ask + (costs.connect if phase.connects and turn == 0 else 0.0)
        is_last = turn == phase.questions - 1
        if is_last and phase.has_ranks:
            work += costs.rank * ranks[node]
        core = max(core, at) + work
        back = core + 2 * costs.wire + costs.answer
        if is_last:
            back = max(back, ready[node])
            ended = max(ended, back)
            if following < len(ready):
                heapq.heappush(waiting, (back, following, 0))
                following += 1
            continue
        heapq.heappush(waiting, (back, node, turn + 1))
    return max(ended, core)


def play(nodes: int, each: int, fan_outs: Sequence[int], name: str, costs: Costs) -> float:
    """When the root has all answers of a phase; `fan_outs` from the root down, none for flat."""
    phase = PHASES[name]
    if not fan_outs:
        return ask_all([0.0] * nodes, [each] * nodes, phase, costs)
    children = fan_outs[0]
    shares = [nodes // children + (n < nodes % children) for n in range(children)]
    known = {s: play(s, each, fan_outs[1:], name, costs) for s in set(shares) if s}
    ready = [known[s] + costs.rank * each * s for s in shares if s]
    return ask_all(ready, [each * s for s in shares if s], phase, costs)


def main() -> None:
    """Print rows of docs/scale.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--each", type=int, default=8, help="ranks of a node")
    args = parser.parse_args()
    for fan_outs in ([], [16], [36], [64], [11, 11]):
        told = {p: play(args.nodes, args.each, fan_outs, p, Costs()) for p in PHASES}
        tree = " x ".join(map(str, fan_outs)) or "flat"
        parts = "  ".join(f"{name} {took:.2f} s" for name, took in told.items())
        print(
            f"{args.nodes * args.each:,} ranks, {tree}: {parts}  in all {sum(told.values()):.2f} s"
        )


if __name__ == "__main__":
    main()
