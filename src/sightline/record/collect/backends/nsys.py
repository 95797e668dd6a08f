"""Nsight Systems around a program, or around each of its ranks.

Options: Nsight Systems User Guide, "CLI Profile Command Switch Options"
(docs.nvidia.com/nsight-systems). They differ between versions (2022.4 has no Python backtraces,
2023.4 --gpu-metrics-device, later ones --gpu-metrics-devices and a trace of NCCL), so what this
machine's nsys has is read from its own help.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.record.collect import launchers
from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.backends._shared import NO_GPU, describe_tool
from sightline.record.collect.look import Look
from sightline.record.collect.mpi_calls import is_mpi_job
from sightline.record.collect.situation import Situation

TRACES = ("cuda", "nvtx", "osrt", "cublas", "cudnn")
GPU_METRICS_HZ = (10, 200_000)  # nsys 2023.4, --gpu-metrics-frequency
# As many as py-spy takes; nsys takes 1,000 a second by default.
_PYTHON_HZ = 100
# With it TensorRT-LLM calls cudaProfilerStart and Stop itself (its Performance Analysis).
_SWITCHED = "TLLM_PROFILE_START_STOP"


def _read_help(look: Look) -> dict[str, list[str]] | None:
    """The options and traces that this nsys has; None where there is none, or it does not say."""
    text = look.run(["nsys", "profile", "--help"]) if look.facts["nsys"] is not None else None
    if text is None or "--trace" not in text:
        return None
    values = re.search(
        r"-t, --trace=.*?Possible values are(.*?)\.\s*$", text, re.DOTALL | re.MULTILINE
    )
    return {
        "options": sorted(set(re.findall(r"--([a-z][a-z-]*[a-z])", text))),
        "traces": re.findall(r"'([a-z-]+)'", values[1]) if values else [],
    }


def list_traces(asked: str | None, *, mpi: bool, gil: bool) -> list[str]:
    """What is traced: the usual, and what the program is; `+a,b` adds to it, `a,b` replaces it."""
    added = [name for name in (asked or "").lstrip("+").split(",") if name]
    if asked and not asked.startswith("+"):
        return list(dict.fromkeys(added))
    own = [*TRACES, *(["mpi"] if mpi else []), *(["python-gil"] if gil else [])]
    return list(dict.fromkeys([*own, *added]))


def _judge(situation: Situation) -> Verdict:
    if situation.facts["nsys"] is None:
        return Verdict(False, "nsys is not on the PATH")
    if not situation.has_gpu and not situation.is_asked:
        return Verdict(False, NO_GPU)
    version = f"Nsight Systems {situation.facts['nsys']}"
    chosen, known = situation.options, situation.facts.get("nsys_help")
    stacks = bool(chosen.get("stacks"))
    traces = list_traces(
        chosen.get("trace"),
        mpi=is_mpi_job(situation.command),
        gil=stacks and situation.is_python,
    )
    why = version
    if known is not None:
        if "nccl" in traces and "nccl" not in known["traces"]:
            traces.remove("nccl")
            why += ", which has no trace of NCCL: its calls are recorded as NVTX ranges"
        if known["traces"] and (missing := [t for t in traces if t not in known["traces"]]):
            names = ", ".join(known["traces"])
            return Verdict(False, f"{version} cannot trace {', '.join(missing)}: it has {names}")
        if stacks and situation.is_python and "python-backtrace" not in known["options"]:
            return Verdict(False, f"{version} has no --python-backtrace, which --stacks needs")
    place = launchers.find_program(situation.command, situation.facts.get("mpi_rank"))
    options = {
        "traces": traces,
        "nsys_options": None if known is None else known["options"],
        "is_python": situation.is_python,
        "place": place,
    }
    if _SWITCHED in os.environ and not chosen.get("capture"):
        options["capture"] = True
    if place is not None:
        why += ", a report of each rank"
    elif situation.is_launched:
        why += ", one report of all ranks on this host"
    return Verdict(True, why, options)


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
    """`nsys profile` around a command. The exit code is the program's (--wait all keeps it).

    Behind a launcher it is around each rank, whose report is named after it (`options["place"]`).
    """
    place: launchers.Place | None = options.get("place")
    if place is None:
        return [*_write_options(folder, name, options), *command]
    mark = name.removeprefix("host-").split(".")[0]
    own = f"rank%q{{{place.rank}}}-{mark}-%p.nsys"
    around = _write_options(folder, own, options)
    chosen = _choose_ranks(place.rank, options.get("ranks") or (), options.get("every") or 1)
    if chosen is None:
        return [*place.before, *around, *place.program]
    # A shell at each rank decides, and becomes the program of those that are not chosen.
    script = f'if {chosen}; then exec {shlex.join(around)} "$@"; fi; exec "$@"'
    return [*place.before, "sh", "-c", script, "sh", *place.program]


def _choose_ranks(variable: str, ranks: Sequence[int], every: int) -> str | None:
    """A shell's condition that a rank is to be recorded; None where all are."""
    number = f"${{{variable}:-0}}"
    tests = [f"[ {' -o '.join(f'{number} -eq {rank}' for rank in ranks)} ]"] if ranks else []
    if every > 1:
        tests.append(f"[ $(({variable} % {every})) -eq 0 ]")
    return " && ".join(tests) or None


