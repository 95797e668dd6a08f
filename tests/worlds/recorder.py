"""What a recorder costs a host, of which the analysis knows nothing: by event, and by wait.

A profiler acts where something begins and ends. What it takes there is added to the scripts of the
threads that it records; the same scripts without it are the truth. The program is a loop of small
operators, as the host is the limit of it or the device, with more or fewer Python frames around
each operator, operators within operators, and waits for the device.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from worlds.calls import Await, Begin, Call, Launch, Record, Spend, Sync, Work
from worlds.dice import Dice
from worlds.recorded import RankRecord
from worlds.world import COMPUTE, Script, World

STEPS, WARM_UP = 7, 1
OPERATORS = ("linear", "layer_norm", "gelu", "add", "mul", "softmax", "dropout", "transpose")
VIEWS = ("aten::t", "aten::transpose", "aten::as_strided", "aten::view", "aten::expand")
_FRAMED = ("op", "annotation", "step")


@dataclass(frozen=True)
class Recorder:
    """What each event of a kind costs, ns: half where it begins and half where it ends."""

    operator: float
    frame: float
    call: float
    sync: float
    pace: float = 1.0  # by which the core was slower on which all of it ran

    def slow(self, world: World) -> None:
        """Let the recorded threads of a world bear the cost."""
        for script in world.scripts:
            dice = Dice(world.seed, script.rank, script.name, "recorder")
            script.steps = [made for step in script.steps for made in self._add(step, dice)]

    def _add(self, step: object, dice: Dice) -> list[object]:
        match step:
            case Spend():
                step.ns = round(step.ns * self.pace)
            case Launch() | Call() | Record() | Await():
                step.ns = round((step.ns + dice.spread(self.call, 0.3)) * self.pace)
            case Sync():
                step.ns = round((step.ns + dice.spread(self.sync, 0.3)) * self.pace)
            case Begin():
                half = self.pace * (self.operator if step.kind in _FRAMED else self.frame) / 2
                return [Spend(dice.spread(half, 0.3)), step, Spend(dice.spread(half, 0.3))]
        return [step]


def draw_recorder(seed: int, pace: float = 1.0) -> Recorder:
    """Costs as far apart as recordings of PyTorch's profiler have them."""
    luck = random.Random(f"recorder/{seed}")
    return Recorder(
        operator=luck.uniform(400, 1_400),
        frame=luck.uniform(400, 1_500),
        call=luck.uniform(2_200, 3_200),
        sync=luck.uniform(3_000, 12_000),
        pace=pace,
    )


def write_small_operators(world: World, *, kernel_ns: float, without: int = 0) -> None:
    """A loop of small operators on one thread; what it is like is drawn from the seed.

    `without` so many of each layer's eight operators: a fix.

    As in PyTorch an operator that launches has three to six within it, most of which only make
    another view, and takes 12 to 30 µs while nobody records.
    """
    luck = random.Random(f"small operators/{world.seed}")
    layers, views = luck.randint(8, 16), luck.randint(2, 5)
    frames = luck.choice((0, 0, 4, 8))
    waits = luck.random() < 0.3
    own_ns = luck.uniform(8_000, 24_000)
    main = world.script(0, "main", 100)
    for number in range(WARM_UP + STEPS):
        if number == WARM_UP:
            main.start()
        with main.range("step", f"ProfilerStep#{number}"):
            for layer in range(layers):
                main.section(number, layer)
                for name in OPERATORS[without:]:
                    with _call_python(main, name, frames):
                        _write_operator(main, name, views, own_ns, kernel_ns)
                if waits:
                    main.steps.append(Sync("cudaDeviceSynchronize", ns=2_000))
    main.sync_device()


@contextmanager
def _call_python(main: Script, name: str, frames: int) -> Iterator[None]:
    """Functions that do little but call the next one: half of them around the operator."""
    for frame in range(frames // 2):
        with main.range("python", f"model.py({10 + frame}): check_{frame}"):
            main.spend(100)
        main.spend(150)
    with ExitStack() as around:
        for frame in range(frames // 2):
            around.enter_context(main.range("python", f"model.py({30 + frame}): {name}"))
            main.spend(150)
        yield
        main.spend(150)


def _write_operator(main: Script, name: str, views: int, own_ns: float, kernel_ns: float) -> None:
    with main.range("op", f"aten::{name}"):
        main.spend(0.4 * own_ns)
        for view in range(views):
            with main.range("op", VIEWS[view]):
                main.spend(250)
            main.spend(300)
        with main.range("op", f"aten::_{name}"):
            main.spend(0.4 * own_ns)
            work = Work("kernel", f"{name}_kernel", main.dice.kernel(kernel_ns))
            launch = Launch("cudaLaunchKernel", main.dice.host(2_400), COMPUTE, [work])
            main.steps.append(launch)
            main.spend(0.1 * own_ns)
        main.spend(0.1 * own_ns)
    main.spend(800)


def measure_step(rank: RankRecord) -> float:
    """A step's time, ns: from the end of one's work, or of its host part, to that of the last."""
    launches = {h.correlation: h.start for h in rank.hosts if h.kind == "api"}
    ends = []
    for step in sorted((h for h in rank.hosts if h.kind == "step"), key=lambda h: h.start):
        mine = (
            d.end for d in rank.devices if step.start <= launches.get(d.correlation, -1) < step.end
        )
        ends.append(max(step.end, *mine))
    return (ends[-1] - ends[0]) / (len(ends) - 1)
