"""Stages of a model, each on its rank: micro-batches go through them one after another."""

from __future__ import annotations

from worlds import plans
from worlds.kernels import Kernel
from worlds.plans import Ops
from worlds.programs.training import slow_clocks
from worlds.world import COMM, COMPUTE, Script, World

WARM_UP = 1
MICRO_BATCHES = 32  # the bubble is (stages - 1) / (micro-batches + stages - 1): 3 %


def train_in_stages(world: World) -> None:
    """Both ranks; fewer and larger micro-batches make the bubble larger."""
    world.ranks = 2
    whole = plans.transformer(layers=2, steps=3)
    count = MICRO_BATCHES
    if world.severity("pipeline-bubble"):
        count = max(2, round(4 / world.severity("pipeline-bubble")))
    scale = MICRO_BATCHES / count
    forward = [op for layer in whole.layers for op in layer.forward]
    backward = [op for layer in whole.layers for op in layer.backward]
    for rank in range(2):
        slow_clocks(world, rank, whole.step_ns() * MICRO_BATCHES * whole.steps)
        main = world.script(rank, "main", 100 + rank)
        for step in range(WARM_UP + whole.steps):
            if step == WARM_UP:
                main.start()
            with main.range("step", f"ProfilerStep#{step}"):
                run_step(main, forward, backward, count, scale, step)
        main.sync_device()


def run_step(
    main: Script, forward: Ops, backward: Ops, count: int, scale: float, step: int
) -> None:
    """One forward, one backward: the last stage answers each micro-batch at once."""
    warm = 3 if main.rank == 0 else 0  # in flight, so that transfers hide behind compute
    for batch in range(count + warm):
        if batch < count:
            run_part(main, forward, scale, step, batch, "forward")
        if batch - warm >= 0:
            run_part(main, backward, scale, step, batch - warm, "backward")
    main.section("optimizer", step)
    with main.range("annotation", "Optimizer.step#AdamW.step"):
        for _ in range(3):
            main.op("aten::_fused_adamw_", [Kernel("adam", 240_000)])


def run_part(main: Script, ops: Ops, scale: float, step: int, batch: int, phase: str) -> None:
    """A pass of one micro-batch through this stage, between receiving and sending."""
    main.section(phase, step, batch)
    key = (phase, step, batch)
    sends = (main.rank == 0) == (phase == "forward")
    if not sends:
        transfer(main, key)
        main.wait((*key, "moved"), COMPUTE)
    for name, kernels in ops:
        main.op(name, [Kernel(x.kind, x.ns * scale / 4, x.share) for x in kernels])
    if sends:
        main.record((*key, "ready"), COMPUTE)
        stream = COMM if phase == "forward" else COMM + 4
        main.wait((*key, "ready"), stream)
        transfer(main, key)


def transfer(main: Script, key: tuple[object, ...]) -> None:
    """Activations or gradients go from one stage to the other; each direction has its stream."""
    stream = COMM if key[0] == "forward" else COMM + 4
    source = 0 if key[0] == "forward" else 1
    main.communicate("SendRecv", key, 8_000_000, 70_000, stream=stream, source=source)
    main.record((*key, "moved"), stream)


STAGES, STAGE_BATCHES, STAGE_STEPS = 4, 100, 1  # the bubble is 3 of 103 slots
MESSAGE_BYTES, MESSAGE_NS = 8_000_000, 40_000


def train_in_four_stages(world: World) -> None:
    """One forward, one backward (1F1B, Narayanan et al. 2021) on four ranks with three links."""
    world.ranks = STAGES
    whole = plans.transformer(layers=1, steps=STAGE_STEPS)
    forward = [op for layer in whole.layers for op in layer.forward]
    backward = [op for layer in whole.layers for op in layer.backward]
    for rank in range(STAGES):
        main = world.script(rank, "main", 100 + rank)
        for step in range(WARM_UP + STAGE_STEPS):
            if step == WARM_UP:
                main.start()
            with main.range("step", f"ProfilerStep#{step}"):
                ahead = 2 * (STAGES - rank - 1)  # twice, so that messages hide behind compute
                for batch in range(STAGE_BATCHES + ahead):
                    if batch < STAGE_BATCHES:
                        run_stage(main, forward, step, batch, "forward")
                    if batch >= ahead:
                        run_stage(main, backward, step, batch - ahead, "backward")
                main.section("optimizer", step)
                main.op("aten::_fused_adamw_", [Kernel("adam", 240_000)])
        main.sync_device()


def run_stage(main: Script, ops: Ops, step: int, batch: int, phase: str) -> None:
    """One micro-batch through one stage: receive, compute, send."""
    main.section(phase, step, batch)
    onward = 1 if phase == "forward" else -1
    before, after = main.rank - onward, main.rank + onward
    if 0 <= before < STAGES:
        message = move(main, before, main.rank, (phase, step, batch))
        main.wait(message, COMPUTE)
    for name, kernels in ops:
        main.op(name, [Kernel(x.kind, x.ns / 4, x.share) for x in kernels])
    if 0 <= after < STAGES:
        main.record(("ready", phase, step, batch), COMPUTE)
        # A link's messages of one direction have a stream of their own on each side.
        main.wait(("ready", phase, step, batch), message_stream(main.rank, after))
        move(main, main.rank, after, (phase, step, batch))


def message_stream(rank: int, peer: int) -> int:
    """The stream of messages from or to a peer: one for each direction."""
    return COMM + (0 if peer > rank else 8)


def move(main: Script, source: int, target: int, what: tuple[object, ...]) -> tuple[object, ...]:
    """A message between two stages; gives the event of its arrival."""
    slow = main.world.severity("slow-stage-link") if {source, target} == {1, 2} else 0.0
    peer = target if main.rank == source else source
    stream = message_stream(main.rank, peer) + (4 if main.rank == target else 0)
    main.communicate(
        "SendRecv",
        (*what, source),
        MESSAGE_BYTES,
        MESSAGE_NS * (1.0 + 9.0 * slow),
        stream=stream,
        ranks=sorted((source, target)),
        source=source,
    )
    main.record((*what, source, "moved"), stream)
    return (*what, source, "moved")
