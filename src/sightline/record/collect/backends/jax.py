"""JAX's own profiler, within the programs that import it (inline.jax_profiler)."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict
from sightline.record.collect.frameworks import judge_framework
from sightline.record.collect.look import find_package
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    return judge_framework(situation, "JAX", "jax")


def _is_installed(situation: Situation) -> bool:
    return situation.is_python and situation.facts.get("jax") is not None


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts.get("jax") is None:
        yield Missing(
            "jax is not installed in this Python",
            ("pip install jax            # or the program's own environment has it",),
            "https://docs.jax.dev/en/latest/installation.html",
        )


BACKEND = Backend(
    "jax",
    order=20,
    is_of_gpu=True,
    judge=_judge,
    reads=("steps", "after_s", "seconds", "stacks"),
    answers={
        "timeline": _is_installed,
        "memory": _is_installed,
        "system": lambda situation: _is_installed(situation) and situation.has_gpu,
    },
    traces="within",
    facts=(Fact("jax", 130, lambda look: find_package("jax")),),
    needs=("jax",),
    checks={"jax": _check},
)
