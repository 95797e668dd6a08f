"""A world: a program, its luck, the causes planted in it, and the threads that they make."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from worlds.calls import (
    Await,
    Begin,
    Call,
    Collective,
    End,
    Get,
    Launch,
    Meet,
    Put,
    Record,
    Spend,
    Start,
    Sync,
    Work,
)
from worlds.dice import Dice
from worlds.kernels import Kernel, make_work
from worlds.machine import Machine, Thread
from worlds.recorded import RunRecord

COMPUTE, COPIES, COMM = 7, 20, 24  # numbers of streams, as real recordings have them
H2D_PINNED, H2D_PAGEABLE, D2H_PAGEABLE = 25.0, 7.0, 5.0  # bytes a ns (GB/s), PCIe 4
DISPATCH_NS = 5_000  # a framework operator before its launch
LAUNCH_NS = 4_200  # cudaLaunchKernel (median of real recordings: 3.2 to 5.2 µs)


@dataclass
class World:
    """What a program is built from; `planted` gives each cause its severity."""

    seed: int
    planted: dict[str, float] = field(default_factory=dict)
    vendor: str = "nvidia"
    python_frames: bool = False
    operators: bool = True
    pace_ns: float = 0.0  # extra host time of each operator where launches are slow, per severity
    scripts: list[Script] = field(default_factory=list)
    clocks: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    loaded: dict[int, set[str]] = field(default_factory=dict)
    ranks: int = 1
    link: float = 50.0  # bytes a ns (GB/s): between nodes, as all-reduce sees it
    places: dict[int, int] = field(default_factory=dict)

    def severity(self, cause: str) -> float:
        """How severe a cause is here; 0 where it is not planted."""
        return self.planted.get(cause, 0.0)

    def script(self, rank: int, name: str, tid: int, *, recorded: bool = True) -> Script:
        """A new host thread."""
        made = Script(self, rank, name, tid, recorded=recorded)
        self.scripts.append(made)
        return made

    def play(self) -> RunRecord:
        """Play all threads."""
        threads = [Thread(s.rank, s.tid, s.name, s.steps, s.recorded) for s in self.scripts]
        beside = 1.0 + 0.5 * self.severity("crowded-compute")
        return Machine(threads, self.clock, self.places, beside).play()

    def clock(self, rank: int, since_start: int) -> float:
        """The factor on the length of kernels that start now (ns since the profiler's start)."""
        factor = 1.0
        for since, then in self.clocks.get(rank, []):
            if since_start >= since:
                factor = then
        return factor


class Script:
    """The steps of one host thread, as they are written."""

    def __init__(self, world: World, rank: int, name: str, tid: int, *, recorded: bool):
        self.world = world
        self.rank = rank
        self.name = name
        self.tid = tid
        self.recorded = recorded
        self.steps: list[object] = []
        self.dice = Dice(world.seed, rank, name, "start")

    def section(self, *name: object) -> None:
        """From here on, draw from another stream of luck, so that what came before is forgotten."""
        self.dice = Dice(self.world.seed, self.rank, self.name, *name)

    @contextmanager
    def luck(self, *name: object) -> Iterator[None]:
        """Draw what a cause adds from luck of its own: all other draws stay as they are."""
        kept, self.dice = self.dice, Dice(self.world.seed, self.rank, self.name, *name)
        yield
        self.dice = kept

    @contextmanager
    def range(self, kind: str, name: str, **args: object) -> Iterator[None]:
        """A range around what is written inside."""
        self.steps.append(Begin(kind, name, dict(args)))
        yield
        self.steps.append(End())

    def spend(self, ns: float) -> None:
        """Some host work of about `ns`."""
        self.steps.append(Spend(self.dice.host(ns)))

    def work(self, kind: str, ns: float, name: str) -> None:
        """Some host work with a range of its own."""
        with self.range(kind, name):
            self.spend(ns)

    def call(self, api: str, ns: float) -> None:
        """A call of the runtime that puts nothing on the device."""
        self.steps.append(Call(api, self.dice.host(ns)))

    def start(self) -> None:
        """The profiler starts; the program has waited for the device before."""
        self.sync_device()
        self.steps.append(Start())

    def launch(self, works: Sequence[Work], stream: int = COMPUTE, graph: int = 0) -> None:
        """Launch kernels: one call each, or one for a graph."""
        if graph:
            call = Launch("cudaGraphLaunch", self.dice.host(9_000), stream, works, graph)
            self.steps.append(call)
            return
        for work in works:
            extra = self.load_module(work.name)
            length = self.dice.host(LAUNCH_NS) + extra
            self.steps.append(Launch("cudaLaunchKernel", length, stream, [work]))

    def load_module(self, name: str) -> int:
        """What the first launch of a kernel takes longer (ns), where modules load lazily."""
        if not self.world.severity("module-loading"):
            return 0
        loaded = self.world.loaded.setdefault(self.rank, set())
        if name in loaded:
            return 0
        loaded.add(name)
        dice = Dice(self.world.seed, "module", name)
        return dice.spread(2_500_000 * self.world.severity("module-loading"), 0.5)

    def op(
        self, name: str, kernels: Sequence[Kernel], stream: int = COMPUTE, sequence: int = 0
    ) -> list[Work]:
        """A framework operator that launches kernels."""
        slow = self.world.severity("host-launch") * self.world.pace_ns
        plain = bool(self.world.severity("no-tensor-cores")) and self.world.vendor == "nvidia"
        works = [make_work(k, self.dice, self.world.vendor, plain=plain) for k in kernels]
        args: dict[str, object] = {"sequence": sequence} if sequence else {}
        if not self.world.operators:
            self.steps.append(Spend(self.dice.host(DISPATCH_NS) + round(slow)))
            self.launch(works, stream)
            return works
        with self.range("op", name, **args):
            self.steps.append(Spend(self.dice.host(DISPATCH_NS) + round(slow)))
            inner = {"aten::linear": "aten::addmm", "aten::conv2d": "aten::cudnn_convolution"}
            if name in inner:
                with self.range("op", inner[name]):
                    self.launch(works, stream)
            else:
                self.launch(works, stream)
            self.steps.append(Spend(self.dice.host(800)))
        return works

    def copy(
        self,
        direction: str,
        size: int,
        stream: int = COMPUTE,
        *,
        pageable: bool = False,
        blocks: bool | None = None,
    ) -> None:
        """A copy between host and device; from pageable memory it blocks the host."""
        rate = H2D_PINNED
        if pageable:
            rate = H2D_PAGEABLE if direction == "H2D" else D2H_PAGEABLE
        work = Work(
            "memcpy",
            direction,
            self.dice.spread(1_300 + size / rate, 0.04),
            bytes=size,
            copy=direction,
            pageable=pageable,
            clocked=False,
        )
        waits = pageable if blocks is None else blocks
        length = self.dice.host(6_000)
        self.steps.append(Launch("cudaMemcpyAsync", length, stream, [work], blocks=waits))
        if waits:
            self.steps.append(Sync("cudaStreamSynchronize", stream=stream, ns=2_500))

    def fill(self, size: int, stream: int = COMPUTE) -> None:
        """Set memory of the device."""
        work = Work("memset", "Memset (Device)", self.dice.spread(1_100 + size / 1_500), bytes=size)
        self.steps.append(Launch("cudaMemsetAsync", self.dice.host(3_600), stream, [work]))

    def item(self, name: str = "aten::item") -> None:
        """Read one number of the device: the host waits for all that the stream has to do."""
        with self.range("op", name), self.range("op", "aten::_local_scalar_dense"):
            self.spend(3_000)
            work = Work(
                "memcpy", "D2H", self.dice.spread(1_500), bytes=4, copy="D2H", clocked=False
            )
            work.pageable = True
            api = Launch("cudaMemcpyAsync", self.dice.host(7_000), COMPUTE, [work], blocks=True)
            self.steps.append(api)
            self.steps.append(Sync("cudaStreamSynchronize", stream=COMPUTE, ns=2_500))

    def sync_device(self) -> None:
        """Wait for all of the device."""
        self.steps.append(Sync("cudaDeviceSynchronize"))

    def sync_free(self, count: int = 1) -> None:
        """Give memory of the device back, which waits for all of it."""
        self.steps.append(Sync("cudaFree", ns=self.dice.host(180_000)))

    def record(self, event: Hashable, stream: int) -> None:
        """Put an event on a stream."""
        self.steps.append(Record((self.rank, event), stream))

    def wait(self, event: Hashable, stream: int) -> None:
        """Let a stream wait for an event."""
        self.steps.append(Await((self.rank, event), stream))

    def wait_host(self, event: Hashable) -> None:
        """Let this thread wait for an event."""
        self.steps.append(Sync("cudaEventSynchronize", event=(self.rank, event)))

    def put(self, queue: Hashable, room: int = 1_000_000) -> None:
        """Hand an item to another thread of this rank."""
        self.steps.append(Put((self.rank, queue), room))

    def get(self, queue: Hashable, waits: str = "pthread_cond_wait") -> None:
        """Take an item from another thread of this rank."""
        self.steps.append(Get((self.rank, queue), waits))

    def meet(self, key: Hashable, ns: float) -> None:
        """Wait for all ranks on the host, then exchange for `ns`."""
        # One length for all ranks, whoever draws it.
        length = Dice(self.world.seed, "meet", key).spread(ns, 0.1)
        self.steps.append(Meet(key, self.world.ranks, length))

    def communicate(
        self,
        op: str,
        key: Hashable,
        size: int,
        ns: float,
        *,
        stream: int = COMM,
        ranks: Sequence[int] | None = None,
        sequence: int = 0,
        source: int | None = None,
    ) -> None:
        """A collective: an operator, and a kernel that waits for its peers."""
        group = tuple(ranks if ranks is not None else range(self.world.ranks))
        length = Dice(self.world.seed, "collective", key).spread(ns, 0.05)
        name = nccl_name(op, self.world.vendor)
        collective = Collective(key, op, group, size, sequence, source)
        work = Work(
            "kernel",
            name,
            length,
            share=0.0,
            grid=(24, 1, 1),
            block=(544, 1, 1),
            registers=96,
            shared_bytes=88_016,
            bytes=size,
            collective=collective,
            clocked=False,
        )
        with (
            self.range("op", f"c10d::{op.lower()}_"),
            self.range("op", "record_param_comms", collective=collective),
        ):
            self.spend(9_000)
            self.steps.append(Launch("cudaLaunchKernelExC", self.dice.host(6_000), stream, [work]))


def nccl_name(op: str, vendor: str) -> str:
    """A collective's kernel, as NCCL and RCCL name it."""
    if vendor == "amd":
        return "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)"
    kind = {
        "AllReduce": "AllReduce_Sum_bf16_RING_LL",
        "AllGather": "AllGather_RING_LL",
        "ReduceScatter": "ReduceScatter_Sum_bf16_RING_LL",
        "AllToAll": "SendRecv",
        "SendRecv": "SendRecv",
    }[op]
    return f"ncclDevKernel_{kind}(ncclDevKernelArgsStorage<4096ul>)"
