"""PyTorch's own profiler, within the programs that import it (inline.torch_profiler)."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.frameworks import judge_framework
from sightline.record.collect.look import find_package
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    return judge_framework(situation, "PyTorch", "torch")


def _describe(facts: Facts) -> Way:
    what = "PyTorch timeline"
    if facts["torch"] is None:
        return Way(what, False, "torch is not installed in this Python")
    if not facts["gpus"]:
        return Way(what, True, "the CPU side only: no GPU was found")
    return Way(what, True, "torch.profiler, with CPU and CUDA activities")


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["torch"] is None:
        yield Missing(
            "torch is not installed in the Python that runs sightline (it is enough if the "
            "program's own Python has it)",
            ("pip install torch",),
            "https://pytorch.org/get-started/locally/",
        )


BACKEND = Backend(
    "torch",
    order=10,
    is_of_gpu=True,
    judge=_judge,
    reads=("steps", "after_s", "seconds", "stacks", "memory"),
    answers={
        "timeline": lambda situation: situation.is_python,
        "memory": lambda situation: situation.is_python,
        "system": lambda situation: situation.is_python and situation.has_gpu,
    },
    traces="within",
    facts=(Fact("torch", 120, lambda look: find_package("torch")),),
    ways=(_describe,),
    needs=("torch",),
    checks={"torch": _check},
)
