"""Training: load a batch, forward, backward on a thread of its own, optimizer, and again."""

from __future__ import annotations

from worlds import plans, sites
from worlds.kernels import Kernel
from worlds.plans import Layer, Model
from worlds.world import COMM, COMPUTE, Script, World

WARM_UP = 2
ACCUMULATED = "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad"
MESSAGE_NS = 22_000  # what a collective takes at least


def train_transformer(world: World) -> None:
    """One device, language model."""
    train(world, plans.transformer())


def train_resnet(world: World) -> None:
    """One device, images."""
    train(world, plans.resnet())


def train_graph_net(world: World) -> None:
    """One device, graphs."""
    train(world, plans.graph_net())


def train_recommender(world: World) -> None:
    """One device, embeddings."""
    train(world, plans.recommender())


def train_ddp(world: World) -> None:
    """Several ranks that average their gradients while they compute them."""
    world.ranks = 4
    model = plans.transformer(layers=6, steps=6)
    for rank in range(world.ranks):
        write_rank(world, model, rank, "ddp")


def train_fsdp(world: World) -> None:
    """Several ranks that gather each layer's weights before they need them."""
    world.ranks = 2
    model = plans.transformer(layers=6, steps=6)
    for rank in range(world.ranks):
        write_rank(world, model, rank, "fsdp")


def train_ddp_narrow(world: World) -> None:
    """Ranks whose communication takes nearly as long as the backward pass that hides it."""
    world.ranks = 2
    world.link /= 2.5
    model = plans.transformer(layers=6, steps=6)
    for rank in range(world.ranks):
        write_rank(world, model, rank, "ddp")


def train_accumulating(world: World) -> None:
    """Two ranks whose steps have four micro-batches: gradients are averaged behind the last one."""
    world.ranks = 2
    world.link /= 4  # so slow that a micro-batch does not hide it: why people accumulate
    model = plans.transformer(layers=6, steps=6)
    for rank in range(world.ranks):
        write_rank(world, model, rank, "ddp", micro_batches=4)


def train(world: World, model: Model) -> None:
    """One rank."""
    write_rank(world, model, 0, "")


def write_rank(world: World, model: Model, rank: int, style: str, micro_batches: int = 1) -> None:
    """The threads of one rank."""
    step_ns = model.step_ns() * micro_batches
    world.pace_ns = 1.15 * step_ns / model.op_count()
    main = world.script(rank, "main", 100 + rank)
    backward = world.script(rank, "pt_autograd_0", 140 + rank)
    first = 0 if world.severity("module-loading") else WARM_UP
    total = first + model.steps
    slow_clocks(world, rank, step_ns * model.steps)
    sites.start_loader(main, step_ns, total)
    for step in range(total):
        if step == first:
            main.start()
            for _ in range(3):  # once, before the first kernel
                main.call("cudaMalloc", 300_000)
        with main.range("step", f"ProfilerStep#{step + 10}"):
            sites.load_batch(main, step, model.batch_bytes)
            for micro in range(micro_batches):
                number = step * micro_batches + micro
                last = micro == micro_batches - 1 or world.severity("micro-step-reduce")
                run_forward(main, model, number, style)
                run_backward(main, backward, model, number, style if last else "")
            sites.step_optimizer(main, model, step)
            sites.end_step(main, model, step - first)
    main.section("last")
    main.sync_device()


def slow_clocks(world: World, rank: int, recorded_ns: float) -> None:
    """The clock drifts by a percent; where it is planted, it drops, or is low on one rank.

    `recorded_ns`: what the recorded steps take without causes. What drops before the profiler
    starts is in no recording.
    """
    factors = [(0, 1.0), (round(recorded_ns / 3), 1.006)]
    if world.severity("clock-throttle"):
        factors.append((round(0.45 * recorded_ns), 1.0 + 0.4 * world.severity("clock-throttle")))
    slow = 1.0
    if world.severity("slow-rank-clock") and rank == world.seed % world.ranks:
        slow += 0.2 * world.severity("slow-rank-clock")
    world.clocks[rank] = sorted((since, slow * factor) for since, factor in factors)


def run_forward(main: Script, model: Model, step: int, style: str) -> None:
    """The forward pass."""
    main.section("forward", step)
    count = len(model.layers)
    sites.compile_anew(main, step, model.step_ns())
    with main.range("annotation", "## forward ##"):
        for index, layer in enumerate(model.layers):
            if style == "fsdp":
                gather(main, model, step, index, "forward")
            for place, (name, kernels) in enumerate(sites.plan_layer(main, layer.forward)):
                main.op(name, kernels, sequence=sequence(step, index, place))
            sites.read_numbers(main, model, step, index)
            sites.allocate(main, step, index, count)
        for name, kernels in model.head.forward:
            main.op(name, kernels)
        sites.loop_over_terms(main, step)


