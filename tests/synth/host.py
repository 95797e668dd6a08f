"""The host's side of the simulator: clocks, numbering, and ranges on threads. Times in ns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace

from . import names
from .model import DATALOADER, Costs, HostRange, RankRun


class Numbers:
    """The grain of time, what things cost, and the numbers that identify things."""

    def __init__(self, grain_ns: int, costs: Costs) -> None:
        self.grain_ns = grain_ns
        self.costs = self._grained(costs)
        self._last_id: dict[str, int] = {}

    def _grained(self, costs: Costs) -> Costs:
        times = [f.name for f in fields(costs) if f.name.endswith("_ns")]
        return replace(costs, **{name: self.grained(getattr(costs, name)) for name in times})

    def grained(self, duration_ns: int) -> int:
        """Round a duration up to the grain, so that every time in the run is a multiple."""
        return -(-duration_ns // self.grain_ns) * self.grain_ns

    def next_id(self, what: str, rank: int = -1) -> int:
        """Count up from 1, separately for each kind of thing and rank."""
        key = f"{what}/{rank}"
        self._last_id[key] = self._last_id.get(key, 0) + 1
        return self._last_id[key]


class Clock:
    """A host thread's clock, ``now_ns``, and its open ranges. Every method advances it."""

    def __init__(self, numbers: Numbers, rank: RankRun, tid: int, name: str) -> None:
        self.numbers = numbers
        self.rank = rank
        self.tid = tid
        self.now_ns = 0
        self.open_ranges: list[HostRange] = []
        rank.threads[tid] = name

    def cpu(self, duration_ns: int) -> None:
        """Work on the host, in no range of its own."""
        self.now_ns += self.numbers.grained(duration_ns)

    def wait_for(self, other: Clock) -> None:
        """Go on when the other thread has come to its present time (a hand-over)."""
        self.now_ns = max(self.now_ns, other.now_ns)

    def _new_range(self, layer: str, name: str, **rest: object) -> HostRange:
        made = HostRange(
            range_id=self.numbers.next_id("range"),
            rank=self.rank.rank,
            tid=self.tid,
            layer=layer,
            name=name,
            start_ns=self.now_ns,
            end_ns=self.now_ns,
            parent_id=self.open_ranges[-1].range_id if self.open_ranges else None,
        )
        for key, value in rest.items():
            setattr(made, key, value)
        self.rank.ranges.append(made)
        return made

    @contextmanager
    def _open(self, made: HostRange, enter_ns: int, exit_ns: int) -> Iterator[HostRange]:
        self.open_ranges.append(made)
        self.now_ns += enter_ns
        yield made
        self.now_ns += exit_ns
        made.end_ns = self.now_ns
        self.open_ranges.pop()

    @contextmanager
    def op(self, name: str, **args: object) -> Iterator[HostRange]:
        """Open a framework op (a ``cpu_op``) with further arguments."""
        costs = self.numbers.costs
        external = self.numbers.next_id("external", self.rank.rank)
        made = self._new_range("op", name, external_id=external, args=args)
        with self._open(made, costs.op_enter_ns, costs.op_exit_ns) as opened:
            yield opened

    @contextmanager
    def annotate(self, name: str, activity: str = "") -> Iterator[HostRange]:
        """Open an annotation, as ``torch.profiler.record_function`` does."""
        costs = self.numbers.costs
        external = self.numbers.next_id("external", self.rank.rank)
        made = self._new_range("annotation", name, external_id=external, activity=activity)
        with self._open(made, costs.annotation_enter_ns, costs.annotation_exit_ns) as opened:
            yield opened

    def step(self, number: int) -> AbstractContextManager[HostRange]:
        """Open a profiler step."""
        return self.annotate(f"ProfilerStep#{number}")

    @contextmanager
    def python(self, name: str) -> Iterator[HostRange]:
        """Open a Python function, named as torch does: ``file.py(line): function``."""
        costs = self.numbers.costs
        parents = [r.python_id for r in self.open_ranges if r.layer == "python"]
        made = self._new_range(
            "python",
            name,
            python_id=self.numbers.next_id("python", self.rank.rank),
            python_parent_id=parents[-1] if parents else None,
        )
        with self._open(made, costs.python_enter_ns, costs.python_exit_ns) as opened:
            yield opened

    def dataloader(self, duration_ns: int) -> None:
        """Wait for the next batch for this long."""
        with self.annotate(names.DATALOADER, activity=DATALOADER):
            self.cpu(duration_ns)

    def _call(
        self, name: str, duration_ns: int, activity: str = "", layer: str = "runtime"
    ) -> HostRange:
        owners = [r.external_id for r in self.open_ranges if r.external_id is not None]
        made = self._new_range(
            layer,
            name,
            activity=activity,
            correlation=self.numbers.next_id("correlation", self.rank.rank),
            external_id=owners[-1] if owners else None,
        )
        self._end_call(made, self.now_ns + duration_ns)
        return made

    def _end_call(self, call: HostRange, end_ns: int) -> None:
        call.end_ns = self.now_ns = max(call.end_ns, end_ns)
