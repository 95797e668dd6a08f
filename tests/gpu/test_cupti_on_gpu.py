"""sightline's own CUPTI library on a real GPU, `make gpu-check`: its cost, its kernels, its stalls.

Each test prints its figures: they belong into docs/gpu-checks.md.
"""

from __future__ import annotations

import math
import os
import shutil
import statistics
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
HERE = Path(__file__).parent
KERNELS = EXAMPLES / "kernels.cu"
PAIRS = 10
# A training step whose time is its own: it waits for the GPU before and after.
STEP = """
import sys, time, torch
torch.manual_seed(0)
layers = [torch.nn.Linear(4096, 4096, device="cuda") for _ in range(8)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
batch = torch.randn(256, 4096, device="cuda")
for step in range(int(sys.argv[1])):
    if step == 10:
        torch.cuda.synchronize()
        start = time.perf_counter()
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.cuda.synchronize()
print((time.perf_counter() - start) / (step - 9) * 1e9)
"""

smi = shutil.which("nvidia-smi")
if smi is None or subprocess.run([smi, "-L"], capture_output=True, check=False).returncode:
    pytest.skip("there is no NVIDIA GPU", allow_module_level=True)


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Path]:
    """A folder to record in; what is recorded is copied out where asked for, below 2 MB."""
    yield tmp_path
    target = os.environ.get("SIGHTLINE_EXAMPLES")
    for run in tmp_path.glob("*.sightline") if target else ():
        if sum(file.stat().st_size for file in run.rglob("*") if file.is_file()) < 2_000_000:
            shutil.copytree(run, Path(str(target)) / run.name, dirs_exist_ok=True)


def compile_cuda(source: Path, target: Path) -> Path:
    if shutil.which("nvcc") is None:
        pytest.skip("nvcc is not on the PATH")
    subprocess.run(["nvcc", "-O3", "-lineinfo", "-o", target, source], check=True)
    return target


def write_step(folder: Path) -> list[str | Path]:
    if not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("this torch has no CUDA")
    (folder / "step.py").write_text(STEP)
    return [sys.executable, folder / "step.py"]


def measure(command: list[str | Path], folder: Path, *options: str) -> tuple[float, float]:
    """By how many % a recorded program is slower, and the standard error: runs in pairs."""
    slower = []
    for pair in range(PAIRS):
        plain = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        name = folder / f"cost-{pair}"
        done = recording.run("--backend", "cupti", *options, "-o", name, "--", *command, cwd=folder)
        assert done.returncode == 0, done.stderr
        slower.append(100 * (float(done.stdout.split()[0]) / float(plain.split()[0]) - 1))
        shutil.rmtree(folder / f"cost-{pair}.sightline")
    return statistics.median(slower), statistics.stdev(slower) / math.sqrt(PAIRS)


def test_a_training_step_costs_less_than_one_percent(keep: Path) -> None:
    pct, error = measure([*write_step(keep), "200"], keep)
    print(f"training step: {pct:+.2f} % ± {error:.2f}")
    assert pct - 2 * error < 1


@pytest.mark.parametrize("options", [(), ("--no-calls",)], ids=["calls", "no-calls"])
def test_a_hundred_thousand_kernels_a_second_cost_two_percent(
    keep: Path, options: tuple[str, ...]
) -> None:
    program = compile_cuda(HERE / "launches.cu", keep / "launches")
    pct, error = measure([program, "500000", "100000"], keep, *options)
    print(f"100,000 kernels/s {' '.join(options)}: {pct:+.2f} % ± {error:.2f}")
    assert pct - 2 * error < 2


def list_kernels(folder: Path) -> pl.DataFrame:
    ops = sl.open(str(folder)).table("device_ops").filter(pl.col("kind") == "kernel")
    return ops.sort("start_ns").select("name", duration=pl.col("end_ns") - pl.col("start_ns"))


def test_kernels_are_those_of_pytorchs_profiler(keep: Path) -> None:
    """The same program twice, once with each: the same kernels as often, and as long."""
    command = [*write_step(keep), "40"]
    counted = {}
    for backend in ("torch", "cupti"):
        words = (
            ("--backend", backend, "--budget", "100")
            if backend == "cupti"
            else ("--backend", backend)
        )
        done = recording.run(*words, "-o", f"gpu-{backend}", "--", *command, cwd=keep, timeout=300)
        assert done.returncode == 0, done.stderr
        kernels = list_kernels(keep / f"gpu-{backend}.sightline")
        counted[backend] = (
            kernels.group_by("name").agg(pl.len(), pl.median("duration")).sort("name")
        )
    both = counted["torch"].join(counted["cupti"], on="name", how="full", suffix="_ours")
    # The profiler begins with the first use of the GPU, ours before it: initialization differs.
    often = both.filter(pl.max_horizontal("len", "len_ours") >= 40)
    print(often)
    assert often.height >= 3
    assert often.filter(pl.col("len") != pl.col("len_ours")).is_empty()
    long = often.filter(pl.col("duration") > 20_000)
    ratios = long.select(pl.col("duration_ours") / pl.col("duration")).to_series()
    assert ((ratios - 1).abs() < 0.05).all()


def share_by_instruction(folder: Path) -> pl.DataFrame:
    """The share of each kernel's samples that each instruction has, in percent."""
    samples = sl.open(str(folder)).table("pc_samples")
    counts = samples.group_by("function", "offset").agg(pl.sum("samples"))
    return counts.with_columns(
        share=100 * pl.col("samples") / pl.sum("samples").over("function")
    ).sort("function", "samples", descending=[False, True])


def test_stalls_are_those_of_nsight_computes_source_page(keep: Path) -> None:
    """The same top instruction of three kernels, and its share within 5 points."""
    if shutil.which("ncu") is None:
        pytest.skip("ncu is not on the PATH")
    program = compile_cuda(KERNELS, keep / "kernels")
    words = ("--for", "stalls", "--backend", "cupti", "-o", "gpu-stalls", "--", program, "2000")
    done = recording.run(*words, cwd=keep, timeout=300)
    assert done.returncode == 0, done.stderr
    words = ("--for", "kernels", "--set", "full", "-o", "gpu-source", "--", program)
    done = recording.run(*words, cwd=keep, timeout=300)
    assert done.returncode == 0, done.stderr
    ours, theirs = (
        share_by_instruction(keep / f"gpu-{name}.sightline") for name in ("stalls", "source")
    )
    top = theirs.group_by("function", maintain_order=True).first()
    found = top.join(ours, on=["function", "offset"], how="left", suffix="_ours")
    best = ours.group_by("function", maintain_order=True).first().select("function", first="offset")
    found = found.join(best, on="function").with_columns(
        is_same=pl.col("first") == pl.col("offset"),
        apart=(pl.col("share") - pl.col("share_ours")).abs(),
    )
    print(found)
    assert found.filter(pl.col("is_same") & (pl.col("apart") <= 5)).height >= 3
