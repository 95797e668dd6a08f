"""The same behavior gets the same answer, whether PyTorch's profiler or Nsight Systems saw it."""

from __future__ import annotations

import pytest

import sightline
from sightline import findings
from support.as_nsys import nsys
from support.campaigns import sample
from synth import kineto
from synth.families import FAMILIES

# What a family needs that only PyTorch's profiler records: input shapes, operators, collectives'
# sizes and groups, one file per rank.
NOT_IN_NSYS = {
    "slow-variant",
    "dtype-casts",
    "exposed-communication",
    "small-collectives",
    "straggler-rank",
    "collective-below-bandwidth",
    "imbalance",
    "overlap-slows-compute",
    "pipeline-bubble",
    # Steps are marked by names that belong to PyTorch's profiler.
    "first-iteration-included",
    # The device's name is in a table of the export that this writer does not fill.
    "no-tensor-cores",
}


BOTH = [n for n, f in FAMILIES.items() if f.recorder == "kineto" and n not in NOT_IN_NSYS]


@pytest.mark.parametrize("name", sample(BOTH, 3))
def test_same_finding_and_gain(name, tmp_path):
    program = FAMILIES[name].build(0, 3, True)
    kineto.write(program, tmp_path / "kineto", dialect="2025")
    there = findings(sightline.open(str(tmp_path / "kineto")))[0]
    here = findings(sightline.open(str(nsys(program, tmp_path / "run.sqlite"))))[0]
    assert (here.rule, here.severity) == (there.rule, there.severity) == (name, here.severity)
    assert (here.cost_ns, here.gain_ns) == (there.cost_ns, there.gain_ns)
