"""Intel's unitrace around a program: a timeline, or where EUs stall.

Flags: intel/pti-gpu, tools/unitrace/README.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.backends._shared import IN_CYCLES, describe_tool
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    facts = situation.facts
    if facts["unitrace"] is None:
        return Verdict(False, "unitrace is not on the PATH")
    if not facts["intel_gpus"] and not situation.is_asked:
        return Verdict(False, "no Intel GPU was found")
    tool = f"unitrace {facts['unitrace']}"
    if situation.question != "stalls":
        return Verdict(True, f"{tool}: kernels, copies, Level Zero calls")
    if situation.options.get("period"):
        return Verdict(False, IN_CYCLES)
    why = f"{tool}: where EUs stall (Data Center GPU Max and later)"
    return Verdict(True, why, {"samples": True})


def _describe(facts: Facts) -> Way:
    has_gpu = bool(facts["intel_gpus"])
    return describe_tool(facts, "unitrace", "Intel GPU timeline (unitrace)", has_gpu=has_gpu)


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["unitrace"] is None:
        yield Missing(
            "unitrace is not on the PATH",
            ("git clone https://github.com/intel/pti-gpu     # then build tools/unitrace",),
            "https://github.com/intel/pti-gpu/tree/master/tools/unitrace",
        )


def build_command(
    command: Sequence[str], folder: Path, name: str, options: Mapping[str, Any]
) -> list[str]:
    """`unitrace` around a command: a timeline, or (`samples`) where EUs stall.

    Its timeline is named after the program and its process, and samples after `name`.
    """
    words = ["unitrace", "--output-dir-path", str(folder)]
    if options.get("samples"):
        words += ["--stall-sampling", "--output", f"{name}.csv"]
    else:
        words += ["--chrome-kernel-logging"]
        if not options.get("no_calls"):
            words += ["--chrome-call-logging"]
        if options.get("mpi"):
            words += ["--chrome-mpi-logging"]
    return [*words, *command]


BACKEND = Backend(
    "unitrace",
    order=70,
    is_of_gpu=True,
    judge=_judge,
    reads=("no_calls",),
    answers={
        "timeline": lambda situation: situation.vendor_tool == "unitrace",
        "stalls": lambda situation: situation.has_only_intel,
    },
    carries=("stalls",),
    traces="around",
    facts=(Fact("unitrace", 70, lambda look: look.find_version("unitrace")),),
    ways=(_describe,),
    needs=("unitrace",),
    checks={"unitrace": _check},
    build_command=build_command,
)
