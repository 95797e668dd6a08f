"""Databases of rocprof-compute's analysis: its own figures, and its peaks against ours."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import sightline
from sightline.errors import SightlineError
from sightline.roofline.amd import compute_light
from support.campaigns import sample

DATABASE = "rocprof_compute/ROCm__roc-optiq/sample/rocprof_compute_23ed6f36.db"
# Their peak of FP6 and FP4 has a slip (docs/accuracy.md).
SLIPS = {"MFMA FLOPs (F6F4)"}


def write(path: Path) -> Path:
    """A kernel of 200 ns that was dispatched twice, with two figures and its launch."""
    db = sqlite3.connect(path)
    db.executescript(
        """
        CREATE TABLE compute_workload (workload_id INTEGER, sys_info_extdata JSON);
        INSERT INTO compute_workload VALUES (1, '{"gpu_arch": "gfx942", "cu_per_gpu": 304,
          "max_sclk": 2100, "hostname": "node7", "max_waves_per_cu": 32, "wave_size": 64}');
        CREATE TABLE compute_kernel (kernel_uuid INTEGER, workload_id INTEGER, kernel_name VARCHAR);
        INSERT INTO compute_kernel VALUES (5, 1, 'scale');
        CREATE TABLE compute_dispatch (dispatch_uuid INTEGER, kernel_uuid INTEGER,
          dispatch_id INTEGER, gpu_id INTEGER, start_timestamp INTEGER, end_timestamp INTEGER);
        INSERT INTO compute_dispatch VALUES (1, 5, 0, 3, 100, 300), (2, 5, 1, 3, 400, 600);
        CREATE TABLE compute_metric_definition (metric_uuid INTEGER, name VARCHAR,
          table_name VARCHAR, unit VARCHAR);
        INSERT INTO compute_metric_definition VALUES
          (1, 'VALU Utilization', 'System Speed-of-Light', 'Percent'),
          (2, 'Workgroup Size', 'Wavefront', 'Work-items'),
          (3, 'Grid Size', 'Wavefront', 'Work-items'), (4, 'VGPRs', 'Wavefront', 'Registers'),
          (5, 'AGPRs', 'Wavefront', ''), (6, 'SGPRs', 'Wavefront', ''),
          (7, 'LDS Allocation', 'Wavefront', 'Bytes'), (8, 'Bandwidth', 'L2 Cache', 'Gb/s');
        CREATE TABLE compute_kernel_metric_value (value_uuid INTEGER, metric_uuid INTEGER,
          kernel_uuid INTEGER, value_name VARCHAR, value FLOAT);
        INSERT INTO compute_kernel_metric_value VALUES (1, 1, 5, 'Avg', 40.0),
          (2, 1, 5, 'Peak', 100.0), (3, 2, 5, 'Avg', 256.0), (4, 3, 5, 'Avg', 2560.0),
          (5, 4, 5, 'Avg', 200.0), (6, 5, 5, 'Avg', 0.0), (7, 6, 5, 'Avg', 16.0),
          (8, 7, 5, 'Avg', 0.0), (9, 8, 5, 'Avg', 7.5), (10, 8, 5, 'Max', 9.5);
        """
    )
    db.commit()
    db.close()
    return path


def test_what_becomes_what(tmp_path: Path) -> None:
    run = sightline.open(str(write(tmp_path / "a.db")))
    kernels = run.table("profiled_kernels").select(
        "name", "device_id", "grid_x", "block_x", "registers_per_thread", "duration_ns"
    )
    assert kernels.rows() == [("scale", 3, 10, 256, 200, 200)] * 2
    metrics = run.table("kernel_metrics").filter(kernel_id=1)
    l2 = metrics.filter(metric="L2 Cache: Bandwidth").select("value", "unit", "instance_name")
    assert l2.rows() == [(7.5, "Gb/s", None), (9.5, "Gb/s", "Max")]
    light = run.ask("amd_speed_of_light").filter(kernel_id=0).select("figure", "value", "peak")
    assert light.rows() == [("VALU Utilization", 40.0, 100.0)]
    occupancy = run.ask("occupancy").row(0, named=True)
    assert (occupancy["active_warps"], occupancy["limiter"]) == (8, "registers")


def test_damage(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.db").read_bytes()
    survived = 0
    for cut in sample(range(100, len(whole), 997), 4):
        (tmp_path / "b.db").write_bytes(whole[:cut])
        survived += count_answers(tmp_path / "b.db")
    for at in sample(range(0, len(whole), 331), 4):
        data = bytearray(whole)
        data[at] ^= 0xFF
        (tmp_path / "b.db").write_bytes(bytes(data))
        survived += count_answers(tmp_path / "b.db")
    assert survived


def count_answers(path: Path) -> int:
    """Kernels whose occupancy is known; 0 where an error says which file has none."""
    try:
        rows: int = sightline.open(str(path)).ask("occupancy").height
    except SightlineError as error:
        assert str(error)
        return 0
    assert rows
    return rows


@pytest.mark.corpus
def test_figures_and_peaks_of_a_real_analysis(corpus: Path) -> None:
    """Every peak that it wrote for its MI350 is the one that ours are computed with."""
    path = corpus / DATABASE
    run = sightline.open(str(path))
    db = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    theirs = db.execute(
        "SELECT kernel_name, metric_name, value_name, value FROM compute_kernel_metric_view "
        "WHERE table_name = 'System Speed-of-Light'"
    ).fetchall()
    expected = {(k, m): v for k, m, name, v in theirs if name == "Avg" and v is not None}
    light = run.ask("amd_speed_of_light")
    found = {(r["name"], r["figure"]): r for r in light.iter_rows(named=True)}
    assert len(found) > 150
    assert {k: r["value"] for k, r in found.items()} == {k: expected[k] for k in found}

    facts = run.table("kernel_metrics").filter(kernel_id=0)
    machine = dict(
        facts.filter(~facts["metric"].str.contains(" ")).select("metric", "value").rows()
    )
    figures = {m: 1.0 for _, m in expected}  # any value: what is asked for is the peak
    ours = {n: x.peak for n, x in compute_light(machine | figures, "gfx950", None).items()}
    peaks = {m: v for _, m, name, v in theirs if name == "Peak" and v is not None and m in ours}
    assert len(peaks) > 25
    known = {m: v for m, v in peaks.items() if m not in SLIPS}
    assert {m: ours[m] for m in known} == pytest.approx(known)
    assert run.rows("profiled_kernels") == 10
