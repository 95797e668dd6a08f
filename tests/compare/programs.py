"""Recordings of a small training loop whose change is known, with the noise of real machines.

A step is a copy, four kernels and an all-reduce. Each run is off by its own factor, and each step
follows the one before; what is planted is known without any of sightline's code.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from sightline.compare.sample import Sample
from support.traces import Event, collective, copy, kernel, launched, op, step, write

KERNELS = {"gemm_tn": 400, "softmax": 150, "layer_norm": 90, "elementwise_add": 60}  # µs
OPERATORS = {
    "gemm_tn": "aten::mm",
    "softmax": "aten::softmax",
    "layer_norm": "aten::native_layer_norm",
    "elementwise_add": "aten::add",
}


@dataclass(frozen=True)
class Program:
    """Lengths of a step's operations, µs, and what the machine does to them.

    `run_noise` is the standard deviation of a run's factor, `step_noise` that of a step's, of which
    each follows the one before with `follows`.
    """

    kernels: dict[str, float] = field(default_factory=lambda: dict(KERNELS))
    operators: dict[str, str] = field(default_factory=lambda: dict(OPERATORS))
    sync_us: float = 0.0
    clock: float = 1.0
    clock_mhz: float | None = None
    world: int = 1
    steps: int = 12
    run_noise: float = 0.01
    step_noise: float = 0.01
    follows: float = 0.3

    def slowed(self, name: str, factor: float) -> Program:
        """The same with one kernel `factor` as long."""
        return replace(self, kernels={**self.kernels, name: self.kernels[name] * factor})

    def fused(self, first: str, second: str, factor: float) -> Program:
        """The same with two kernels in one, which takes `factor` of their sum."""
        rest = {k: v for k, v in self.kernels.items() if k not in (first, second)}
        words = [self.operators[k].removeprefix("aten::") for k in (first, second)]
        name = f"triton_poi_fused_{'_'.join(sorted(words))}_0"
        length = (self.kernels[first] + self.kernels[second]) * factor
        operators = {**{k: self.operators[k] for k in rest}, name: name}
        return replace(self, kernels={**rest, name: length}, operators=operators)

    @property
    def step_us(self) -> float:
        """The length of a step without any noise, µs."""
        return (sum(self.kernels.values()) + 30) / self.clock + 50 + self.sync_us


def record(program: Program, dice: random.Random) -> list[Event]:
    """One run as events of PyTorch's profiler; a step begins where the one before ends."""
    factor = 1 + dice.gauss(0, program.run_noise)
    drift, at, events = dice.gauss(0, 1), 0.0, []
    for number in range(program.steps):
        rest = math.sqrt(1 - program.follows**2) * dice.gauss(0, 1)
        drift = program.follows * drift + rest
        scale = factor * (1 + program.step_noise * drift) / program.clock
        begin, called = at, at
        at += 5
        work = [copy("Memcpy HtoD (Pinned -> Device)", _ns(at), _ns(20 * scale), 1 << 20)]
        at += 20 * scale
        for name, length in program.kernels.items():
            events += [op(program.operators[name], _ns(called + 0.1), 0.8)]
            events += launched_at(called + 0.2, kernel(name, _ns(at), _ns(length * scale)))
            called, at = called + 1, at + length * scale
        work.append(collective(_ns(at), _ns(10 * scale), ranks=program.world))
        at += 10 * scale + 45 * factor + program.sync_us
        events += [*work, step(number, _ns(begin), _ns(at - begin))]
    if program.clock_mhz is not None:
        events += [_sample_clock(t, program.clock_mhz) for t in range(0, int(at), 500)]
    return events


def _ns(us: float) -> float:
    return round(us, 3)


def launched_at(called: float, work: Event) -> list[Event]:
    """A kernel with its launch, at a fraction of a microsecond."""
    events = launched(round(called * 1000), work, dur=0.3)
    events[0]["ts"] = _ns(called)
    return events


def _sample_clock(ts: int, mhz: float) -> Event:
    return {"ph": "C", "name": "SM clock", "pid": 0, "ts": ts, "args": {"SM clock [MHz]": mhz}}


def scale_sample(sample: Sample, factor: float) -> Sample:
    """The same run with everything in it `factor` as long, to a nanosecond: it is not read anew."""
    times = pl.col("own_ns", "total_ns")
    leaves = sample.leaves.with_columns((times * factor).round().cast(pl.Int64))
    return replace(sample, whole_ns=int(leaves.get_column("own_ns").sum()), leaves=leaves)


def write_runs(folder: Path, program: Program, runs: int, seed: str) -> list[str]:
    """Several recordings of one program, each with its own noise."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    told = {
        "deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB", "computeMajor": 8,
                              "computeMinor": 0, "numSms": 108}],
        "distributedInfo": {"rank": 0, "world_size": program.world},
    }  # fmt: skip
    return [str(write(folder, record(program, dice), f"run{n}.json", **told)) for n in range(runs)]
