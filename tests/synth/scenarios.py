"""Ready programs, each with one problem planted (or none).

Every function takes the seed of its small variations and the grain of its times (1000 for whole
us) beside its sizes, and returns the simulated run. Durations are in ns.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from . import names
from .model import Run
from .program import DEFAULT_STREAM, HostThread, Simulator
from .random_programs import random_program

MAIN = "train.py(88): <module>"
TRAIN_STEP = "train.py(41): train_step"
MODULE_CALL = "torch/nn/modules/module.py(1751): _call_impl"
COMM_STREAM = 20
COPY_STREAM = 24


def _vary(rng: Random, duration_ns: int) -> int:
    """Return the duration, up to 10 % shorter or longer."""
    return duration_ns * rng.randint(900, 1100) // 1000


def _layer(t: HostThread, rng: Random, kernel_ns: int, host_ns: int) -> None:
    """Run one layer of three kernels; each op costs the host ``host_ns`` besides its launch."""
    with t.python(MODULE_CALL):
        for op, kernel, share in (
            ("aten::layer_norm", names.LAYER_NORM, 2),
            ("aten::addmm", names.GEMM, 7),
            ("aten::gelu", names.GELU, 3),
        ):
            with t.op(op):
                t.cpu(_vary(rng, host_ns))
                t.launch(kernel, _vary(rng, kernel_ns * share // 4))


def healthy(*, steps: int = 4, layers: int = 12, seed: int = 0, grain_ns: int = 1) -> Run:
    """Launch long kernels far ahead of the device, and copy beside them from pinned memory."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python(TRAIN_STEP):
                t.dataloader(40_000)
                t.memcpy("HtoD", 1 << 20, stream=COPY_STREAM)
                t.wait_event(t.record_event(COPY_STREAM))
                for _ in range(layers):
                    _layer(t, rng, 90_000, 3_000)
        t.synchronize()
    return sim.finish("healthy", "")


def launch_bound(*, steps: int = 5, layers: int = 8, seed: int = 0, grain_ns: int = 1) -> Run:
    """Launch kernels so short that the host cannot keep up."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python(TRAIN_STEP):
                for _ in range(layers):
                    _layer(t, rng, 3_000, 14_000)
    return sim.finish("launch_bound", "host_late")


def launch_latency(*, steps: int = 5, seed: int = 0, grain_ns: int = 1) -> Run:
    """Launch each kernel before the previous one ends, but not early enough to arrive in time."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number):
                for _ in range(40):
                    with t.op("aten::add_"):
                        t.cpu(1_000)
                        t.launch(names.ADD, _vary(rng, 4_400))
    return sim.finish("launch_latency", "launch_latency")


def dataloader_starved(
    *, steps: int = 5, load_ns: int = 4_000_000, seed: int = 0, grain_ns: int = 1
) -> Run:
    """Wait for the next batch for longer than the device works on one."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python(TRAIN_STEP):
                t.dataloader(_vary(rng, load_ns))
                t.memcpy("HtoD", 4 << 20)
                for _ in range(6):
                    _layer(t, rng, 60_000, 4_000)
    return sim.finish("dataloader_starved", "data_loading")


def sync_every_step(
    *, steps: int = 6, reads: int = 4, host_ns: int = 60_000, seed: int = 0, grain_ns: int = 1
) -> Run:
    """Read a value back several times in each step, which empties the queue each time."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python(TRAIN_STEP):
                for _ in range(reads):
                    _layer(t, rng, 40_000, 2_000)
                    t.item()
                    t.cpu(_vary(rng, host_ns))
    return sim.finish("sync_every_step", "host_sync")


