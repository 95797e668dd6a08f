"""DeepSpeed's FLOPs profiler: own times of modules, the step's totals, damage, a real report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sightline
from sightline.formats.pytorch import deepspeed_flops
from support.damage import survive_damage
from support.stacks import add_up_weights, find_weights

REPORT = """
-------------------------- DeepSpeed Flops Profiler --------------------------
Profile Summary at step 6:
world size:                                                             2
params per GPU:                                                         2.5 K
fwd flops per GPU:                                                      56.61 G
fwd latency:                                                            10 ms
fwd FLOPS per GPU = fwd flops per GPU / fwd latency:                    5.66 TFLOPS
------------------------------ Detailed Profile per GPU ------------------------------
Each module profile is listed after its name in the following order:

Net(
  2.5 K = 100% Params, 21 GMACs = 100% MACs, 1.77 Gs = 100% latency, 31.94 FLOPS
  (layers): ModuleList(
    (0): Block(
      1 K = 40% Params, 10 GMACs = 50% MACs, 4 ms = 40% latency, 2 TFLOPS
      (fc): Linear(1 K = 40% Params, 9 GMACs = 45% MACs, 3 ms = 30% latency, 2 TFLOPS, bias=True)
    )
  )
  (head): Linear(12 = 1% Params, 1 MACs = 1% MACs, 500 us = 5% latency, 0 FLOPS, bias=False)
)
------------------------------------------------------------------------------
"""


def test_modules_own_times_and_the_steps_totals(tmp_path: Path) -> None:
    path = tmp_path / "flops.txt"
    path.write_text(REPORT)
    assert find_weights(path) == {
        ("cpu_time_ns", "Net"): 5_500_000,  # of 10 ms, 4 in the block and 0.5 in the head
        ("cpu_time_ns", "Net", "layers: ModuleList", "0: Block"): 1_000_000,
        ("cpu_time_ns", "Net", "layers: ModuleList", "0: Block", "fc: Linear"): 3_000_000,
        ("cpu_time_ns", "Net", "head: Linear"): 500_000,
    }
    run = sightline.open(str(path))
    assert run.table("counters").select("metric", "unit", "value").rows() == [
        ("params per GPU", "", 2500.0),
        ("fwd flops per GPU", "", 56.61e9),
        ("fwd latency", "s", 0.01),
        ("fwd FLOPS per GPU", "FLOP/s", 5.66e12),
    ]


def test_damage(tmp_path: Path) -> None:
    survive_damage(deepspeed_flops.read, tmp_path / "x", REPORT)


@pytest.mark.corpus
def test_a_real_report_adds_up_to_its_step(corpus: Path) -> None:
    """All own times together are the forward pass, which the summary has: 130.11 ms."""
    path = corpus / "deepspeed_flops/Emanuel265__TopoMoE/flops_profile.txt"
    weights = find_weights(path)
    assert add_up_weights(weights)["cpu_time_ns"] == pytest.approx(130_110_000, rel=1e-6)
    # By a regular expression alone: leaves have their numbers on the line of their name.
    leaves = re.findall(r"\(\w+\): GELU\([^\n]*?([\d.]+) us = ", path.read_text())
    found = sum(value for path, value in weights.items() if path[-1].endswith(": GELU"))
    assert found == sum(round(float(us) * 1000) for us in leaves)
    assert len(leaves) > 100
