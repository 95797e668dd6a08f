"""Inference: decoding with and without graphs, a server, denoising, independent branches."""

from __future__ import annotations

from worlds import plans, sites
from worlds.calls import Call
from worlds.kernels import make_work
from worlds.plans import Model
from worlds.programs.training import slow_clocks
from worlds.world import COMPUTE, Script, World

WARM_UP = 2


def decode_with_graphs(world: World) -> None:
    """A language model, one graph for each token; the token is read one step later."""
    model = plans.decoder()
    main = begin(world, model)
    first = 0 if world.severity("module-loading") else WARM_UP
    for step in range(first + model.steps):
        if step == first:
            main.start()
        main.section("token", step)
        with main.range("annotation", f"execute_context_0(0)_generation_64(64): {step}"):
            main.spend(180_000)  # schedule, and fill the input tensors
            with main.range("op", "aten::copy_"):
                main.copy("H2D", model.batch_bytes, blocks=False)
            if world.severity("graph-capture"):
                capture(main, model, step)
            launch_graph(main, model, step)
            main.record(("token", step), COMPUTE)
            if world.severity("host-sync"):
                with main.luck("now", step):
                    main.item()
                    main.spend(0.12 * model.step_ns() * world.severity("host-sync"))
            elif step > first:
                main.wait_host(("token", step - 1))
            sites.compile_anew(main, step, 4 * model.step_ns())
            if world.severity("periodic-stall") and step % 6 == 5:
                with main.luck("stall", step):
                    main.spend(1.2 * model.step_ns() * world.severity("periodic-stall"))
    main.sync_device()


def begin(world: World, model: Model, rank: int = 0) -> Script:
    """The main thread, and the clock of its device."""
    world.pace_ns = 1.15 * model.step_ns() / model.op_count()
    slow_clocks(world, rank, model.step_ns() * model.steps)
    return world.script(rank, "main", 100 + rank)


def launch_graph(main: Script, model: Model, step: int) -> None:
    """One launch for all of a token's kernels; the token goes back to the host inside it."""
    main.section("graph", step)
    plain = bool(main.world.severity("no-tensor-cores")) and main.world.vendor == "nvidia"
    works = [
        make_work(kernel, main.dice, main.world.vendor, plain=plain)
        for layer in (*model.layers, model.head)
        for _, kernels in layer.forward
        for kernel in kernels
    ]
    main.launch(works, graph=7)


def capture(main: Script, model: Model, step: int) -> None:
    """Capture and instantiate the graph anew, though nothing in it has changed."""
    scale = main.world.severity("graph-capture")
    with main.luck("capture", step):
        main.call("cudaStreamBeginCapture_v10000", 6_000)
        for _ in range(model.op_count()):
            with main.range("op", "aten::linear"):
                main.spend(3_000 * scale)
                # Calls under capture return at once, and put nothing on the device.
                main.steps.append(Call("cudaLaunchKernel", main.dice.host(2_500 * scale)))
        main.call("cudaStreamEndCapture", 40_000)
        main.call("cudaGraphInstantiateWithFlags", 1_900_000 * scale)


def decode_eagerly(world: World) -> None:
    """A language model with large batches, one launch for each kernel."""
    model = plans.decoder(layers=16, size=5.0, steps=10)
    run_model(world, model, "model_step")


def serve_replicas(world: World) -> None:
    """Two processes with a model each, on two devices; or both on the first one."""
    world.ranks = 2
    if world.severity("wrong-device"):
        world.places = {1: 0}
    for rank in range(world.ranks):
        run_model(world, plans.decoder(layers=8, size=6.0, steps=8), "model_step", rank)


def denoise(world: World) -> None:
    """A diffusion model's denoising loop."""
    run_model(world, plans.unet(), "denoise")


def run_model(world: World, model: Model, name: str, rank: int = 0) -> None:
    """Forward passes, one after another."""
    main = begin(world, model, rank)
    first = 0 if world.severity("module-loading") else WARM_UP
    for step in range(first + model.steps):
        if step == first:
            main.start()
        main.section(name, step)
        with main.range("annotation", f"{name}"):
            main.spend(70_000)
            sites.compile_anew(main, step, model.step_ns())
            for index, layer in enumerate(model.layers):
                for op, kernels in sites.plan_layer(main, layer.forward):
                    main.op(op, kernels)
                sites.read_numbers(main, model, step, index)
                sites.allocate(main, step, index, len(model.layers))
            for op, kernels in model.head.forward:
                main.op(op, kernels)
            sites.end_step(main, model, step - first)
    main.sync_device()


def serve_requests(world: World) -> None:
    """A server: requests wait in a queue; where they are few, the device waits for them."""
    model = plans.transformer(layers=4, steps=14)
    for layer in (*model.layers, model.head):
        layer.backward = []
    model.optimizer = []
    main = begin(world, model)
    clients = world.script(0, "clients", 700, recorded=False)
    first = WARM_UP
    for step in range(first + model.steps):
        clients.section("request", step)
        pause = 0.5 * model.step_ns()
        if world.severity("few-requests"):
            pause = model.step_ns() * (1.0 + 0.5 * world.severity("few-requests"))
        clients.spend(clients.dice.spread(pause, 0.35))
        clients.put("requests")
        if step == first:
            main.start()
        main.section("serve", step)
        main.get("requests", "epoll_wait")
        with main.range("annotation", "handle_request"):
            main.spend(55_000)
            main.copy("H2D", 65_536, sites.COPIES, blocks=False)
            main.record(("input", step), sites.COPIES)
            main.wait(("input", step), COMPUTE)
            for index, layer in enumerate(model.layers):
                for op, kernels in layer.forward:
                    main.op(op, kernels)
                sites.read_numbers(main, model, step, index)
            for op, kernels in model.head.forward:
                main.op(op, kernels)
            # The answer goes out on another stream, and its thread reads it when it is there.
            main.record(("answer", step), COMPUTE)
            if world.severity("few-requests"):
                main.wait_host(("answer", step))
        sites.end_step(main, model, step - first)
    main.sync_device()


def run_branches(world: World) -> None:
    """An ensemble: two branches that each fill half of the device, on two streams."""
    model = plans.transformer(layers=6, steps=8)
    for layer in model.layers:
        layer.forward = [
            (op, [plans.Kernel(x.kind, x.ns, 0.5) for x in kernels])
            for op, kernels in layer.forward
        ]
        layer.backward = []
    model.head.backward, model.optimizer = [], []
    main = begin(world, model)
    for step in range(WARM_UP + model.steps):
        if step == WARM_UP:
            main.start()
        main.section("branches", step)
        with main.range("annotation", "ensemble"):
            for index, layer in enumerate(model.layers):
                sites.overlap_branches(main, step, layer, index)
            for op, kernels in model.head.forward:
                main.op(op, kernels)
    main.sync_device()