def h2d_bound(
    *, steps: int = 5, pinned: bool = False, size: int = 16 << 20, seed: int = 0, grain_ns: int = 1
) -> Run:
    """Copy large batches in the stream of the kernels, from pageable or pinned memory."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    rate = 24 * 10**9 if pinned else 7 * 10**9
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python(TRAIN_STEP):
                with t.op("aten::to"), t.op("aten::_to_copy"), t.op("aten::copy_"):
                    t.memcpy("HtoD", size, pinned=pinned, rate=rate)
                for _ in range(3):
                    _layer(t, rng, 40_000, 3_000)
    return sim.finish("h2d_bound", "exposed_copy")


def exposed_communication(
    *, ranks: int = 2, steps: int = 4, transfer_ns: int = 600_000, seed: int = 0, grain_ns: int = 1
) -> Run:
    """Wait for each all-reduce before going on."""
    sim, rng = Simulator(ranks, grain_ns=grain_ns), Random(seed)
    for number in range(steps):
        _data_parallel_step(sim, rng, number, transfer_ns, wait_each=True)
    return sim.finish("exposed_communication", "exposed_communication")


def overlapped_communication(
    *, ranks: int = 2, steps: int = 4, transfer_ns: int = 150_000, seed: int = 0, grain_ns: int = 1
) -> Run:
    """Let all-reduces run beside the kernels, and wait once at the end of the step."""
    sim, rng = Simulator(ranks, grain_ns=grain_ns), Random(seed)
    for number in range(steps):
        _data_parallel_step(sim, rng, number, transfer_ns, wait_each=False)
    return sim.finish("overlapped_communication", "")


def straggler(
    *,
    ranks: int = 3,
    slow_rank: int = 1,
    late_ns: int = 2_500_000,
    steps: int = 4,
    seed: int = 0,
    grain_ns: int = 1,
) -> Run:
    """Let one rank be late on the host in each step; the others wait inside the collective."""
    sim, rng = Simulator(ranks, grain_ns=grain_ns), Random(seed)
    for number in range(steps):
        late = {slow_rank: late_ns}
        _data_parallel_step(sim, rng, number, 120_000, wait_each=False, late=late)
    return sim.finish("straggler", "straggler")


def _data_parallel_step(
    sim: Simulator,
    rng: Random,
    number: int,
    transfer_ns: int,
    *,
    wait_each: bool,
    late: dict[int, int] | None = None,
) -> None:
    """Run one step on all ranks: five buckets of layers, each with an all-reduce."""
    scripts = [(t, t.step(number), t.python(TRAIN_STEP)) for t in sim.mains]
    for t, step, function in scripts:
        step.__enter__()
        function.__enter__()
        t.cpu((late or {}).get(t.rank.rank, 0))
    for _ in range(5):
        for t in sim.mains:
            _layer(t, rng, 80_000, 2_000)
        done = sim.collective(sim.mains, _vary(rng, transfer_ns), elements=4 << 20)
        if wait_each:
            for t, event in zip(sim.mains, done, strict=True):
                t.wait_event(event)
    for t, event in zip(sim.mains, done, strict=True):
        t.wait_event(event)
        with t.op("aten::_fused_adamw_"):
            t.launch(names.ADAM, _vary(rng, 70_000))
    for _, step, function in scripts:
        function.__exit__(None, None, None)
        step.__exit__(None, None, None)


def graph_replay(*, steps: int = 20, nodes: int = 12, seed: int = 0, grain_ns: int = 1) -> Run:
    """Replay one graph of short kernels per step, each with a single launch."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    graph = [(rng.choice(names.COMPUTE_KERNELS), rng.randint(3_000, 12_000)) for _ in range(nodes)]
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python("torch/cuda/graphs.py(88): replay"):
                t.memcpy("HtoD", 4_096)
                t.graph_launch(graph)
    return sim.finish("graph_replay", "in_graph")


def two_streams_with_dependency(
    *, steps: int = 20, devices: int = 2, seed: int = 0, grain_ns: int = 1
) -> Run:
    """Let a second stream wait for the first, on the same or on another device of the rank.

    On one device, only the latency of the events is idle. On two, each waits for the other.
    """
    sim, rng = Simulator(devices_per_rank=devices, grain_ns=grain_ns), Random(seed)
    t = sim.main()
    other = devices - 1
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.op("aten::linear"):
                t.launch(names.GEMM, _vary(rng, 150_000))
                t.wait_event(t.record_event(), COPY_STREAM, other)
                t.launch(names.SOFTMAX, _vary(rng, 60_000), stream=COPY_STREAM, device=other)
                t.wait_event(t.record_event(COPY_STREAM, other))
    return sim.finish("two_streams_with_dependency", "dependency_wait")


def cpu_only(*, steps: int = 3, seed: int = 0, grain_ns: int = 1) -> Run:
    """Run on the host alone: the recording has no device operation."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python(TRAIN_STEP):
                t.dataloader(_vary(rng, 200_000))
                for _ in range(5):
                    with t.op("aten::linear"), t.op("aten::addmm"):
                        t.cpu(_vary(rng, 90_000))
    return sim.finish("cpu_only", "no_device")


def dominating_kernel(*, steps: int = 4, seed: int = 0, grain_ns: int = 1) -> Run:
    """Spend most of the time in one kernel among several."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t = sim.main()
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python(TRAIN_STEP):
                for _ in range(4):
                    _layer(t, rng, 25_000, 2_000)
                    with t.op("aten::scaled_dot_product_attention"):
                        t.launch(names.FLASH_ATTENTION, _vary(rng, 500_000))
    return sim.finish("dominating_kernel", "dominating_kernel")


def two_threads(*, steps: int = 4, seed: int = 0, grain_ns: int = 1) -> Run:
    """Launch the backward pass from a second thread, as autograd does, and allocate late."""
    sim, rng = Simulator(grain_ns=grain_ns), Random(seed)
    t, autograd = sim.main(), sim.add_thread(0, "pt_autograd_0")
    with t.python(MAIN):
        for number in range(steps):
            with t.step(number), t.python(TRAIN_STEP):
                for _ in range(3):
                    t.memory(1 << 20)
                    _layer(t, rng, 30_000, 3_000)
                autograd.wait_for(t)
                for _ in range(3):
                    with autograd.op("autograd::engine::evaluate_function: AddmmBackward0"):
                        autograd.launch(names.GEMM, _vary(rng, 80_000), stream=DEFAULT_STREAM)
                t.wait_for(autograd)
                t.synchronize()
                t.malloc(_vary(rng, 300_000))
                t.memory(-(3 << 20))
    return sim.finish("two_threads", "allocation")


SCENARIOS: dict[str, Callable[..., Run]] = {
    made.__name__: made
    for made in (
        healthy,
        launch_bound,
        launch_latency,
        dataloader_starved,
        sync_every_step,
        h2d_bound,
        exposed_communication,
        overlapped_communication,
        straggler,
        graph_replay,
        two_streams_with_dependency,
        cpu_only,
        dominating_kernel,
        two_threads,
        random_program,
    )
}


def simulate(name: str, **parameters: int | bool) -> Run:
    """Run a scenario by its name."""
    return SCENARIOS[name](**parameters)
