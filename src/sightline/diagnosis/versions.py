"""Beside the first finding about a profiled kernel: another version of it that is much faster.

Who writes kernels profiles their first, second and third version in one go. Their names say that
they are versions of one thing; that they compute the same, only their author knows.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from statistics import mean

from sightline.core.algebra.kernel_libraries import find_library
from sightline.core.cxx_names import parse_function
from sightline.core.model.declare import Finding
from sightline.core.model.run import Run
from sightline.core.units import format_ns

# Versions are told apart by a number at the end: transpose3, sgemm_thread_tile_v2, reduce_2.
_VERSION = re.compile(r"^(.*[^\W\d_].*?)_?[vV]?(\d{1,3})$")
TIMES = 1.5  # ours: launches of one kernel under locked clocks differ by a few per cent


def measure_launches(run: Run) -> dict[str, float]:
    """The mean time of a launch by function, ns, of kernels that the program's author wrote."""
    every: defaultdict[str, list[int]] = defaultdict(list)
    kernels = run.table("profiled_kernels").select("name", "duration_ns").drop_nulls()
    for name, took in kernels.iter_rows():
        if took > 0 and find_library(name) is None:
            every[_get_base(name)].append(took)
    return {base: mean(each) for base, each in every.items()}


def _get_base(name: str) -> str:
    return parse_function(name).base


def add_version(finding: Finding, kernel: str, times: Mapping[str, float]) -> Finding:
    """The finding about a profiled kernel, with a version of it that takes far less.

    `times` is what `measure_launches` says.
    """
    base = _get_base(kernel)
    stem, own = _VERSION.match(base), times.get(base)
    if stem is None or own is None or not finding.fix:
        return finding
    alike = {
        other: took
        for other, took in times.items()
        if other != base and (found := _VERSION.match(other)) and found[1] == stem[1]
    }
    best = min(alike, key=lambda name: alike[name], default=None)
    if best is None or own < TIMES * alike[best]:
        return finding
    line = (
        f"{best}, by its name another version of it, takes {format_ns(round(alike[best]))} a "
        f"launch: {own / alike[best]:.1f} times less"
    )
    fix = f"{finding.fix}; if it computes the same, see first what {best} does differently"
    return replace(finding, evidence=(*finding.evidence, line), fix=fix)
