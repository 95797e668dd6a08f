"""The lab's exercises for GPUs: programs that compile and run, recordings, causes, lessons."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from sightline.lab.exercises import SIDES, Exercise, find_lab, list_exercises, read_exercise
from sightline.lab.trial import is_first, try_kept
from sightline.roofline.occupancy import Launch, Limits, compute_occupancy
from sightline.session import open_session
from support.campaigns import CAMPAIGNS
from support.places import ROOT
from synth_lab.cuda_programs import KERNELS
from synth_lab.kernels import H100, Access, run_kernel
from synth_lab.profiles import count_metrics

LAB = find_lab()
SIMULATED = {e.name: e for e in list_exercises() if e.status == "simulated"}
# The exercises of courses and of practice that need a GPU; one that vanishes fails.
NAMES = [
    "bank-conflicts",
    "communication-overhead",
    "comparison-reports",
    "compute-metrics",
    "distributed-pytorch",
    "divergence",
    "energy-efficiency",
    "expert-systems",
    "gpu-allocator-churn",
    "gpu-data-loading",
    "gpu-recompilation",
    "graph-miss",
    "item-each-step",
    "jax-dispatch",
    "kernel-overlap",
    "memory-metrics",
    "memory-profiling",
    "memory-timeline",
    "misaligned-shapes",
    "multi-gpu-timeline",
    "no-tensor-cores",
    "optimization-loop",
    "power-measurement",
    "python-backtrace",
    "register-spill",
    "roofline-practice",
    "single-gpu-baseline",
    "sqlite-analysis",
    "stats-cli",
    "strong-scaling",
    "tail-effect",
    "timeline-basics",
    "triton-fusion",
]
PAIRED = [n for n, e in SIMULATED.items() if e.finding and e.find_recording("baseline")]
ALONE = [n for n, e in SIMULATED.items() if e.finding and n not in PAIRED]
CUDA = sorted(p.relative_to(LAB).as_posix() for p in LAB.glob("*/*.cu"))
PYTHON = sorted(
    p for n in SIMULATED for p in (LAB / n).glob("*.py") if p.stem in ("baseline", "improved")
)
# Programs that say what is small enough for a try without a GPU.
WITHOUT_GPU = [p for p in PYTHON if "ON_GPU = DEVICE" in p.read_text(encoding="utf-8")]
# A sample always, all of them with `make sweep`.
PROGRAMS, KERNELS_OF = (1, 1) if CAMPAIGNS else (5, 4)
FLAGS = ["-O3", "-lineinfo", "-Werror", "all-warnings", "-cubin", "-Xptxas", "-v"]
SECTIONS = ["Look", "Why", "Fix", "Result"]
# One of each way of writing recordings; all of them:  python scripts/simulate_lab.py --check
WRITTEN = [
    "energy-efficiency",
    "graph-miss",
    "jax-dispatch",
    "memory-metrics",
    "memory-profiling",
    "misaligned-shapes",
    "power-measurement",
    "stats-cli",
]


def load_script() -> ModuleType:
    """scripts/simulate_lab.py as a module."""
    spec = importlib.util.spec_from_file_location(
        "simulate_lab", ROOT / "scripts" / "simulate_lab.py"
    )
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_all_exercises_are_there() -> None:
    assert sorted(SIMULATED) == NAMES


@pytest.mark.parametrize("name", WRITTEN)
def test_recordings_are_what_the_script_writes(name: str, tmp_path: Path) -> None:
    script = load_script()
    written = tmp_path / "recorded"
    written.mkdir()
    script.list_writers()[name](written)
    assert script.compare_folders(LAB / name / "recorded", written) == []
    # And the comparison tells when one differs.
    victim = next(p for p in sorted(written.rglob("*")) if p.is_file() and p.suffix != ".lock")
    victim.unlink()
    assert script.compare_folders(LAB / name / "recorded", written)


def test_all_that_is_simulated_is_kept_and_small() -> None:
    script = load_script()
    assert {p.parent.name for p in LAB.glob("*/recorded")} >= set(script.list_writers())
    kept = [p for n in SIMULATED for p in (LAB / n / "recorded").rglob("*") if p.is_file()]
    assert max(p.stat().st_size for p in kept) < 450_000
    assert sum(p.stat().st_size for p in kept) < 6_000_000


@pytest.mark.parametrize("name", PAIRED)
def test_the_planted_cause_is_first_and_its_fix_gains(name: str) -> None:
    trial = try_kept(SIMULATED[name])
    assert trial is not None
    assert is_first(SIMULATED[name], trial)
    assert trial.realised_pct > 5
    assert trial.prediction.gain_pct and trial.prediction.gain_pct > 5


@pytest.mark.parametrize("name", ALONE)
def test_the_planted_cause_is_first_where_there_is_no_time_to_compare(name: str) -> None:
    """Snapshots of memory and histories of power."""
    folder = SIMULATED[name].folder / "recorded"
    places = [*folder.glob("*baseline*"), *folder.glob("*.csv"), *folder.glob("gpu-history")]
    run = open_session([str(place) for place in places])
    assert next(f.rule for f in run.findings() if not f.abstained) == SIMULATED[name].finding


@pytest.mark.parametrize("name", sorted(SIMULATED))
def test_the_lesson_has_its_sections_and_outputs(name: str) -> None:
    text = (LAB / name / "README.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {SIMULATED[name].title}\n\n**Symptom.** ")
    assert "simulated: no GPU took part" in " ".join(text.split())
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert re.findall(r"^## (.*)$", prose, re.MULTILINE) == SECTIONS
    outputs = re.findall(r"```sh\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    assert len(outputs) == text.count("```sh\n") >= 2
    for commands, output in outputs:
        assert output.strip(), commands
    assert "/work/" not in text
    assert "/tmp/" not in text


@pytest.mark.parametrize("name", sorted(SIMULATED))
def test_both_sides_differ_by_their_lesson(name: str) -> None:
    programs = [SIMULATED[name].find_program(side) for side in SIDES]
    if programs == [None, None]:
        return  # it reads recordings
    before, after = (p.read_text(encoding="utf-8").splitlines() for p in programs if p)
    shared = set(before) & set(after)
    assert before != after
    assert len(shared) > 0.5 * len(set(before))


@pytest.mark.parametrize("path", PYTHON, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_python_compiles(path: Path) -> None:
    assert compile(path.read_text(encoding="utf-8"), path.name, "exec").co_names


@pytest.mark.campaign
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_programs_run_without_a_gpu() -> None:
    """Two steps or three, in one process, as importing PyTorch takes longer than all of them."""
    assert len(WITHOUT_GPU) >= 16
    script = (
        "import runpy, sys\nfor path in sys.argv[1:]: runpy.run_path(path, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, *map(str, WITHOUT_GPU[::PROGRAMS])],
        env={**os.environ, "TORCH_COMPILE_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ("torch", "triton"))), reason="Triton is not installed"
)
def test_the_triton_kernel_computes_what_pytorch_does() -> None:
    """By Triton's interpreter, against both forms of the activation in PyTorch."""
    script = (
        "import runpy, sys, torch\n"
        "slow, fast = (runpy.run_path(path)['activate'] for path in sys.argv[1:])\n"
        "hidden, bias, residual = torch.randn(32, 96), torch.randn(96), torch.randn(32, 96)\n"
        "found = fast(hidden, bias, residual)\n"
        "gelu = torch.nn.functional.gelu(hidden + bias, approximate='tanh') + residual\n"
        "for expected in (slow(hidden, bias, residual), gelu):\n"
        "    torch.testing.assert_close(found, expected)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *(LAB / "triton-fusion" / f"{s}.py" for s in SIDES)],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.parametrize("program", CUDA[::KERNELS_OF])
def test_cuda_compiles_to_the_registers_of_the_model(program: str, tmp_path: Path) -> None:
    name, side = program.removesuffix(".cu").split("/")
    said = compile_cuda(LAB / program, "sm_90", tmp_path)
    modeled = dict(zip(SIDES, KERNELS[name], strict=False))[side]
    spills = int(re.findall(r"(\d+) bytes spill stores", said)[0])
    assert (spills > 0) == any(isinstance(p, Access) and p.space == "local" for p in modeled.parts)
    assert int((re.findall(r"(\d+) bytes smem", said) or ["0"])[0]) == modeled.shared_bytes
    version = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True)
    if "release 13.0" in version.stdout:  # others may choose other numbers
        assert int(re.findall(r"Used (\d+) registers", said)[0]) == modeled.registers


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="nvcc is not installed")
@pytest.mark.skipif(not CAMPAIGNS, reason="a long campaign: make sweep")
@pytest.mark.parametrize("program", CUDA)
def test_cuda_compiles_for_older_gpus(program: str, tmp_path: Path) -> None:
    assert "registers" in compile_cuda(LAB / program, "sm_80", tmp_path)


