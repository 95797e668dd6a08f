"""Random programs: a mix of everything that the simulator can do, the same for a seed."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from . import names
from .model import Run
from .program import HostThread, Simulator

STREAMS = (7, 13, 24)


def random_program(
    seed: int = 0, *, ranks: int | None = None, rounds: int = 3, grain_ns: int = 1
) -> Run:
    """Return a short random run of up to three ranks with up to two devices each."""
    rng = Random(seed)
    sim = Simulator(
        ranks or rng.choice((1, 1, 2, 3)), devices_per_rank=rng.choice((1, 1, 2)), grain_ns=grain_ns
    )
    helpers = [sim.add_thread(r.rank, "pt_autograd_0") for r in sim.ranks]
    for t in sim.mains:
        t.cpu(rng.randint(0, 50_000))
    for number in range(rounds):
        for t, helper in zip(sim.mains, helpers, strict=True):
            with t.step(number), t.python("main.py(7): loop"):
                _actions(t, rng, rng.randint(1, 8), depth=0)
                if rng.random() < 0.4:
                    helper.wait_for(t)
                    with helper.op("autograd::engine::evaluate_function: MulBackward0"):
                        _actions(helper, rng, rng.randint(1, 4), depth=1)
                    t.wait_for(helper)
        if sim.ranks[1:] and rng.random() < 0.7:
            _communicate(sim, rng)
    return sim.finish(f"random_{seed}", "")


def _communicate(sim: Simulator, rng: Random) -> None:
    kind, dtype = rng.choice(list(names.COLLECTIVES)), rng.choice(list(names.NCCL_TYPES))
    transfer_ns = rng.randint(5_000, 200_000)
    done = sim.collective(sim.mains, transfer_ns, name=kind, elements=6 << 16, dtype=dtype)
    for t, event in zip(sim.mains, done, strict=True):
        if rng.random() < 0.7:
            t.wait_event(event)


def _actions(t: HostThread, rng: Random, count: int, depth: int) -> None:
    for _ in range(count):
        if depth < 3 and rng.random() < 0.35:
            opener = rng.choice((t.op, t.annotate, t.python))
            with opener(f"{['outer', 'inner', 'leaf'][depth]}.{rng.randint(0, 9)}"):
                _actions(t, rng, rng.randint(1, 4), depth + 1)
        else:
            rng.choice(_ACTIONS)(t, rng)


def _device(t: HostThread, rng: Random) -> int:
    return rng.choice(t.rank.devices)


def _kernels(t: HostThread, rng: Random) -> None:
    stream, device = rng.choice(STREAMS), _device(t, rng)
    longest = rng.choice((2_000, 20_000, 120_000))
    for _ in range(rng.randint(1, 6)):
        grid = (rng.randint(1, 2_000), rng.randint(1, 4), 1)
        t.launch(
            rng.choice(names.COMPUTE_KERNELS),
            rng.randint(1, longest),
            stream=stream,
            device=device,
            grid=grid,
            recorded=rng.random() > 0.03,
        )


def _copy(t: HostThread, rng: Random) -> None:
    t.memcpy(
        rng.choice(("HtoD", "DtoH", "DtoD")),
        rng.randint(1, 1 << rng.randint(1, 21)),
        pinned=rng.random() < 0.6,
        blocking=rng.choice((None, True, False)),
        stream=rng.choice(STREAMS),
        device=_device(t, rng),
    )


def _fill(t: HostThread, rng: Random) -> None:
    t.memset(rng.randint(1, 1 << 22), stream=rng.choice(STREAMS), device=_device(t, rng))


def _graph(t: HostThread, rng: Random) -> None:
    kernels = [
        (rng.choice(names.COMPUTE_KERNELS), rng.randint(1, 9_000)) for _ in range(rng.randint(1, 8))
    ]
    t.graph_launch(kernels, stream=rng.choice(STREAMS), device=_device(t, rng))


def _dependency(t: HostThread, rng: Random) -> None:
    event = t.record_event(rng.choice(STREAMS), _device(t, rng))
    t.wait_event(event, rng.choice(STREAMS), _device(t, rng))


_ACTIONS: tuple[Callable[[HostThread, Random], None], ...] = (
    _kernels,
    _kernels,
    _kernels,
    _copy,
    _copy,
    _fill,
    _graph,
    _dependency,
    _dependency,
    lambda t, rng: t.cpu(rng.randint(1, 60_000)),
    lambda t, rng: t.item(stream=rng.choice(STREAMS), pinned=rng.random() < 0.5),
    lambda t, rng: t.synchronize(_device(t, rng)),
    lambda t, rng: t.stream_synchronize(rng.choice(STREAMS), _device(t, rng)),
    lambda t, rng: t.dataloader(rng.randint(1, 150_000)),
    lambda t, rng: t.malloc(rng.randint(1_000, 120_000)),
    lambda t, rng: t.free(rng.randint(1_000, 90_000)),
    lambda t, rng: t.load_module(rng.randint(1_000, 120_000)),
    lambda t, rng: t.memory(rng.randint(1, 1 << 20)),
)
