"""The GPUs' power, clocks, memory and utilization through NVML, while a program runs."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way, always
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    if not situation.has_gpu and not situation.is_asked:
        return Verdict(False, "no NVIDIA GPU was found")
    return Verdict(True, "power, clocks, memory and utilization, 20 times a second")


def _is_picked(situation: Situation) -> bool:
    if situation.is_python:
        return situation.has_gpu or situation.is_launched
    return situation.vendor_tool not in ("rocprofv3", "unitrace")


def _describe(facts: Facts) -> Way:
    what = "GPU power, clocks, energy (NVML)"
    if facts["nvml"] is None:
        return Way(what, False, facts["nvml_problem"] or "NVML does not say its version")
    lost = facts.get("unreachable_gpus", [])
    reach = f"; it does not reach {', '.join(lost)}" if lost else ""
    return Way(what, bool(facts["gpus"]), facts["nvml"] + reach)


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    from sightline.record.nvml.library import Unavailable, connect_nvml

    try:
        connect_nvml()
    except Unavailable as error:
        yield Missing(
            str(error),
            (
                "nvidia-smi                 # must work: NVML comes with the driver",
                "pip install nvidia-ml-py   # the binding",
            ),
            "https://docs.nvidia.com/deploy/nvml-api/",
        )


BACKEND = Backend(
    "nvml",
    order=90,
    is_of_gpu=True,
    judge=_judge,
    answers={
        "timeline": _is_picked,
        "kernels": always,
        "stalls": lambda situation: not situation.has_only_amd and not situation.has_only_intel,
        "memory": always,
        "energy": always,
        "system": always,
    },
    carries=("energy",),
    facts=(
        Fact("nvml", 20, lambda look: look.nvml["version"]),
        Fact("nvml_problem", 21, lambda look: look.nvml["problem"]),
    ),
    ways=(_describe,),
    needs=("gpu", "nvml"),
    checks={"nvml": _check},
)
