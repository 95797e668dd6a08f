"""The lab's PyTorch programs as `tests/worlds` plays them, each with and without what is planted.

What a profiler would have recorded is never tuned to what sightline says of it: lengths and causes
are those of `worlds`, with its own severities. Times are in ns.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from worlds import kineto, plans, sites
from worlds.causes import CAUSES
from worlds.kernels import Kernel
from worlds.plans import Model
from worlds.programs import inference, training
from worlds.recorded import RunRecord
from worlds.truth import LARGEST_DOUBLINGS, LEAST_SHARE
from worlds.world import COMPUTE, Script, World

SEED = 2  # of all luck: the same in both sides of an exercise
WARM_UP = 2
# What stands for the program's functions until it is known in which lines they are.
STEP_FUNCTION, MAIN_FUNCTION = "program.py(1): run_step", "program.py(1): main"
LOG_FUNCTION = "program.py(1): write_log"
Build = Callable[[World], None]


def play(build: Build, planted: Mapping[str, float], seed: int = SEED) -> RunRecord:
    """What happens in a program with these causes."""
    world = World(seed, dict(planted))
    build(world)
    return world.play()


def plant(build: Build, cause: str, instead: Mapping[str, float]) -> dict[str, float]:
    """The cause, as severe as it must be to matter: what `worlds.truth.make_case` does."""
    planted = {cause: CAUSES[cause].severity if cause in CAUSES else 1.0}
    healthy = play(build, instead).window_ns()
    for _ in range(LARGEST_DOUBLINGS):
        window = play(build, planted).window_ns()
        if window - healthy >= 1.4 * LEAST_SHARE * window:
            break
        planted[cause] *= 1.7
    return planted


def write_trace(
    run: RunRecord, target: Path, change: Callable[[dict[str, Any]], None] | None = None
) -> None:
    """The run as torch.profiler writes it: a file, or a folder of a file for each rank.

    Events stand thread by thread, as in real files, which packs them well. `change` is called with
    each event that stands for a part of the program.
    """
    ranks = len(run.ranks)
    if ranks > 1:
        target.mkdir(parents=True)
    for rank in run.ranks:
        trace = kineto.make_trace(rank, ranks, "new", SEED, python=True, bare=False)
        events: list[dict[str, Any]] = trace["traceEvents"]  # type: ignore[assignment]
        events.sort(key=_order_event)
        for event in events:
            if change and event.get("cat") in ("cpu_op", "python_function"):
                change(event)
        path = target / f"rank{rank.rank}.json.gz" if ranks > 1 else target
        pack(path, json.dumps(trace, separators=(",", ":")).encode())


def _order_event(event: dict[str, Any]) -> tuple[str, str, float, float, int]:
    """By thread and time; of ranges with the same ends the outer one first."""
    outer = event.get("args", {}).get("External id", 0)
    return str(event["pid"]), str(event["tid"]), event["ts"], -event.get("dur", 0), outer


def pack(path: Path, data: bytes) -> None:
    """Write a file compressed, without the time at which that was done."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def repeat(main: Script, steps: int, run: Callable[[int], None]) -> None:
    """Steps, of which the profiler sees all but the first ones.

    A step is marked, and the host is never more than one ahead of the GPU: where the queue of
    launches limits it, as in a long run, a short recording would be of filling the queue.
    """
    main.record(("end", -1), COMPUTE)

    def run_marked(step: int) -> None:
        with main.range("step", f"ProfilerStep#{step}"):
            run(step)
            if not main.world.severity("logging-item"):  # which keeps the host behind by itself
                main.section("ahead", step)
                main.record(("end", step), COMPUTE)
                main.wait_host(("end", step - 1))

    for step in range(WARM_UP):
        run_marked(step)
    main.start()
    with main.range("python", MAIN_FUNCTION):
        for step in range(WARM_UP, WARM_UP + steps):
            run_marked(step)
        main.section("last")
        main.sync_device()