def sequence(step: int, layer: int, place: int) -> int:
    """The number that ties a backward operator to its forward one."""
    return 1_000 * step + 20 * layer + place + 1


def run_backward(main: Script, backward: Script, model: Model, step: int, style: str) -> None:
    """The backward pass, on the thread of the autograd engine."""
    main.section("call backward", step)
    with main.range("python", "torch/_tensor.py(525): backward"):
        main.spend(50_000)
        main.put("backward")
        main.get("gradients")
    backward.section("backward", step)
    backward.get("backward")
    for name, kernels in model.head.backward:
        run_gradient(backward, name, kernels, 0)
    late = bool(main.world.severity("exposed-communication"))
    for index in reversed(range(len(model.layers))):
        layer = model.layers[index]
        if style == "fsdp":
            gather(backward, model, step, index, "backward")
        for place, (name, kernels) in enumerate(sites.plan_layer(backward, layer.backward)):
            number = sequence(step, index, len(layer.forward) - 1 - place)
            run_gradient(backward, name, kernels, number)
        if style == "ddp" and not late:
            reduce_gradients(backward, model.layers[index], step, index, len(model.layers))
        if style == "fsdp":
            scatter(backward, step, index, layer)
    if style == "ddp" and late:
        for index in reversed(range(len(model.layers))):
            reduce_gradients(backward, model.layers[index], step, index, len(model.layers))
    if style:
        backward.record(("reduced", step), COMM)
        backward.wait(("reduced", step), COMPUTE)
    backward.put("gradients")


def run_gradient(backward: Script, name: str, kernels: list[Kernel], number: int) -> None:
    """One operator of the backward pass, inside the engine's call of it."""
    if not backward.world.operators:
        backward.op(name, kernels)
        return
    with backward.range("op", f"autograd::engine::evaluate_function: {name}", sequence=number):
        backward.op(name, kernels, sequence=number)


def link_ns(world: World, size: int) -> float:
    """How long a collective of `size` bytes takes at the least."""
    return MESSAGE_NS + size / world.link * (1.0 + 9.0 * world.severity("slow-link"))


def reduce_gradients(backward: Script, layer: Layer, step: int, index: int, count: int) -> None:
    """All-reduce a layer's gradients as soon as they are there."""
    world = backward.world
    # A larger share of the weights lies in what the backward pass reaches first.
    size = round(layer.weights * 2 * (index + 1) / (count + 1))
    ns = link_ns(world, size)
    pieces = 1
    if world.severity("small-messages"):
        pieces = round(40 * world.severity("small-messages"))
        ns = 3 * MESSAGE_NS + (ns - MESSAGE_NS) / pieces
    backward.record(("ready", step, index), COMPUTE)
    backward.wait(("ready", step, index), COMM)
    for piece in range(pieces):
        # DDP's hook runs where the last gradient of its bucket is accumulated.
        with backward.range("op", ACCUMULATED), backward.range("op", ACCUMULATED.split(": ")[1]):
            backward.communicate(
                "AllReduce",
                ("reduce", step, index, piece),
                size // pieces,
                ns,
                sequence=step * 1_000 + index * 50 + piece,
            )


def gather(script: Script, model: Model, step: int, index: int, phase: str) -> None:
    """Gather a layer's weights: one layer ahead, so that the transfer hides behind compute."""
    world = script.world
    late = bool(world.severity("exposed-communication"))
    count = len(model.layers)
    order = list(range(count)) if phase == "forward" else list(reversed(range(count)))
    place = order.index(index)
    ahead = [index] if late or place == 0 else []
    if not late and place + 1 < count:
        ahead.append(order[place + 1])
    for layer in ahead:
        key = (phase, step, layer)
        # Memory for at most two gathered layers: the gather waits for what freed the last one.
        script.record((*key, "room"), COMPUTE)
        script.wait((*key, "room"), COMM)
        size = model.layers[layer].weights
        # The first layer's gather has nothing to hide behind; its weights are small.
        part = 0.1 if place == 0 and layer == index and not late else 1.0
        ns = MESSAGE_NS + (link_ns(world, size) - MESSAGE_NS) * part
        script.communicate("AllGather", ("gather", *key), round(size * part), ns)
        script.record((*key, "there"), COMM)
    script.wait((phase, step, index, "there"), COMPUTE)


def scatter(script: Script, step: int, index: int, layer: Layer) -> None:
    """Reduce and scatter a layer's gradients."""
    script.record(("gradient", step, index), COMPUTE)
    script.wait(("gradient", step, index), COMM)
    size = layer.weights if index else layer.weights // 10
    key = ("scatter", step, index)
    script.communicate("ReduceScatter", key, size, link_ns(script.world, size))
