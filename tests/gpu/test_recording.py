"""The recorders on a real GPU: `make gpu-check`. Skipped where there is none.

What each must show is the same as on the fakes of tests/record/collect and tests/inline. With
SIGHTLINE_EXAMPLES=FOLDER the recordings are kept there.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from support import recording
from support.places import EXAMPLES

pytestmark = pytest.mark.gpu
PY = sys.executable
TRAIN = EXAMPLES / "train.py"


def has_gpu() -> bool:
    smi = shutil.which("nvidia-smi")
    return smi is not None and subprocess.run([smi, "-L"], capture_output=True).returncode == 0


if not has_gpu():
    pytest.skip("there is no NVIDIA GPU", allow_module_level=True)


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Path]:
    """A folder to record in; what is recorded is copied out where asked for."""
    yield tmp_path
    target = os.environ.get("SIGHTLINE_EXAMPLES")
    if target:
        for run in tmp_path.glob("*.sightline"):
            shutil.copytree(run, Path(target) / run.name, dirs_exist_ok=True)


def need(*programs: str) -> None:
    for name in programs:
        if shutil.which(name) is None:
            pytest.skip(f"{name} is not on the PATH")


def need_cuda() -> None:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("this torch has no CUDA")


def test_torch_and_nvml(keep):
    """Kernels, steps, annotations and their device work, and the GPU's power beside them."""
    need_cuda()
    done = recording.run(
        "-o", "gpu-torch", "--", PY, TRAIN, "--steps", "20", "--width", "4096", cwd=keep
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    run = sl.open(str(keep / "gpu-torch.sightline"))
    host = run.table("host_ops")
    assert host.filter(pl.col("layer") == "step").height == told["steps"]
    marked = run.ask("annotations").filter(pl.col("name") == "forward").row(0, named=True)
    assert marked["instances"] == told["steps"]
    assert marked["device_ops"] >= told["linears"]
    assert run.table("device_ops").filter(pl.col("kind") == "kernel").height >= told["linears"]
    power = run.table("counters").filter(pl.col("metric") == "power").get_column("value")
    assert power.len() > 10
    assert 5 < power.min() <= power.max() < 3000  # W
    checkpoint = host.filter(pl.col("name") == "checkpoint: after the first step")
    assert json.loads(checkpoint.get_column("payload").item())["allocated_bytes"] > 4096 * 4096 * 4


def test_nsys_records_annotations_and_kernels(keep):
    need_cuda()
    need("nsys")
    done = recording.run(
        "--backend",
        "nsys",
        "-o",
        "gpu-nsys",
        "--",
        PY,
        TRAIN,
        "--steps",
        "5",
        cwd=keep,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    run = sl.open(str(keep / "gpu-nsys.sightline"))
    host = run.table("host_ops")
    nvtx = host.filter((pl.col("name") == "forward") & pl.col("range_kind").is_not_null())
    assert nvtx.height >= 5
    assert run.rows("device_ops") > 0


def test_ncu_profiles_the_kernels_asked_for(keep):
    need("ncu", "nvcc")
    binary = keep / "kernels"
    subprocess.run(["nvcc", "-O3", "-lineinfo", "-o", binary, EXAMPLES / "kernels.cu"], check=True)
    done = recording.run(
        "--for",
        "kernels",
        "--launch-count",
        "4",
        "-o",
        "gpu-ncu",
        "--",
        binary,
        cwd=keep,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert sl.open(str(keep / "gpu-ncu.sightline")).rows("profiled_kernels") == 4


def test_the_monitor_agrees_with_nvidia_smi(keep):
    with sl.gpu_monitor() as m:
        smi = subprocess.run(
            ["nvidia-smi", "--query-gpu=memory.used,power.draw", "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
    devices = m.summary()["devices"]
    assert len(devices) == len(smi)
    for device, line in zip(devices, smi, strict=True):
        used, power = (float(part) for part in line.split(","))
        assert device["memory used [bytes]"]["mean"] == pytest.approx(
            used * 2**20, rel=0.2, abs=2**30
        )
        # nvidia-smi's figure is an average over a second on recent GPUs.
        assert device["power [W]"]["mean"] == pytest.approx(power, rel=0.5, abs=30)


def test_timing_by_cuda_events(keep):
    need_cuda()
    import torch

    x = torch.randn(4096, 4096, device="cuda")

    @sl.profile(warmup=3, iterations=10)
    def multiply() -> object:
        return x @ x

    timing = multiply()
    assert timing.clock == "CUDA events"
    # 2·4096³ operations: no GPU does them in less than 20 µs or takes more than a second.
    assert 20_000 < timing.mean_ns < 1_000_000_000


def test_memory_history_of_a_real_allocator(keep, monkeypatch):
    need_cuda()
    code = (
        "import torch, sightline as sl\nx = torch.ones(1, device='cuda')\n"
        "with sl.memory_history():\n    y = torch.empty(1 << 20, device='cuda')\n    del y\n"
    )
    done = recording.run("--backend", "nvml", "-o", "gpu-memory", "--", PY, "-c", code, cwd=keep)
    assert done.returncode == 0, done.stderr
    events = sl.open(str(keep / "gpu-memory.sightline")).table("memory_events")
    own = events.filter(pl.col("bytes") == 4 << 20).get_column("action").to_list()
    assert own == ["alloc", "free"]
