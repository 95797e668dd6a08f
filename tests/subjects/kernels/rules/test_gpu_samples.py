"""gpu-samples: samples of a GPU are no time of a thread, and say what its waves wait for.

The inputs are those of the readers' own tests, their samples ten times as many.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from formats.test_stack_formats import FORMATS, IAPROF
from support.corpus import CORPUS
from support.rules import answers, assert_silent


def open_text(folder: Path, text: str) -> sightline.Session:
    path = folder / "samples.txt"
    path.write_text(text)
    return sightline.open(str(path))


def test_what_the_waves_wait_for(tmp_path: Path) -> None:
    """Of 37 samples 18 wait for memory (sbid), and 14 for a place in its queue (send)."""
    lines = [
        "\t".join([*cells[:3], *(f"{cell}0" for cell in cells[3:])])
        if cells[0] == "eustall"
        else "\t".join(cells)
        for cells in (line.split("\t") for line in IAPROF.splitlines())
    ]
    run = open_text(tmp_path, "\n".join([*lines, ""]))
    (found,) = answers(run, "gpu-samples")
    assert found.summary == (
        "100.0 % of 370 samples of a GPU's instructions are in `gemm_kernel`; in 48.6 % of them "
        "waves wait for data of the caches or the device's memory."
    )
    assert found.evidence == (
        "48.6 % memory wait", "37.8 % memory queue full", "24.3 % at +0x40 mad",
        "24.3 % at +0x48 mad",
    )  # fmt: skip
    assert "loads in flight" in str(found.fix)
    assert answers(run, "hot-function") == []


def test_few_samples_say_nothing(tmp_path: Path) -> None:
    assert_silent(open_text(tmp_path, IAPROF), "gpu-samples")  # 37


@pytest.mark.parametrize("name", ["perf_script", "speedscope"])
def test_a_cpus_samples_are_not_its(tmp_path: Path, name: str) -> None:
    assert_silent(open_text(tmp_path, FORMATS[name]), "gpu-samples")


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rocprofv3/ROCm__rocm-systems/pc_sampling_host_trap.csv", ["79 samples", "s_endpgm"]),
        ("rocprofv3/ROCm__rocm-systems/pc_sampling_stochastic_debug.csv", ["73.2 %", "48 kernels"]),
        ("rocprof_att/ROCm__rocprof-compute-viewer/tests/pcsampling/code.json.gz",
         ["4,690 samples", "kernel.cpp:552"]),
    ],
)  # fmt: skip
def test_amds_samples_are_of_the_gpu(name: str, words: list[str]) -> None:
    """Counted with `awk` over the CSV files, and by summing the samples of code.json's lines."""
    findings = [f for f in sightline.open(str(CORPUS / name)).findings() if not f.abstained]
    assert [f.rule for f in findings] == ["gpu-samples"]
    said = findings[0].summary + str(findings[0].evidence)
    assert all(word in said for word in words)
