"""`sightline roofline`: text, files and data."""

from __future__ import annotations

import json

import pytest

from sightline.doors.cli.main import main
from support.command import sightline
from support.places import ROOT
from synth_ncu import Kernel, report

FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
METRICS = {
    "gpu__time_duration.sum": 1000.0,
    FFMA: 2e6,
    "dram__bytes.sum.per_second": 4e10,
    "sm__cycles_elapsed.avg.per_second": 1.3e9,
    "launch__device_id": 0.0,
}


@pytest.fixture
def path(tmp_path):
    target = tmp_path / "r.ncu-rep"
    target.write_bytes(report([Kernel(metrics=METRICS), Kernel(name="bare()", metrics={})]))
    return str(target)


def test_in_the_terminal(path, capsys):
    assert main(["roofline", path]) == 0
    out = capsys.readouterr().out
    assert "Roofline · NVIDIA A10G · 1 kernel" in out
    assert "1 kernel without counted arithmetic or traffic not drawn" in out
    assert max(map(len, out.splitlines())) <= 80


def test_as_a_file(path, tmp_path, capsys):
    target = tmp_path / "x.svg"
    assert main(["roofline", path, "-o", str(target)]) == 0
    assert target.read_text().startswith("<svg")
    assert main(["roofline", path, "-o", str(tmp_path / "x.jpg")]) == 2
    assert "neither .svg nor .png" in capsys.readouterr().err


def test_as_data(path, capsys):
    assert main(["roofline", path, "--json", "--kernel", "scale"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["precision"] == "fp32"
    assert row["flop"] == 4e6
    assert row["peak_source"] == "device attributes"
    assert row["peak_flop_per_s"] == pytest.approx(80 * 256 * 1.3e9)


def test_nothing_to_draw(path, capsys):
    assert main(["roofline", path, "--kernel", "bare"]) == 2
    assert "--set full" in capsys.readouterr().err


def test_a_kernel_that_spills_is_bound_by_caches_and_not_by_device_memory() -> None:
    """2.7 % of the compute roof, 1.5 % of device memory's: what spills keeps the L1 busy."""
    recording = ROOT / "lab/register-spill/recorded/baseline.profiled/kernels.ncu-rep"
    (row,) = [line for line in sightline("roofline", recording).out.splitlines() if "recur" in line]
    assert "2.7 % of compute" in row
    assert row.endswith("caches")
