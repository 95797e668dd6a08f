"""Nsight Compute around a program: counters of single kernels.

Flags: Nsight Compute CLI, "Command Line Options" (docs.nvidia.com/nsight-compute).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way, always
from sightline.record.collect.backends._shared import NO_GPU, describe_tool
from sightline.record.collect.situation import Situation

_LAUNCHES = 50  # without a limit a training run is replayed for days


def _judge(situation: Situation) -> Verdict:
    if situation.facts["ncu"] is None:
        return Verdict(False, "ncu is not on the PATH")
    if not situation.has_gpu and not situation.is_asked:
        return Verdict(False, NO_GPU)
    if not situation.may_read_counters:
        return Verdict(False, "the driver gives its counters to root only (ERR_NVGPUCTRPERM)")
    return Verdict(
        True, f"Nsight Compute {situation.facts['ncu']}: every kernel is run several times"
    )


def _samples_stalls(situation: Situation) -> bool:
    """It needs a second run of each kernel: only where nothing samples while the program runs."""
    of_others = situation.has_only_amd or situation.has_only_intel
    return not of_others and not situation.samples_through_cupti


def _describe(facts: Facts) -> Way:
    has_gpu = bool(facts["gpus"])
    way = describe_tool(facts, "ncu", "Kernel counters (Nsight Compute)", has_gpu=has_gpu)
    if way.possible and facts["counters_need_admin"]:
        remedy = (
            "only for root: the driver restricts counters "
            "(NVIDIA ERR_NVGPUCTRPERM page: NVreg_RestrictProfilingToAdminUsers=0)"
        )
        return Way(way.what, True, remedy)
    return way


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["ncu"] is None:
        yield Missing(
            "ncu is not on the PATH",
            (
                "sudo apt-get install nsight-compute       # NVIDIA's CUDA repository",
                'export PATH="/usr/local/cuda/bin:$PATH"   # where a CUDA toolkit has it',
            ),
            "https://docs.nvidia.com/nsight-compute/",
        )


def build_command(
    command: Sequence[str], folder: Path, name: str, options: Mapping[str, Any]
) -> list[str]:
    """`ncu` around a command. Clocks stay as they are unless `lock_clocks` asks for base clocks."""
    words = [
        "ncu", "--export", str(folder / name), "--force-overwrite", "--target-processes", "all",
        *_choose_metrics(options), "--import-source", "yes",
        "--replay-mode", options.get("replay") or "kernel",
        "--clock-control", "base" if options.get("lock_clocks") else "none",
    ]  # fmt: skip
    if options.get("graph"):  # not in ncu 2022.3, and by node unless it is said
        words += ["--graph-profiling", options["graph"]]
    if options.get("cache_control"):
        words += ["--cache-control", options["cache_control"]]
    if options.get("kernel"):
        words += ["--kernel-name", f"regex:{options['kernel']}"]
    if options.get("launch_skip"):
        words += ["--launch-skip", str(options["launch_skip"])]
    words += ["--launch-count", str(options.get("launch_count") or _LAUNCHES)]
    if options.get("capture"):
        words += ["--profile-from-start", "off"]
    return [*words, *command]


def _choose_metrics(options: Mapping[str, Any]) -> list[str]:
    """A set, unless sections or single metrics are asked for: each more is another replay."""
    words = ["--set", options["set"]] if options.get("set") else []
    for section in options.get("sections") or ():
        words += ["--section", section]
    if options.get("metrics"):
        words += ["--metrics", ",".join(options["metrics"])]
    return words or ["--set", "full"]


BACKEND = Backend(
    "ncu",
    order=40,
    is_of_gpu=True,
    judge=_judge,
    reads=(
        "kernel", "launch_skip", "launch_count", "set", "replay", "graph", "lock_clocks", "capture",
        "metrics", "sections", "cache_control",
    ),
    asked_by=("metrics", "sections", "cache_control"),
    answers={"kernels": always, "stalls": _samples_stalls},
    carries=("kernels", "stalls"),
    traces="around",
    facts=(Fact("ncu", 40, lambda look: look.find_version("ncu")),),
    ways=(_describe,),
    needs=("gpu", "ncu", "counters"),
    checks={"ncu": _check},
    build_command=build_command,
)  # fmt: skip
