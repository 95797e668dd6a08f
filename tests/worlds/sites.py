"""The places in a program where causes act, and how each of them acts there.

Severities are relative: 1.0 makes a cause cost roughly a tenth to a third of a step, so that the
same number suits programs of any size.
"""

from __future__ import annotations

from worlds.kernels import Kernel
from worlds.plans import Layer, Model, Ops
from worlds.world import COMPUTE, COPIES, D2H_PAGEABLE, Script

LOADER = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
WORKERS = 3
FILLING = 4  # batches of a worker: two, the pause before its first one, and what luck may add


def late_rank(script: Script) -> int:
    """The rank that is late or slow where one is."""
    return script.world.seed % script.world.ranks


def start_loader(main: Script, step_ns: float, steps: int) -> None:
    """Worker processes that prepare batches; healthy ones need 60 % of the time that there is.

    A recording is of the middle of a run: by then, workers that are fast enough have a batch ready
    and another in hand.
    """
    world = main.world
    period = 0.6 * step_ns
    if world.severity("data-loading"):
        period = step_ns * (1.0 + 0.25 * world.severity("data-loading"))
    if world.severity("late-rank-data") and main.rank == late_rank(main):
        period = step_ns * (1.0 + 0.3 * world.severity("late-rank-data"))
    for worker in range(WORKERS):
        script = world.script(main.rank, f"loader{worker}", 900 + worker, recorded=False)
        script.spend(worker * period)  # workers do not run in step
        for step in range(worker, steps, WORKERS):
            script.section("batch", step)
            script.spend(script.dice.spread(period * WORKERS, 0.12))
            script.put(("batch", worker), room=1)
    if period < step_ns:
        main.spend(FILLING * WORKERS * period)


def load_batch(main: Script, step: int, size: int) -> None:
    """Take the next batch and bring it to the device, beside what computes there."""
    world = main.world
    main.section("load", step)
    with main.range("annotation", LOADER):
        main.spend(40_000)
        main.get(("batch", step % WORKERS), "poll")
        main.spend(60_000)
    if not size:
        return
    pageable = bool(world.severity("pageable-copy"))
    in_queue = pageable or bool(world.severity("copy-in-queue"))
    factor = max(world.severity("pageable-copy"), world.severity("copy-in-queue"), 1.0)
    with main.range("op", "aten::to"), main.range("op", "aten::_to_copy"):
        main.spend(12_000)
        with main.range("op", "aten::copy_"):
            stream = COMPUTE if in_queue else COPIES
            main.copy("H2D", round(size * min(factor, 3.0)), stream, pageable=pageable)
            if not in_queue:
                main.record(("loaded", step), COPIES)
                main.wait(("loaded", step), COMPUTE)


def plan_layer(script: Script, ops: Ops) -> Ops:
    """A layer's operators, with what causes put between them."""
    if not script.world.severity("layout-conversion"):
        return ops
    scale = script.world.severity("layout-conversion")
    planned: Ops = []
    for name, kernels in ops:
        convolves = "conv" in name.lower()
        if convolves:
            around = 0.25 * scale * sum(x.ns for x in kernels)
            kernels = [Kernel("to_nhwc", around), *kernels, Kernel("to_nchw", around)]
        planned.append((name, kernels))
    return planned


def read_numbers(main: Script, model: Model, step: int, layer: int) -> None:
    """Read a number of the device in the middle of the forward pass."""
    count = len(model.layers)
    each = max(1, round(count / (4 * main.world.severity("host-sync") or 1)))
    if main.world.severity("host-sync") and layer % each == each - 1:
        with main.luck("item", step, layer):
            main.item()
            main.spend(0.02 * model.step_ns())  # what the program does with the number


def allocate(main: Script, step: int, part: int, parts: int) -> None:
    """Take and give back memory of the device; giving it back waits for all that runs."""
    severity = main.world.severity("allocation")
    if not severity or part % max(1, round(parts / (3 * severity))) != 1:
        return
    with main.luck("allocate", step, part):
        main.sync_free(part)
        main.call("cudaMalloc", 420_000)
        main.call("cudaMalloc", 310_000)


