"""Nsight Systems around a program.

Flags: Nsight Systems User Guide, "CLI Profile Command Switch Options"
(docs.nvidia.com/nsight-systems).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.backends._shared import NO_GPU, describe_tool
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    if situation.facts["nsys"] is None:
        return Verdict(False, "nsys is not on the PATH")
    if not situation.has_gpu and not situation.is_asked:
        return Verdict(False, NO_GPU)
    return Verdict(True, f"Nsight Systems {situation.facts['nsys']}")


def _describe(facts: Facts) -> Way:
    has_gpu = bool(facts["gpus"])
    return describe_tool(facts, "nsys", "CUDA timeline (Nsight Systems)", has_gpu=has_gpu)


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["nsys"] is None:
        yield Missing(
            "nsys is not on the PATH",
            (
                "sudo apt-get install nsight-systems-cli   # NVIDIA's devtools or CUDA repository",
                'export PATH="/usr/local/cuda/bin:$PATH"   # where a CUDA toolkit has it',
            ),
            "https://docs.nvidia.com/nsight-systems/InstallationGuide/",
        )


def build_command(
    command: Sequence[str], folder: Path, name: str, options: Mapping[str, Any]
) -> list[str]:
    """`nsys profile` around a command. The exit code is the program's (--wait all keeps it)."""
    words = [
        "nsys", "profile", "--output", str(folder / name), "--force-overwrite", "true",
        "--export", "sqlite", "--trace", "cuda,nvtx,osrt,cublas,cudnn",
        "--cuda-graph-trace", options.get("graph") or "node",
        "--cuda-memory-usage", "true" if options.get("question") == "memory" else "false",
        # Samples of the CPU cost time and often a permission: asked for with the backend cpu.
        "--sample", "process-tree" if options.get("cpu") else "none",
        "--cpuctxsw", "process-tree" if options.get("cpu") else "none",
        "--wait", "all",
    ]  # fmt: skip
    if options.get("mpi"):
        words[words.index("--trace") + 1] += ",mpi"
    if options.get("capture"):
        words += ["--capture-range", "cudaProfilerApi", "--capture-range-end", "stop"]
    if options.get("server"):  # TensorRT-LLM's Performance Analysis: workers start by fork and exec
        words[words.index("--trace") + 1] += ",python-gil"
        words += ["--trace-fork-before-exec", "true"]
    if options.get("after_s"):
        words += ["--delay", f"{options['after_s']:g}"]
    if options.get("seconds"):
        words += ["--duration", f"{options['seconds']:g}", "--kill", "none"]
    return [*words, *command]


BACKEND = Backend(
    "nsys",
    order=30,
    is_of_gpu=True,
    judge=_judge,
    answers={
        "timeline": lambda situation: situation.vendor_tool == "nsys",
        "memory": lambda situation: not situation.is_python,
    },
    traces="around",
    facts=(Fact("nsys", 30, lambda look: look.find_version("nsys")),),
    ways=(_describe,),
    needs=("gpu", "nsys"),
    checks={"nsys": _check},
    build_command=build_command,
)
