"""Programs whose cause lies in one place only: each with and without it, the gain by simulation.

Where `families.py` holds one program for each rule, these hold what rules are apt to confuse: a
launch shape with a slow kernel, one upload with an upload in every step, two streams with a device
that could run both, work that was not recorded with idle time, a display's rate with a slow host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from . import names
from .model import Run
from .program import DEFAULT_STREAM, HostThread, Simulator
from .scenarios import MAIN, TRAIN_STEP

SMS = 108  # of the GPU that the recordings name
SUM = "accumulate(float*, float const*, int)"
BACKWARD = "autograd::engine::evaluate_function: AddmmBackward0"


def vary(rng: Random, duration_ns: int) -> int:
    """The duration, up to 5 % shorter or longer."""
    return duration_ns * rng.randint(950, 1050) // 1000


def product(t: HostThread, rng: Random, length_ns: int, stream: int = DEFAULT_STREAM) -> None:
    """A matrix product that fills the device, launched ahead of it."""
    with t.op("aten::addmm"):
        t.cpu(vary(rng, 3_000))
        t.launch(names.GEMM, vary(rng, length_ns), stream=stream, grid=(4_224, 1, 1))


def one_block(planted: bool, seed: int) -> Run:
    """Among products one kernel runs in one block of 32 threads; healthy, on the whole device."""
    sim, rng = Simulator(), Random(seed)
    t = sim.main()
    for number in range(30):
        with t.step(number):
            for _ in range(3):
                product(t, rng, 50_000)
            length = vary(rng, 1_800_000)
            with t.op("aten::op"):
                if planted:
                    t.launch(SUM, length, grid=(1, 1, 1), block=(32, 1, 1))
                else:
                    t.launch(SUM, length // (4 * SMS), grid=(4 * SMS, 1, 1))
    return sim.finish("one-block", "few-blocks" if planted else "")


def one_upload(planted: bool, seed: int) -> Run:
    """One pageable upload before 150 products."""
    sim, rng = Simulator(), Random(seed)
    t = sim.main()
    if planted:
        with t.op("aten::copy_"):
            t.memcpy("HtoD", 84_000_000, pinned=False, rate=7 * 10**9)
    for _ in range(150):
        product(t, rng, 300_000)
    t.synchronize()
    return sim.finish("one-upload", "")


def two_streams(planted: bool, seed: int) -> Run:
    """Images on two streams in turn, a synchronization after each; healthy without them."""
    sim, rng = Simulator(), Random(seed)
    t = sim.main()
    for image in range(24):
        stream = 14 + image % 2
        with t.annotate("infer"):
            t.cpu(vary(rng, 150_000))
            if image:  # the device has room for one of them
                t.wait_event(t.record_event(14 + (image + 1) % 2), stream)
            for _ in range(6):
                product(t, rng, 90_000, stream)
            if planted:
                t.stream_synchronize(stream)
                t.cpu(vary(rng, 90_000))
    return sim.finish("two-streams", "sync-in-step" if planted else "")


def event_of_nothing(planted: bool, seed: int) -> Run:
    """The first operation waits for an event of work that nobody recorded."""
    sim, rng = Simulator(), Random(seed)
    t = sim.main()
    if planted:
        t.memset(4_096)
        t.wait_event(replace(t.record_event(99), done_ns=480_000_000))
    for _ in range(200):
        product(t, rng, 200_000)
    t.synchronize()
    return sim.finish("event-of-nothing", "")


def slowed_by_communication(planted: bool, seed: int) -> Run:
    """While an all-reduce runs beside them, products take half as long again."""
    sim, rng = Simulator(2), Random(seed)
    for number in range(6):
        scripts = [t.step(number) for t in sim.mains]
        for step in scripts:
            step.__enter__()
        for t in sim.mains:
            for _ in range(30):
                product(t, rng, 400_000)
        done = sim.collective(sim.mains, 12_000_000, elements=64 << 20)
        for t in sim.mains:
            for beside in range(30):
                product(t, rng, 600_000 if planted and beside < 20 else 400_000)
        for t, event in zip(sim.mains, done, strict=True):
            t.wait_event(event)
            product(t, rng, 400_000)
        for step in scripts:
            step.__exit__(None, None, None)
    return sim.finish("slowed-by-communication", "overlap-slows-compute" if planted else "")


def slow_link(planted: bool, seed: int) -> Run:
    """Four stages of a pipeline; the link between the second and third is ten times slower."""
    sim, rng = Simulator(4), Random(seed)
    for _batch in range(20):
        for stage in range(4):
            for _ in range(4):
                product(sim.mains[stage], rng, 60_000)
            if stage == 3:
                continue
            ns = 800_000 if planted and stage == 1 else 80_000
            pair = sim.mains[stage : stage + 2]
            done = sim.collective(pair, ns, name="send_recv", elements=1 << 20, group=f"{stage}")
            pair[1].wait_event(done[1])
    return sim.finish("slow-link", "slow-link" if planted else "")


def micro_steps(planted: bool, seed: int) -> Run:
    """Four micro-steps of a step reduce two buckets each; healthy, only the last does."""
    sim, rng = Simulator(2), Random(seed)
    for number in range(5):
        scripts = [t.step(number) for t in sim.mains]
        for step in scripts:
            step.__enter__()
        for micro in range(4):
            for t in sim.mains:
                for _ in range(10):
                    product(t, rng, 800_000)
            backward = [t.op(BACKWARD) for t in sim.mains]
            for part in backward:
                part.__enter__()
            for t in sim.mains:
                for _ in range(10):
                    product(t, rng, 800_000)
            for elements in (48 << 20, 16 << 20) if planted or micro == 3 else ():
                done = sim.collective(sim.mains, vary(rng, elements // 14), elements=elements)
            for part in backward:
                part.__exit__(None, None, None)
            if planted or micro == 3:
                for t, event in zip(sim.mains, done, strict=True):
                    t.wait_event(event)
        for t in sim.mains:
            with t.annotate("Optimizer.step#AdamW.step"), t.op("aten::_fused_adamw_"):
                t.launch(names.ADAM, vary(rng, 900_000))
        for step in scripts:
            step.__exit__(None, None, None)
    return sim.finish("micro-steps", "reduced-each-micro-step" if planted else "")


def loss_loop(planted: bool, seed: int) -> Run:
    """A loss computed row by row: 768 tiny kernels a step; healthy, one kernel."""
    sim, rng = Simulator(), Random(seed)
    t = sim.main()
    with t.python(MAIN):
        for number in range(5):
            with t.step(number), t.python(TRAIN_STEP):
                for _ in range(100):
                    product(t, rng, 430_000)
                if planted:
                    with t.python("train.py(52): box_loss"):
                        for _ in range(256):
                            for op, kernel in (
                                ("aten::sub", names.ADD),
                                ("aten::abs", names.ADD),
                                ("aten::add", names.ADD),
                            ):
                                with t.op(op):
                                    t.cpu(vary(rng, 8_000))
                                    t.launch(kernel, vary(rng, 5_000), grid=(1, 1, 1))
                else:
                    with t.python("train.py(52): box_loss"):
                        for _ in range(3):
                            with t.op("aten::sub"):
                                t.launch(names.ADD, 3_000, grid=(64, 1, 1))
                t.item()
    return sim.finish("loss-loop", "kernel-loop" if planted else "")


def display_loop(planted: bool, seed: int) -> Run:
    """A loop that waits for the display: 60 frames a second, of which the device works little."""
    sim, rng = Simulator(), Random(seed)
    t = sim.main()
    frame_ns = 16_666_667
    for number in range(120):
        t.cpu(max(0, number * frame_ns - t.now_ns))
        t.call("cudaGraphicsMapResources", 30_000)
        product(t, rng, 110_000)
        t.synchronize()
        t.call("cudaGraphicsUnmapResources", 20_000)
    return sim.finish("display-loop", "")


@dataclass(frozen=True)
class Twin:
    """A program with and without its cause, and the rule that names it (none: nothing to gain)."""

    build: Callable[[bool, int], Run]
    rule: str = ""
    recorders: tuple[str, ...] = ("kineto", "nsys")


KINETO = ("kineto",)  # says which message is which, and in which backward pass
TWINS = {
    "one block of 32 threads": Twin(one_block, "few-blocks"),
    "one upload before the loop": Twin(one_upload),
    "two streams in turn, each waited for": Twin(two_streams, "sync-in-step"),
    "an event of what was not recorded": Twin(event_of_nothing),
    "an all-reduce beside compute": Twin(slowed_by_communication, "overlap-slows-compute"),
    "one slow link of a pipeline": Twin(slow_link, "slow-link", KINETO),
    "all-reduce in each micro-step": Twin(micro_steps, "reduced-each-micro-step", KINETO),
    "a loss in a loop of tiny kernels": Twin(loss_loop, "kernel-loop"),
    "held to a display": Twin(display_loop),
}