def train(world: World, model: Model, style: str = "", ranks: int = 1) -> None:
    """Data-parallel training (`style` ddp, on so many ranks) or training on one GPU."""
    world.ranks = ranks
    world.pace_ns = 1.15 * model.step_ns() / model.op_count()
    for rank in range(ranks):
        main = world.script(rank, "main", 100 + rank)
        backward = world.script(rank, "pt_autograd_0", 140 + rank)
        training.slow_clocks(world, rank, model.step_ns() * model.steps)
        sites.start_loader(main, model.step_ns(), WARM_UP + model.steps)

        def run(step: int, main: Script = main, backward: Script = backward) -> None:
            sites.load_batch(main, step, model.batch_bytes)
            with main.range("python", STEP_FUNCTION):
                training.run_forward(main, model, step, style)
                training.run_backward(main, backward, model, step, style)
                sites.step_optimizer(main, model, step)
            log_loss(main, model, step)

        repeat(main, model.steps, run)


def log_loss(main: Script, model: Model, step: int) -> None:
    """Write a line of the log: after reading the loss, or without."""
    world = main.world
    if world.severity("logging-item"):
        with main.luck("log", step):
            main.item()
    scale = max(world.severity("logging-item"), world.severity("logging"))
    if scale:
        with main.luck("write log", step), main.range("python", LOG_FUNCTION):
            main.spend(0.12 * model.step_ns() * scale)


def train_transformer(world: World) -> None:
    """A decoder in bf16 on one GPU."""
    train(world, plans.transformer(layers=4, steps=10))


def train_shallow(world: World) -> None:
    """The decoder with two layers, for recordings of which there are many."""
    train(world, plans.transformer(layers=2, steps=8))


def train_images(world: World, batch_bytes: int = 100_000_000) -> None:
    """A convolutional net in bf16 on one GPU."""
    model = plans.resnet(steps=10)
    model.layers = [model.layers[0], *model.layers[1:12:2]]
    model.batch_bytes = batch_bytes
    train(world, model)


def train_packed_images(world: World) -> None:
    """The same with images of a byte for each color."""
    train_images(world, 25_000_000)


def train_deeper(world: World) -> None:
    """The decoder with six layers, so that allocations lie between them."""
    train(world, plans.transformer(layers=6, steps=8))


def train_ranks(world: World) -> None:
    """The decoder on four GPUs."""
    train(world, plans.transformer(layers=3, steps=6), "ddp", 4)


def run_ensemble(world: World) -> None:
    """Two models on one GPU, each half as wide as it, on two streams."""
    model = plans.transformer(layers=3, steps=8)
    for layer in model.layers:
        layer.forward = [
            (op, [Kernel(x.kind, x.ns, 0.5) for x in kernels]) for op, kernels in layer.forward
        ]
        layer.backward = []
    model.head.backward, model.optimizer = [], []
    main = inference.begin(world, model)

    def run(step: int) -> None:
        main.section("branches", step)
        with main.range("python", STEP_FUNCTION):
            for index, layer in enumerate(model.layers):
                sites.overlap_branches(main, step, layer, index)
            for op, kernels in model.head.forward:
                main.op(op, kernels)

    repeat(main, model.steps, run)


def decode(world: World) -> None:
    """A language model that makes a token a step: kernel by kernel, or as one CUDA graph."""
    model = plans.decoder(layers=12, size=0.5, steps=12)
    main = inference.begin(world, model)

    def run(step: int) -> None:
        main.section("token", step)
        with main.range("python", STEP_FUNCTION):
            if not world.severity("graph-miss"):
                inference.launch_graph(main, model, step)
                return
            for layer in (*model.layers, model.head):
                for name, kernels in layer.forward:
                    main.op(name, kernels)

    repeat(main, model.steps, run)


def scale_ranks(ranks: int) -> Build:
    """The decoder with the same batch in all, spread over so many GPUs."""

    def build(world: World) -> None:
        model = plans.transformer(layers=3, size=2.0 / ranks, steps=5)
        train(world, model, "ddp" if ranks > 1 else "", ranks)

    return build
