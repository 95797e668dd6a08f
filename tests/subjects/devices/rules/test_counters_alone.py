"""What counters alone tell of a busy GPU: no tensor cores, bound by memory, or neither."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.command import sightline as command
from support.histories import Phase, rest, train, write_history
from support.rules import answers, assert_silent

DMON = """\
#Entity   POWER    TOTEC    GPUTL  MCUTL  SMACT  SMOCC  TENSO  DRAMA
ID
GPU 0     414.000  100000   100    40     0.910  0.620  0.000  0.350
GPU 0     415.000  515000   100    40     0.912  0.620  0.000  0.350
GPU 0     414.000  930000   100    40     0.908  0.620  0.000  0.350
GPU 0     414.000  1345000  100    40     0.910  0.620  0.000  0.350
"""


def test_a_log_of_dcgmi_says_that_no_tensor_core_ran(tmp_path):
    path = tmp_path / "dmon.txt"
    path.write_text(DMON)
    (found,) = answers(sightline.open(str(path)), "idle-tensor-cores")
    assert found.summary.startswith("1 GPU busy at 100 %, and the tensor cores at 0 %")
    assert found.evidence[0].startswith("GPU 0: GPU utilization 100 %, SM active 91 %, SM occup")
    assert found.gain is None
    screen = command(str(path))
    assert screen.code == 0 and "Busy, but no tensor cores" in screen.out


def open_history(folder: Path, *phases):
    told = [Phase(seconds, {0: values}) for seconds, values in phases]
    return sightline.open(str(write_history(folder / "h", told)))


PLAIN = {**train(), "tensor active": 0.2, "FP32 active": 55.0}
BOUND = {**train(), "tensor active": 9.0, "DRAM active": 71.0, "SM occupancy": 82.0}


@pytest.mark.parametrize(
    "values",
    [
        {**PLAIN, "tensor active": 5.0},  # they are used
        {**PLAIN, "FP64 active": 80.0},  # a program in double precision
        {**PLAIN, "SM active": 30.0},  # hardly anything runs: another rule's
    ],
)
def test_when_tensor_cores_are_not_missed(tmp_path, values):
    assert_silent(open_history(tmp_path, (1200, values)), "idle-tensor-cores")


def test_a_gpu_that_idles_most_of_the_time_has_another_problem(tmp_path):
    assert answers(open_history(tmp_path, (1200, PLAIN)), "idle-tensor-cores")
    assert_silent(open_history(tmp_path / "b", (1200, PLAIN), (2400, rest())), "idle-tensor-cores")


def test_high_occupancy_low_activity_and_busy_memory_is_memory_bound(tmp_path):
    (found,) = answers(open_history(tmp_path, (1200, BOUND)), "memory-bound-use")
    assert "DRAM at 71 %, and the busiest pipe, the tensor pipe, at 9 %" in found.summary
    assert "SM occupancy 82 %" in found.evidence[0]


@pytest.mark.parametrize("values", [{**BOUND, "DRAM active": 40.0}, {**BOUND, "FP32 active": 75.0}])
def test_what_is_not_bound_by_memory(tmp_path, values):
    assert_silent(open_history(tmp_path, (1200, values)), "memory-bound-use")


def test_without_the_true_figure_nvidia_smis_counts_less(tmp_path):
    told = {**BOUND, "memory utilization": 88.0}
    del told["DRAM active"]
    (found,) = answers(open_history(tmp_path, (1200, told)), "memory-bound-use")
    assert found.confidence == "low" and "as nvidia-smi shows it" in found.summary
