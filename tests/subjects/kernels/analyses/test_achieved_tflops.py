"""FLOP/s from activities of pipes, against the same arithmetic on the text of the log."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.errors import MissingDataError
from support.corpus import list_recordings, name_recording

# Clock of the SMs in MHz, and parts of 1, as `dcgmi dmon -e 100,1002,1003,1004,1006,1007` prints.
LINES = [
    (1980, 0.950, 0.250, 0.800, 0.000, 0.050),
    (1755, 0.940, 0.240, 0.700, 0.010, 0.040),
    (345, 0.100, 0.020, 0.000, 0.000, 0.100),
]
HEADER = """#Entity   SMCLK        SMACT        SMOCC        TENSO        FP64A        FP32A
ID
"""
# An H200: 132 SMs; operations a cycle of one SM, dense (Hopper white paper), printed BF16 peak.
SMS, BF16, TF32, FP8, FP64_TENSOR, FP64, FP32 = 132, 4096, 2048, 8192, 256, 128, 256
PRINTED = 989.4


def write(folder: Path, header: str, lines: list[tuple[float, ...]]) -> str:
    path = folder / "dmon.txt"
    path.write_text(header + "".join(f"GPU 0  {'  '.join(map(str, n))}\n" for n in lines))
    return str(path)


def ask(path: str, gpu: str = "NVIDIA H200") -> dict[str, dict[str, object]]:
    rows = sightline.open(path).ask("achieved_tflops", gpu=gpu).to_dicts()
    return {row["pipe"]: row for row in rows}


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_each_pipe_is_its_activity_times_its_peak_at_the_clock_of_that_moment(tmp_path):
    rows = ask(write(tmp_path, HEADER, LINES))
    per_cycle = {"FP64": (4, FP64), "FP32": (5, FP32), "tensor": (3, BF16)}
    for pipe, (place, rate) in per_cycle.items():
        row = rows[pipe]
        assert row["tflops"] == pytest.approx(
            mean([SMS * rate * n[0] * 1e6 * n[place] / 1e12 for n in LINES])
        )
        assert row["activity_pct"] == pytest.approx(100 * mean([n[place] for n in LINES]))
        assert row["samples"] == 3
    tensor, whole = rows["tensor"], rows["all floating point"]
    assert tensor["high_tflops"] == pytest.approx(tensor["tflops"] * FP8 / BF16)
    assert tensor["low_tflops"] == pytest.approx(tensor["tflops"] * FP64_TENSOR / BF16)
    assert whole["tflops"] == pytest.approx(sum(rows[pipe]["tflops"] for pipe in per_cycle))
    # The mean of products is not the product of means: the clock was low when the pipe idled.
    assert tensor["tflops"] > tensor["peak_tflops"] * tensor["activity_pct"] / 100


def test_the_product_of_all_activities_stands_beside_it_and_is_less(tmp_path):
    row = ask(write(tmp_path, HEADER, LINES))["tensor"]
    assert row["datasheet_tflops"] == PRINTED
    assert row["product_tflops"] == pytest.approx(
        mean([PRINTED * n[1] * n[2] * n[3] for n in LINES])
    )
    assert row["product_tflops"] < 0.3 * row["tflops"]


def test_parts_of_the_tensor_pipe_count_instead_of_the_whole(tmp_path):
    header = "#Entity  SMCLK  TENSO  THMMA  TIMMA  TDFMA  INTAC\nID\n"
    rows = ask(write(tmp_path, header, [(1000, 0.6, 0.3, 0.2, 0.1, 0.5)]))
    assert rows["tensor HMMA"]["tflops"] == pytest.approx(SMS * BF16 * 0.3 / 1e3)
    assert rows["tensor HMMA"]["low_tflops"] == pytest.approx(SMS * TF32 * 0.3 / 1e3)
    assert rows["tensor IMMA"]["precision"] == "int8_tensor"
    assert rows["all floating point"]["tflops"] == pytest.approx(
        SMS * (BF16 * 0.3 + FP64_TENSOR * 0.1) / 1e3
    )
    assert rows["INT"]["tflops"] == pytest.approx(SMS * 64 * 0.5 / 1e3)
    assert rows["INT"]["basis"] == "132 SMs x 64 operations a cycle (int32) x measured clock"
    (other,) = ask(write(tmp_path, "#Entity  SMCLK  INTAC\nID\n", [(1000, 0.5)]), "B200").values()
    assert (other["activity_pct"], other["tflops"]) == (50, None)
    assert other["basis"].startswith("no peak of INT is known for B200")


@pytest.mark.parametrize(
    ("header", "gpu", "why"),
    [
        (HEADER, "", "the recording does not name the device (--set gpu=NAME)"),
        (HEADER, "Voodoo 2", "'Voodoo 2' is not in the table of GPUs"),
        (HEADER.replace("SMCLK", "PMLMT"), "H200", "the SM clock was not recorded"),
    ],
)
def test_what_is_not_known_is_null_and_says_why(tmp_path, header, gpu, why):
    row = ask(write(tmp_path, header, LINES), gpu)["tensor"]
    assert row["activity_pct"] == pytest.approx(50)
    assert (row["tflops"], row["low_tflops"], row["peak_tflops"]) == (None, None, None)
    assert row["basis"] == why


def test_a_clock_of_another_time_is_not_taken(tmp_path):
    power = "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"
    label = '{gpu="0",UUID="GPU-1",modelName="NVIDIA H200"}'
    (tmp_path / "a.metrics").write_text(
        f"# TYPE {power} gauge\n"
        + "".join(f"{power}{label} 0.5 {1_700_000_000_000 + 1000 * n}\n" for n in range(4))
        + f"DCGM_FI_DEV_SM_CLOCK{label} 1000 1700000001000\n"
        + f"DCGM_FI_DEV_SM_CLOCK{label} 9000 1700000900000\n"
    )
    (row,) = ask(str(tmp_path / "a.metrics"), "").values()
    assert row["clock_mhz"] == 1000
    assert row["tflops"] == pytest.approx(SMS * BF16 * 0.5 / 1e3)


def test_without_an_activity_it_says_what_to_record(tmp_path):
    path = write(tmp_path, "#Entity  SMCLK  POWER\nID\n", [(1000, 300)])
    with pytest.raises(MissingDataError, match="GPM"):
        ask(path)


# SMs times operations a cycle of FP16 tensor cores: Volta to Ampere white papers.
KNOWN = {"NVIDIA A100-SXM4-40GB": 108 * 2048, "Tesla T4": 40 * 1024}
SAMPLE = re.compile(r'^(DCGM_FI_\w+)\{gpu="(\d+)".*?modelName="([^"]*)"(.*)\} (\S+)$', re.MULTILINE)


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("prometheus/**/*.ini"), ids=name_recording)
def test_exporters_of_the_corpus(path):
    """Whole GPUs only: an instance's rows have GPU_I_ID."""
    told = {
        (name, int(gpu)): (model, float(value))
        for name, gpu, model, rest, value in SAMPLE.findall(path.read_text())
        if "GPU_I_ID" not in rest
    }
    active = {g: v for (n, g), v in told.items() if n == "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"}
    run = sightline.open(str(path))
    if not active:
        with pytest.raises(MissingDataError):
            run.ask("achieved_tflops", gpu="")
        return
    rows = run.ask("achieved_tflops", gpu="").filter(pl.col("pipe") == "tensor").to_dicts()
    assert {row["device_id"] for row in rows} == set(active)
    for row in rows:
        model, value = active[row["device_id"]]
        clock = told["DCGM_FI_DEV_SM_CLOCK", row["device_id"]][1]
        assert row["peak_tflops"] == pytest.approx(KNOWN[model] * clock / 1e6)
        assert row["tflops"] == pytest.approx(KNOWN[model] * clock * value / 1e6)