def _write_options(folder: Path, name: str, options: Mapping[str, Any]) -> list[str]:
    is_python, stacks = bool(options.get("is_python")), bool(options.get("stacks"))
    traces = options.get("traces") or list_traces(None, mpi=bool(options.get("mpi")), gil=False)
    if options.get("server"):  # TensorRT-LLM's Performance Analysis, its example of nsys
        traces = list(dict.fromkeys([*traces, "python-gil"]))
    # Frameworks of Python take GPU memory in large blocks and seldom: each is cheap to record.
    # nsys warns of the cost where a program allocates often.
    memory = is_python or options.get("memory") or options.get("question") == "memory"
    # Samples of the CPU cost time and often a permission: only where they are asked for.
    samples = "process-tree" if options.get("cpu") or (stacks and not is_python) else "none"
    words = [
        "nsys", "profile", "--output", str(folder / name), "--force-overwrite", "true",
        "--export", "sqlite", "--trace", ",".join(traces),
        "--cuda-graph-trace", options.get("graph") or "node",
        "--cuda-memory-usage", "true" if memory else "false",
        "--sample", samples, "--cpuctxsw", samples, "--wait", "all",
    ]  # fmt: skip
    if stacks and is_python:
        words += ["--python-backtrace", "cuda", "--python-sampling", "true"]
        words += ["--python-sampling-frequency", str(_PYTHON_HZ)]
    elif stacks:
        words += ["--cudabacktrace", "all"]
    if options.get("gpu_metrics"):
        known = options.get("nsys_options")
        is_old = known is not None and "gpu-metrics-devices" not in known
        words += ["--gpu-metrics-device" if is_old else "--gpu-metrics-devices", "all"]
        words += ["--gpu-metrics-frequency", str(options["gpu_metrics"])]
    if options.get("capture"):
        end = options["capture"] if isinstance(options["capture"], str) else "stop"
        words += ["--capture-range", "cudaProfilerApi", "--capture-range-end", end]
    if options.get("server"):  # its workers start by fork and exec
        words += ["--trace-fork-before-exec", "true"]
    if options.get("after_s"):
        words += ["--delay", f"{options['after_s']:g}"]
    if options.get("seconds"):
        words += ["--duration", f"{options['seconds']:g}", "--kill", "none"]
    return words


BACKEND = Backend(
    "nsys",
    order=30,
    is_of_gpu=True,
    judge=_judge,
    answers={
        "timeline": lambda situation: situation.vendor_tool == "nsys",
        "memory": lambda situation: not situation.is_python,
    },
    reads=(
        "trace", "gpu_metrics", "stacks", "memory", "capture", "graph", "after_s", "seconds",
    ),
    asked_by=("trace", "gpu_metrics"),
    traces="around",
    facts=(
        Fact("nsys", 30, lambda look: look.find_version("nsys")),
        Fact("nsys_help", 31, _read_help),
        Fact("mpi_rank", 32, lambda look: launchers.find_mpi(look.run(["mpirun", "--version"]))),
    ),
    ways=(_describe,),
    needs=("gpu", "nsys"),
    checks={"nsys": _check},
    build_command=build_command,
)  # fmt: skip
