"""Intel's iaprof beside a program: where its kernels stall, with the CPU stacks that launched them.

It takes no program: it writes what the whole machine's GPU does to standard output until it is
interrupted (intel/iaprof, README.md: root, Linux 6.15 with the driver xe, Level Zero with probes).
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from sightline.record.collect.backend import Backend, Fact, Facts, Missing, Verdict, Way
from sightline.record.collect.backends._shared import describe_tool
from sightline.record.collect.situation import Situation


def _judge(situation: Situation) -> Verdict:
    facts = situation.facts
    if facts.get("iaprof") is None:
        return Verdict(False, "iaprof is not on the PATH")
    if not facts["intel_gpus"] and not situation.is_asked:
        return Verdict(False, "no Intel GPU was found")
    if os.geteuid() != 0:
        return Verdict(False, "iaprof needs root")
    return Verdict(True, "iaprof: where kernels stall on the whole machine, with CPU stacks")


def _describe(facts: Facts) -> Way:
    has_gpu = bool(facts["intel_gpus"])
    known = {"iaprof": facts.get("iaprof")}
    return describe_tool(known, "iaprof", "Intel GPU flame graph (iaprof)", has_gpu=has_gpu)


def _check(facts: Facts, root: bool) -> Iterator[Missing]:
    if facts.get("iaprof") is None:
        yield Missing(
            "iaprof is not on the PATH",
            (
                "git clone --recursive https://github.com/intel/iaprof",
                "cd iaprof && make deps && ./build.sh      # then build/iaprof",
            ),
            "https://github.com/intel/iaprof",
        )


BACKEND = Backend(
    "iaprof",
    order=85,
    is_of_gpu=True,
    judge=_judge,
    # unitrace samples stalls, too, and says at which launch.
    answers={"stalls": lambda s: s.has_only_intel and s.facts["unitrace"] is None},
    carries=("stalls",),
    facts=(Fact("iaprof", 76, lambda look: look.run(["which", "iaprof"])),),
    ways=(_describe,),
    needs=("iaprof",),
    checks={"iaprof": _check},
)