def compile_anew(main: Script, step: int, step_ns: float) -> None:
    """A shape that was not seen before: the compiler runs in the steady state."""
    if not main.world.severity("recompile") or step % 3 != 1:
        return
    ns = 0.9 * step_ns * main.world.severity("recompile")
    with main.luck("compile", step):
        main.work("op", 20_000, "TorchDynamo Cache Lookup")
        # PyTorch's own ranges around what Dynamo and Inductor do (2.5 on).
        with (
            main.range("python", "torch/_dynamo/convert_frame.py(1371): __call__"),
            main.range("annotation", "_compile.compile_inner (dynamo_timed)"),
        ):
            main.spend(0.3 * ns)
            with main.range("annotation", "compile_fx.<locals>.fw_compiler_base (dynamo_timed)"):
                main.spend(0.3 * ns)
                with main.range("python", "triton/compiler/compiler.py(226): compile"):
                    main.spend(0.35 * ns)
                main.call("cuModuleLoadDataEx", 0.05 * ns)


def end_step(main: Script, model: Model, step: int) -> None:
    """What a program does between two steps: mostly nothing that takes long."""
    world = main.world
    main.section("end", step)
    step_ns = model.step_ns()
    if step % 2:
        with main.range("op", "aten::zero_"):
            main.fill(4_000_000)
    if step == model.steps - 1 or world.severity("logging-item"):
        with main.luck("log", step):
            main.item()
    if world.severity("logging-item") or "logging" in world.planted:
        # The same work without reading a number runs while the device is busy.
        scale = max(world.severity("logging-item"), world.severity("logging"))
        with main.luck("write log", step), main.range("annotation", "log_metrics"):
            main.spend(0.12 * step_ns * scale)
    if world.severity("checkpoint") and step == model.steps // 2 + 2:
        with main.luck("checkpoint"):
            save_checkpoint(main, model, world.severity("checkpoint"))
    if world.severity("periodic-stall") and step % 3 == 2:
        with main.luck("stall", step):
            main.spend(0.6 * step_ns * world.severity("periodic-stall"))


def save_checkpoint(main: Script, model: Model, severity: float) -> None:
    """Copy the weights to pageable memory and write them to a file."""
    budget = 1.2 * model.step_ns() * severity
    with main.range("annotation", "save_checkpoint"):
        for _ in range(6):
            with main.range("op", "aten::to"), main.range("op", "aten::copy_"):
                main.copy("D2H", round(0.06 * budget * D2H_PAGEABLE), pageable=True)
        with main.range("python", "torch/serialization.py(850): save"):
            for _ in range(8):
                with main.range("os", "write"):
                    main.spend(0.08 * budget)


def step_optimizer(main: Script, model: Model, step: int) -> None:
    """Update the weights: a few fused kernels, or some small ones for each tensor."""
    severity = main.world.severity("unfused-optimizer")
    main.section("optimizer", step)
    with main.range("annotation", "Optimizer.step#AdamW.step"):
        if not severity:
            for kernel in model.optimizer:
                main.op("aten::_fused_adamw_", [kernel])
            return
        total = sum(x.ns for x in model.optimizer)
        tensors = round(sum(layer.tensors for layer in model.layers) * severity)
        each = max(2_200.0, total / (5 * tensors))
        names = ("aten::mul_", "aten::lerp_", "aten::addcmul_", "aten::sqrt", "aten::addcdiv_")
        for _ in range(tensors):
            for name in names:
                main.op(name, [Kernel("mul", each, 0.3)])


def overlap_branches(main: Script, step: int, layer: Layer, index: int) -> None:
    """Two branches that fill half of the device each: beside each other, or in line."""
    world = main.world
    side = COPIES + 3
    key = ("branch", step, index)
    main.record((*key, "fork"), COMPUTE)
    main.wait((*key, "fork"), side)
    if world.severity("false-serialisation"):
        for op, kernels in layer.forward:
            main.op(op, kernels)
        # An event too many: the side branch waits for the main one, which needs nothing of it.
        main.record((*key, "late"), COMPUTE)
        main.wait((*key, "late"), side)
        for op, kernels in layer.forward:
            main.op(op, kernels, side)
    else:
        for op, kernels in layer.forward:
            main.op(op, kernels)
        for op, kernels in layer.forward:
            main.op(op, kernels, side)
    main.record((*key, "join"), side)
    main.wait((*key, "join"), COMPUTE)


def loop_over_terms(main: Script, step: int) -> None:
    """Where it is planted, the loss is summed in a loop: three small kernels for each term."""
    terms = round(256 * main.world.severity("loss-loop"))
    with main.luck("terms", step):
        for _ in range(terms):
            for name in ("aten::mul", "aten::add", "aten::add_"):
                main.op(name, [Kernel("mul", 2_000, 0.01)])
