"""Simulated GPU programs, recordings of them, and the exact truth about them.

This package shares no code with the tool that it tests. A test reads::

    run = scenarios.launch_bound(steps=5)
    files = kineto.write(run, tmp_path, dialect="2025")
    truth = truth_of(run)

All times are integer nanoseconds from the start of the run; ``kineto.origin_ns(dialect)`` is
what a dialect adds to them in a file.
"""

from __future__ import annotations

from . import kineto, scenarios
from .model import Costs, DeviceOp, HostRange, RankRun, Run
from .program import HostThread, Simulator
from .scenarios import SCENARIOS, simulate
from .truth import Breakdown, DeviceTruth, Gap, RankTruth, RunTruth, Sums, truth_of

__all__ = [
    "SCENARIOS",
    "Breakdown",
    "Costs",
    "DeviceOp",
    "DeviceTruth",
    "Gap",
    "HostRange",
    "HostThread",
    "RankRun",
    "RankTruth",
    "Run",
    "RunTruth",
    "Simulator",
    "Sums",
    "kineto",
    "scenarios",
    "simulate",
    "truth_of",
]
