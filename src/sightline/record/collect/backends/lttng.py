"""LTTng: events of user space, and of the kernel where its modules are (collect.lttng)."""

from __future__ import annotations

from collections.abc import Iterator

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, always
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    facts = situation.facts
    if facts["lttng"] is None:
        return Verdict(False, "lttng is not on the PATH")
    of_kernel = "the kernel and " if facts["lttng_kernel"] else ""
    return Verdict(True, f"LTTng {facts['lttng']}: events of {of_kernel}user space")


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts["lttng"] is None:
        yield Missing(
            "lttng, which traces user space and the kernel, is not installed",
            (
                "sudo apt-get install lttng-tools liblttng-ust-dev   # user space",
                "sudo apt-get install lttng-modules-dkms             # the kernel",
            ),
            "https://lttng.org/docs/#doc-installing-lttng",
        )


BACKEND = Backend(
    "lttng",
    order=100,
    is_of_gpu=False,
    judge=_judge,
    reads=("snapshot", "snapshot_on", "rotate", "events"),
    asked_by=("events",),
    answers={"system": always},
    carries=("system",),
    facts=(
        Fact("lttng", 90, lambda look: look.find_version("lttng")),
        Fact("lttng_kernel", 91, lambda look: look.run(["modinfo", "lttng_tracer"]) is not None),
    ),
    needs=("lttng",),
    checks={"lttng": _check},
)
