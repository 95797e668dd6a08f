"""AMD's rocprofv3 around a program, or attached to one: a timeline, or where waves stall.

Flags: ROCprofiler-SDK, "Using rocprofv3" and "Using PC sampling" (rocm.docs.amd.com).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.backends._shared import IN_CYCLES, describe_tool
from sightline.record.collect.look import Look
from sightline.record.collect.situation import Situation

# Where AMD advises to begin (ROCm Compute Profiler, "Using PC sampling"): 2^20 cycles; the method
# that older GPUs have counts µs instead, and takes 1 µs at the least.
_PERIOD, _PERIOD_US = 20, 10
_LONG_S = 1_000_000  # as long as the program runs


def _judge(situation: Situation) -> Verdict:
    facts = situation.facts
    if facts["rocprofv3"] is None:
        return Verdict(False, "rocprofv3 is not on the PATH")
    if not facts["amd_gpus"] and not situation.is_asked:
        return Verdict(False, "no AMD GPU was found")
    tool = f"rocprofv3 {facts['rocprofv3']}"
    if situation.question != "stalls":
        return Verdict(True, f"{tool}: kernels, copies, HIP calls, RCCL, ROCTx")
    method = facts["amd_sampling"]
    if facts["amd_gpus"] and method is None:
        why = "rocprofv3 --list-avail names no way to sample these GPUs (MI200 and later)"
        return Verdict(False, why)
    if method == "host_trap" and situation.options.get("period"):
        return Verdict(False, IN_CYCLES)
    what = "where waves stall" if method != "host_trap" else "where waves are"
    why = f"{tool}: {what}, by PC sampling, which AMD calls beta"
    return Verdict(True, why, {"samples": True, "amd_sampling": method})


def _find_sampling(look: Look) -> str | None:
    """How AMD's GPUs can be sampled: stochastic, which tells stalls, before host_trap."""
    if not look.facts["amd_gpus"] or look.facts["rocprofv3"] is None:
        return None
    told = look.run(["rocprofv3", "--list-avail"]) or ""
    for method in ("stochastic", "host_trap"):
        if f"ROCPROFILER_PC_SAMPLING_METHOD_{method.upper()}" in told:
            return method
    return None


def _describe(facts: Facts) -> Way:
    has_gpu = bool(facts["amd_gpus"])
    return describe_tool(facts, "rocprofv3", "ROCm timeline (rocprofv3)", has_gpu=has_gpu)


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["rocprofv3"] is None:
        yield Missing(
            "rocprofv3 is not on the PATH",
            ("sudo apt-get install rocprofiler-sdk     # AMD's ROCm repository",
             "export PATH=$PATH:/opt/rocm/bin"),
            "https://rocm.docs.amd.com/projects/rocprofiler-sdk/",
        )  # fmt: skip


def build_command(
    command: Sequence[str], folder: Path, name: str, options: Mapping[str, Any]
) -> list[str]:
    """`rocprofv3` around a command: a timeline, or (`samples`) where waves stall.

    Each process writes a file of its own, named by its number. PC samples are only in JSON and CSV.
    """
    words = ["rocprofv3", "--output-directory", str(folder), "--output-file", f"{name}.%pid%"]
    if options.get("samples"):
        is_hardware = options.get("amd_sampling") != "host_trap"
        interval = 1 << (options.get("period") or _PERIOD) if is_hardware else _PERIOD_US
        words += ["--kernel-trace", "--pc-sampling-beta-enabled",
                  "--pc-sampling-method", "stochastic" if is_hardware else "host_trap",
                  "--pc-sampling-unit", "cycles" if is_hardware else "time",
                  "--pc-sampling-interval", str(interval), "--output-format", "json"]  # fmt: skip
    else:
        words += ["--runtime-trace", "--output-format", "rocpd"]
    if options.get("after_s") or options.get("seconds"):
        # START:LENGTH:REPEAT, in s unless told otherwise; whole ms are exact.
        delay = round(1000 * (options.get("after_s") or 0))
        length = round(1000 * (options.get("seconds") or _LONG_S))
        words += ["--collection-period", f"{delay}:{length}:1", "--collection-period-unit", "msec"]
    return [*words, "--", *command]


def attach_to(pid: int, folder: Path, name: str, seconds: float) -> list[str]:
    """`rocprofv3` inside a running program that was started with ROCP_TOOL_ATTACH=1.

    ROCprofiler-SDK, "Dynamic process attachment using rocprofv3".
    """
    return [
        "rocprofv3", "--attach", str(pid), "--attach-duration-msec", str(round(1000 * seconds)),
        "--runtime-trace", "--output-format", "rocpd",
        "--output-directory", str(folder), "--output-file", name,
    ]  # fmt: skip


BACKEND = Backend(
    "rocprofv3",
    order=60,
    is_of_gpu=True,
    judge=_judge,
    reads=("period", "after_s", "seconds"),
    answers={
        "timeline": lambda situation: situation.vendor_tool == "rocprofv3",
        "stalls": lambda situation: situation.has_only_amd,
    },
    carries=("stalls",),
    traces="around",
    facts=(
        Fact("rocprofv3", 60, lambda look: look.find_version("rocprofv3")),
        Fact("amd_sampling", 61, _find_sampling),
    ),
    ways=(_describe,),
    needs=("rocprofv3",),
    checks={"rocprofv3": _check},
    build_command=build_command,
)