def compile_cuda(path: Path, arch: str, folder: Path) -> str:
    """What ptxas says of a program."""
    done = subprocess.run(
        ["nvcc", *FLAGS, f"-arch={arch}", "-o", str(folder / "x.cubin"), str(path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_the_model_counts_what_the_documentation_says() -> None:
    """Four sectors for a coalesced load, 32 for a stride of 32 bytes; banks of four bytes."""

    def stride(count: int, space: str = "global") -> Access:
        return Access(space, "ld", [count * lane for lane in range(32)])

    assert [stride(n).sectors for n in (0, 4, 8, 32, 128)] == [1, 4, 8, 32, 32]
    assert [stride(n).ideal_sectors for n in (0, 4, 8, 32)] == [1, 4, 4, 4]
    assert [stride(n, "shared").wavefronts for n in (0, 4, 8, 12, 128, 132)] == [1, 1, 2, 1, 32, 1]


@pytest.mark.parametrize("name", KERNELS)
def test_the_models_occupancy_is_that_of_the_calculator(name: str) -> None:
    """Two implementations that share nothing."""
    for program in KERNELS[name][:2]:
        launch = Launch(
            threads=program.warps * 32,
            registers=program.registers,
            shared_bytes=program.shared_bytes + H100.shared_reserved,
        )
        limits = Limits(
            max_warps=H100.max_warps,
            max_blocks=H100.max_blocks,
            registers=H100.registers,
            shared_bytes=H100.shared_bytes,
            schedulers=H100.schedulers,
        )
        assert compute_occupancy(limits, launch).active_blocks == run_kernel(program).resident


@pytest.mark.parametrize("name", KERNELS)
def test_no_unit_of_the_model_exceeds_its_peak(name: str) -> None:
    for program in KERNELS[name][:2]:
        outcome = run_kernel(program)
        assert all(0 <= share <= 1 for share in outcome.busy.values()), outcome.busy
        assert 0 < outcome.active_warps <= H100.max_warps
        metrics = count_metrics(outcome)
        stalls = [v for n, v in metrics.items() if "_issue_stalled_" in n]
        latency = metrics["smsp__average_warp_latency_per_inst_issued.ratio"]
        assert sum(stalls) == pytest.approx(latency)
        bandwidth = metrics["dram__bytes.sum"] / (outcome.ns / 1e9)
        assert bandwidth <= H100.dram_bytes_per_s


def test_an_exercise_without_its_cause_is_not_taken_for_planted(tmp_path: Path) -> None:
    """The improved side as both sides: the planted cause must not come first."""
    shutil.copytree(LAB / "memory-timeline", tmp_path / "exercise")
    kept = tmp_path / "exercise" / "recorded"
    shutil.copy(kept / "improved.json.gz", kept / "baseline.json.gz")
    exercise: Exercise = read_exercise(tmp_path / "exercise")
    trial = try_kept(exercise)
    assert trial is not None
    assert not is_first(exercise, trial)
