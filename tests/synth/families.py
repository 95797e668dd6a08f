"""Families of programs, one for each problem that a timeline can show.

`build(size, seed, planted)` simulates a program with the family's problem, or its healthy twin:
the same program, with the same random variations, without it. The true gain is the difference of
the two windows, so it is known without any of the tool's code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from . import names
from .model import Costs, Migration, Run, Sample
from .program import HostThread, Simulator
from .scenarios import MAIN, TRAIN_STEP

SGEMM = "ampere_sgemm_128x64_tn"
TF32 = "ampere_tf32_s1688gemm_128x64_tn"
TO_NHWC = (
    "void cudnn::ops::nchwToNhwcKernel<float, float, float, false, true, (cudnnKernelDataType_t)0>"
)
CAST = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#1}, at::detail::Array<char*, 2>>"
)
SCALE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::AUnaryFunctor<float, float, "
    "float, at::native::binary_internal::MulFunctor<float> >, at::detail::Array<char*, 2> >"
)
TF32_SPEEDUP = 8  # A100: 156 against 19.5 TFLOP/s


@dataclass(frozen=True)
class Family:
    """A problem, by the name of the rule that must find it, and its programs."""

    rule: str
    build: Callable[[int, int, bool], Run]
    recorder: str = "kineto"  # or "nsys", where only Nsight Systems records the evidence


def _vary(rng: Random, duration_ns: int) -> int:
    return duration_ns * rng.randint(900, 1100) // 1000


def _layers(t: HostThread, rng: Random, count: int, kernel_ns: int = 90_000) -> None:
    """Layers of three kernels that keep the device busy for longer than they take to launch."""
    for _ in range(count):
        for op, kernel, share in (
            ("aten::layer_norm", names.LAYER_NORM, 2),
            ("aten::addmm", names.GEMM, 7),
            ("aten::gelu", names.GELU, 3),
        ):
            with t.op(op):
                t.cpu(_vary(rng, 3_000))
                t.launch(kernel, _vary(rng, kernel_ns * share // 4))


Part = Callable[[HostThread, Random, int, bool], None]


def _steps(name: str, part: Part, *, before: int = 3, after: int = 3) -> Callable[..., Run]:
    """Steps of layers, with `part(thread, rng, step, planted)` between them."""

    def build(size: int, seed: int, planted: bool) -> Run:
        sim, rng = Simulator(), Random(seed)
        t = sim.main()
        with t.python(MAIN):
            for number in range(4 + 4 * size):
                with t.step(number), t.python(TRAIN_STEP):
                    _layers(t, rng, before)
                    part(t, Random(seed * 1000 + number), number, planted)
                    _layers(t, rng, after)
        return sim.finish(name, name if planted else "")

    return build


def _load(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    if planted:
        t.dataloader(_vary(rng, 6_000_000))


def _item(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    for _ in range(4):
        _layers(t, rng, 1, 40_000)
        if planted:
            t.item()
        t.cpu(_vary(rng, 60_000))


def _log(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    if planted:
        with t.python("train.py(67): log_everything"):
            t.cpu(_vary(rng, 5_000_000))


def _churn(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    if planted:
        t.free(_vary(rng, 900_000))
        t.malloc(_vary(rng, 1_200_000))


def _load_code(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    if planted:
        t.load_module(_vary(rng, 5_000_000))


def _compile(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    if planted and number:  # what the first step compiles is warm-up
        with t.annotate("_compile.compile_inner (dynamo_timed)"):
            t.cpu(_vary(rng, 6_000_000))


def _first(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    if planted and number == 0:
        t.cpu(_vary(rng, 30_000_000))


def _copy(kind: str, size: int, *, pinned: bool = True, blocking: bool = False) -> Part:
    def part(t: HostThread, rng: Random, number: int, planted: bool) -> None:
        if planted:
            rate = 24 * 10**9 if pinned else 7 * 10**9
            if kind == "DtoD":
                rate = 400 * 10**9
            with t.op("aten::copy_"):
                t.memcpy(kind, _vary(rng, size), pinned=pinned, rate=rate, blocking=blocking)

    return part


def _small_copies(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    for _ in range(300 if planted else 0):
        with t.op("aten::copy_"):
            t.cpu(_vary(rng, 12_000))
            t.memcpy("HtoD", 4_096)


def _fill(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    if planted:
        t.memset(_vary(rng, 600 << 20))


def _kernel(t: HostThread, rng: Random, name: str, length_ns: int, op: str = "aten::op") -> None:
    with t.op(op):
        t.cpu(_vary(rng, 3_000))
        t.launch(name, _vary(rng, length_ns))


def _chain(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    for _ in range(3):
        length = _vary(rng, 120_000)
        for _ in range(5 if planted else 1):
            with t.op("aten::add"):
                t.launch(names.ADD, length, grid=(864, 1, 1))
        _kernel(t, rng, names.GEMM, 150_000)


def _vector_gemm(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    for _ in range(3):
        length = TF32_SPEEDUP * _vary(rng, 60_000)
        with t.op("aten::mm"):
            t.launch(SGEMM if planted else TF32, length if planted else length // TF32_SPEEDUP)


def _layout(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    for _ in range(4):
        length = _vary(rng, 110_000)
        if planted:
            with t.op("aten::cudnn_convolution"):
                t.launch(TO_NHWC, length)
        _kernel(t, rng, names.GEMM_LARGE, 100_000)


def _casts(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    for _ in range(4):
        length = _vary(rng, 110_000)
        if planted:
            with t.op("aten::to"), t.op("aten::_to_copy"), t.op("aten::copy_"):
                t.launch(CAST, length)
        _kernel(t, rng, names.GEMM, 120_000)


def _attention(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    for _ in range(3):
        scale, softmax = _vary(rng, 80_000), _vary(rng, 160_000)
        _kernel(t, rng, names.GEMM, 60_000, "aten::bmm")
        if planted:
            with t.op("aten::mul"):
                t.launch(SCALE, scale)
            with t.op("aten::softmax"):
                t.launch(names.SOFTMAX, softmax)
        _kernel(t, rng, names.GEMM, 60_000, "aten::bmm")


def _uneven(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    for i in range(12):
        slow = 10 if planted and i % 6 == 2 else 1
        with t.op("aten::index", **{"Input Dims": [[4096, 1024], [77]]}):
            t.launch(names.TRITON, slow * 70_000, grid=(77, 1, 1))
        _kernel(t, rng, names.GEMM, 20_000)


def _serial(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    """A scan that fills the device, or one block of one warp that takes as much longer."""
    grid, block, times = ((1, 1, 1), (32, 1, 1), 112) if planted else ((432, 1, 1), (128, 1, 1), 1)
    with t.op("ops::scan"):
        t.launch("scan_rows(float const*, float*, int)", times * 12_000, grid=grid, block=block)


def _half_warps(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    """The same threads in blocks of half a warp, of which every other lane is idle."""
    grid, block, times = (
        ((43_200, 1, 1), (16, 1, 1), 2) if planted else ((5_400, 1, 1), (128, 1, 1), 1)
    )
    with t.op("ops::sweep"):
        t.launch("sweep_rows(float const*, float*, int)", times * 900_000, grid=grid, block=block)


def _launch_bound(size: int, seed: int, planted: bool) -> Run:
    """The same kernels one by one, or as one graph a step."""
    sim, rng = Simulator(), Random(seed)
    t = sim.main()
    kinds = (names.LAYER_NORM, names.GEMM, names.GELU)
    with t.python(MAIN):
        for number in range(4 + 4 * size):
            work = [(kinds[i % 3], _vary(rng, 12_000)) for i in range(60)]
            with t.step(number), t.python(TRAIN_STEP):
                if not planted:
                    t.graph_launch(work)
                for kernel, length in work if planted else ():
                    with t.op("aten::op"):
                        t.cpu(_vary(rng, 30_000))
                        t.launch(kernel, length)
    return sim.finish("launch-bound", "launch-bound" if planted else "")


def _tiny(size: int, seed: int, planted: bool) -> Run:
    """A graph of kernels of 3 µs, or one kernel that does the same."""
    sim, rng = Simulator(), Random(seed)
    t = sim.main()
    kinds = (names.LAYER_NORM, names.GEMM, names.GELU)
    with t.python(MAIN):
        for number in range(10 + 10 * size):
            lengths = [_vary(rng, 3_000) for _ in range(200)]
            if not planted:
                lengths = [sum(lengths)]
            with t.step(number), t.python("torch/cuda/graphs.py(88): replay"):
                t.graph_launch([(kinds[i % 3], ns) for i, ns in enumerate(lengths)])
    return sim.finish("tiny-kernels", "tiny-kernels" if planted else "")


def _full_queue(size: int, seed: int, planted: bool) -> Run:
    """A burst of launches fills one stream's queue, and the other stream's work comes behind it."""
    sim, rng = Simulator(costs=Costs(queue_limit=1_024 if planted else 1 << 40)), Random(seed)
    t = sim.main()
    for number in range(1 + size):
        with t.step(number), t.python(TRAIN_STEP):
            for _ in range(1_600):
                t.launch(names.GEMM, _vary(rng, 30_000))
            for _ in range(200):
                t.launch(names.GEMM_LARGE, _vary(rng, 200_000), stream=20)
            t.synchronize()
    return sim.finish("queue-full", "queue-full" if planted else "")


def _ranks(name: str, body: Callable[..., None], ranks: int = 3) -> Callable[..., Run]:
    """Steps on several ranks; `body(sim, rngs, rng, planted)` does one step on all of them."""

    def build(size: int, seed: int, planted: bool) -> Run:
        sim, rng = Simulator(ranks), Random(seed)
        rngs = [Random(seed * 100 + r) for r in range(ranks)]
        for number in range(4 + 4 * size):
            scripts = [(t.step(number), t.python(TRAIN_STEP)) for t in sim.mains]
            for step, function in scripts:
                step.__enter__()
                function.__enter__()
            body(sim, rngs, rng, planted)
            for step, function in scripts:
                function.__exit__(None, None, None)
                step.__exit__(None, None, None)
        return sim.finish(name, name if planted else "")

    return build


def _all_reduce(
    sim: Simulator, transfer_ns: int, *, elements: int = 4 << 20, wait: bool = True
) -> None:
    done = sim.collective(sim.mains, transfer_ns, elements=elements)
    for t, event in zip(sim.mains, done, strict=True):
        if wait:
            t.wait_event(event)


def _buckets(sim: Simulator, rngs: list[Random], rng: Random, planted: bool) -> None:
    for _ in range(3):
        for t, mine in zip(sim.mains, rngs, strict=True):
            _layers(t, mine, 2)
        transfer = _vary(rng, 500_000)
        _all_reduce(sim, transfer if planted else 1)


def _small_collectives(sim: Simulator, rngs: list[Random], rng: Random, planted: bool) -> None:
    for _ in range(12):
        for t, mine in zip(sim.mains, rngs, strict=True):
            _layers(t, mine, 1, 50_000)
        transfer = _vary(rng, 90_000)
        _all_reduce(sim, transfer if planted else 1, elements=16 << 10)


BEST_MHZ, LOW_MHZ = 1410, 900
CLOCK, REASONS = "GPC Clock Frequency [MHz]", "clocks_event_reasons"


def _clocked(name: str, bits: int) -> Callable[..., Run]:
    """From the third step on the clock is low, and kernels take as much longer."""

    def build(size: int, seed: int, planted: bool) -> Run:
        sim, rng = Simulator(), Random(seed)
        t = sim.main()
        for number in range(4 + 4 * size):
            low = planted and number >= 2
            mhz = LOW_MHZ if low else BEST_MHZ
            with t.step(number), t.python(TRAIN_STEP):
                for metric, value in ((CLOCK, mhz), (REASONS, bits if low else 0)):
                    t.rank.samples.append(Sample(t.now_ns, t.device, metric, value))
                for _ in range(6):
                    for op, kernel, ns in (
                        ("aten::addmm", names.GEMM, 180_000),
                        ("aten::gelu", names.GELU, 70_000),
                    ):
                        with t.op(op):
                            t.launch(kernel, _vary(rng, ns) * BEST_MHZ // mhz)
                t.synchronize()
        return sim.finish(name, name if planted else "")

    return build


PAGE = 2 << 20
FAULT_NS = 90_000


def _thrash(t: HostThread, rng: Random, number: int, planted: bool) -> None:
    """A kernel that faults for its pages, which the host has touched since the last time."""
    length, faults = _vary(rng, 300_000), 8 if planted else 0
    op = t.launch(names.TRITON, length + 2 * faults * FAULT_NS)
    at = op.start_ns
    for page in range(faults):
        for kind in ("UVM DtoH", "UVM HtoD"):
            end = at + FAULT_NS
            t.rank.migrations.append(Migration(t.device, kind, at, end, page * PAGE, PAGE))
            at = end


def _one_device(size: int, seed: int, planted: bool) -> Run:
    """Two processes on one of two devices take turns, so that each kernel lasts twice as long."""
    sim, rng = Simulator(2), Random(seed)
    for rank in sim.ranks:
        rank.devices[:] = [0, 1]
    for number in range(4 + 4 * size):
        for _ in range(10):
            length = _vary(rng, 200_000)
            for t in sim.mains:
                t.device = 0 if planted else t.rank.rank
                t.launch(names.GEMM, 2 * length if planted else length)
        for t in sim.mains:
            t.synchronize()
            t.cpu(10_000 + number)
    return sim.finish("wrong-device-idle", "wrong-device-idle" if planted else "")


def _slow_link(sim: Simulator, rngs: list[Random], rng: Random, planted: bool) -> None:
    """Equal collectives, of which every third takes thirty times as long."""
    for number in range(6):
        for t, mine in zip(sim.mains, rngs, strict=True):
            _layers(t, mine, 2)
        transfer = _vary(rng, 20_000)
        _all_reduce(sim, 30 * transfer if planted and number % 3 == 1 else transfer)


def _late_rank(sim: Simulator, rngs: list[Random], rng: Random, planted: bool) -> None:
    late = _vary(rng, 4_000_000)
    for t, mine in zip(sim.mains, rngs, strict=True):
        _layers(t, mine, 4)
        if planted and t.rank.rank == 1:
            with t.python("train.py(67): log_everything"):
                t.cpu(late)
        _layers(t, mine, 4)
    _all_reduce(sim, 60_000)


def _more_work(sim: Simulator, rngs: list[Random], rng: Random, planted: bool) -> None:
    for t, mine in zip(sim.mains, rngs, strict=True):
        more = planted and t.rank.rank == 1
        _layers(t, mine, 8, 180_000 if more else 90_000)
    _all_reduce(sim, 60_000)


def _contended(sim: Simulator, rngs: list[Random], rng: Random, planted: bool) -> None:
    """While an all-reduce runs beside them, kernels are slower."""
    for t, mine in zip(sim.mains, rngs, strict=True):
        _layers(t, mine, 4)
    _all_reduce(sim, 6_150_000, wait=False)
    for t, mine in zip(sim.mains, rngs, strict=True):
        _layers(t, mine, 16, 126_000 if planted else 90_000)
        _layers(t, mine, 8)
    for t in sim.mains:
        t.wait_event(t.record_event(20))


def _pipeline(size: int, seed: int, planted: bool) -> Run:
    """Two stages: the second can only begin a micro-batch when the first has sent it."""
    sim = Simulator(2)
    rngs = [Random(seed * 100 + r) for r in range(2)]
    for _ in range(6 + 6 * size):
        _layers(sim.mains[0], rngs[0], 3)
        if planted:
            done = sim.collective(sim.mains, 60_000, name="send_recv", elements=1 << 22)
            for t, event in zip(sim.mains, done, strict=True):
                t.wait_event(event)
        _layers(sim.mains[1], rngs[1], 3)
        if planted:
            done = sim.collective(sim.mains, 60_000, name="send_recv", elements=1 << 22)
            for t, event in zip(sim.mains, done, strict=True):
                t.wait_event(event)
    return sim.finish("pipeline-bubble", "pipeline-bubble" if planted else "")


ONLY_NSYS = ("unified-memory-thrashing", "wrong-device-idle")
FAMILIES: dict[str, Family] = {
    rule: Family(rule, build, "nsys" if rule in ONLY_NSYS else "kineto")
    for rule, build in {
        "dataloader-starved": _steps("dataloader-starved", _load, before=1),
        "sync-in-step": _steps("sync-in-step", _item, before=0, after=1),
        "host-late": _steps("host-late", _log),
        "first-iteration-included": _steps("first-iteration-included", _first),
        "launch-bound": _launch_bound,
        "tiny-kernels": _tiny,
        "allocator-churn": _steps("allocator-churn", _churn),
        "jit-or-module-load-in-window": _steps("jit-or-module-load-in-window", _load_code),
        "recompilation": _steps("recompilation", _compile),
        "queue-full": _full_queue,
        "h2d-bound": _steps("h2d-bound", _copy("HtoD", 32 << 20)),
        "pageable-copies": _steps(
            "pageable-copies", _copy("HtoD", 16 << 20, pinned=False, blocking=True)
        ),
        "d2h-in-step": _steps("d2h-in-step", _copy("DtoH", 32 << 20, blocking=True)),
        "many-small-copies": _steps("many-small-copies", _small_copies),
        "redundant-memset": _steps("redundant-memset", _fill),
        "copy-bound": _steps("copy-bound", _copy("DtoD", 256 << 20)),
        "unfused-elementwise-chain": _steps("unfused-elementwise-chain", _chain),
        "no-tensor-cores": _steps("no-tensor-cores", _vector_gemm),
        "layout-conversions": _steps("layout-conversions", _layout),
        "dtype-casts": _steps("dtype-casts", _casts),
        "attention-not-fused": _steps("attention-not-fused", _attention),
        "slow-variant": _steps("slow-variant", _uneven),
        "few-blocks": _steps("few-blocks", _serial),
        "small-blocks": _steps("small-blocks", _half_warps),
        "exposed-communication": _ranks("exposed-communication", _buckets),
        "small-collectives": _ranks("small-collectives", _small_collectives),
        "collective-below-bandwidth": _ranks("collective-below-bandwidth", _slow_link),
        "unified-memory-thrashing": _steps("unified-memory-thrashing", _thrash),
        "wrong-device-idle": _one_device,
        "clock-throttled": _clocked("clock-throttled", 0),
        "power-capped": _clocked("power-capped", 0x4),
        "thermal": _clocked("thermal", 0x40),
        "straggler-rank": _ranks("straggler-rank", _late_rank),
        "imbalance": _ranks("imbalance", _more_work),
        "overlap-slows-compute": _ranks("overlap-slows-compute", _contended, 2),
        "pipeline-bubble": _pipeline,
    }.items()
}


def window_ns(run: Run) -> int:
    """From the first start to the last end of a device's operations, of the slowest device."""
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for rank in run.ranks:
        for op in rank.ops:
            low, high = spans.get((rank.rank, op.device), (op.start_ns, op.end_ns))
            spans[rank.rank, op.device] = min(low, op.start_ns), max(high, op.end_ns)
    return max(high - low for low, high in spans.values())


def true_gain_ns(family: Family, size: int, seed: int) -> int:
    """What the window would lose without the problem: the simulator run again without it."""
    return window_ns(family.build(size, seed, True)) - window_ns(family.build(size, seed, False))
