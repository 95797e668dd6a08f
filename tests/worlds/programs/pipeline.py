"""Two stages of a model on two ranks: micro-batches go through them one after another."""

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
    main.communicate("SendRecv", key, 8_000_000, 70_000, stream=stream)
    main.record((*key, "moved"), stream)
