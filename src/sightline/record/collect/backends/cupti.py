"""sightline's own library, which the CUDA driver loads into a program (collect.cupti)."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.backends._shared import NO_GPU
from sightline.record.collect.cupti import INJECTION, find_injection, list_cuptis, names_other
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    if not situation.facts["cupti_injection"]:
        return Verdict(False, "sightline was built without CUPTI's headers")
    other = names_other(os.environ)
    if other is not None:
        return Verdict(False, f"{INJECTION} is {other}: the driver loads one profiler")
    if not situation.has_gpu and not situation.is_asked:
        return Verdict(False, NO_GPU)
    samples = situation.options.get("sampling") or situation.question == "stalls"
    if samples and not situation.samples_through_cupti:
        return Verdict(False, "the driver gives PC samples to root only (ERR_NVGPUCTRPERM)")
    what = "kernels, copies, API calls, waits" + (", where warps stall" if samples else "")
    return Verdict(True, f"CUPTI, through sightline's own library: {what}")


def _samples_stalls(situation: Situation) -> bool:
    """While the program runs, without a second run of any kernel."""
    of_others = situation.has_only_amd or situation.has_only_intel
    return not of_others and situation.samples_through_cupti


def _describe(facts: Facts) -> Way:
    what = "Timeline and stalls (CUPTI)"
    if not facts["cupti_injection"]:
        return Way(what, False, "sightline was built without CUPTI's headers")
    if not facts["gpus"]:
        return Way(what, False, "sightline's library is installed, but no GPU was found")
    where = facts["cupti"] or "the program's own CUPTI, if it has one"
    if facts["counters_need_admin"]:
        where += "; stalls only for root (ERR_NVGPUCTRPERM)"
    return Way(what, True, where)


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if not facts["cupti_injection"]:
        yield Missing(
            "sightline was built without the library that records through CUPTI: NVIDIA's headers "
            "were not there",
            (
                "scripts/setup                                # in a checkout: fetches them",
                "sudo apt-get install cuda-cupti-dev-13-0     # NVIDIA's CUDA repository; then",
                "pip install --force-reinstall --no-deps .    # in a checkout",
            ),
            "https://docs.nvidia.com/cupti/",
        )
    elif facts["cupti"] is None:
        yield Missing(
            "no CUPTI was found in this Python or in a CUDA toolkit (it is enough if the program "
            "has its own, as PyTorch does)",
            (
                "pip install nvidia-cuda-cupti                # CUDA 13",
                "pip install nvidia-cuda-cupti-cu12           # CUDA 12",
            ),
            "https://docs.nvidia.com/cupti/",
        )


BACKEND = Backend(
    "cupti",
    order=50,
    is_of_gpu=True,
    judge=_judge,
    reads=("sampling", "period", "no_calls", "budget", "flush_ms", "measure_cost", "graph"),
    answers={
        "timeline": lambda situation: situation.vendor_tool == "cupti",
        "stalls": _samples_stalls,
    },
    carries=("stalls",),
    traces="around",
    facts=(
        Fact("cupti", 140, lambda look: next(iter(list_cuptis(look.root)), None)),
        Fact("cupti_injection", 141, lambda look: find_injection() is not None),
    ),
    ways=(_describe,),
    needs=("gpu", "cupti"),
    checks={"cupti": _check},
)
