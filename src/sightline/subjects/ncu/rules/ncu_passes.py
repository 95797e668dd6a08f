"""A sort or a transform of one's own that passes over all of its data in each launch.

Symptom
    One kernel, launched dozens of times over the same grid, that runs near the memory's rate and
    does hardly anything with what it loads.

Why it hurts
    Each launch reads and writes everything. At the memory's rate a launch gets no faster: fewer of
    them do, each of which takes several steps of the algorithm.

Evidence
    Launches of one kernel of one grid, and how long memory is needed for them. What the algorithm
    is, its name tells (timeline/own_kernels.tsv): the steps of a sorting network and of a transform
    may be taken together, whatever the data.

Threshold
    Five launches, for 40 % of whose time memory is needed (both ours: under it passes are bound by
    something else). Estimate, global: half of the time for which memory is needed, which is what
    two steps in one pass save.

Fix
    Several steps a launch: all that are nearer than a tile in shared memory, two to four others
    over elements that a thread keeps in registers; or the library's algorithm.

False positives
    Launches that sort different arrays, each in one pass.

References
    Peters, Schulz-Hildebrandt and Luttenberger, "Fast In-Place, Comparison-Based Sorting with
    CUDA" (2011); Merrill and Grimshaw, "High Performance and Scalable Radix Sorting" (2011).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sightline.core.algebra.kernel_libraries import find_library
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_pct, format_several
from sightline.diagnosis.kernel_bounds import DRAM, L2, METRICS, WAITS, Case
from sightline.diagnosis.kernel_cases import load_cases
from sightline.diagnosis.kernel_estimates import Hit
from sightline.diagnosis.profiled import make_findings
from sightline.roofline.launch import count_blocks
from sightline.roofline.placement import MEMORY_PCT
from sightline.timeline.own_kernels import find_algorithm

RULE = Rule(
    "ncu-passes",
    "Many passes over the same data",
    explains=(
        *WAITS,
        "ncu-occupancy-achieved",
        "ncu-occupancy-limit",
        "ncu-memory-limit",
        "ncu-busiest-unit",
        "ncu-tail-effect",
    ),
)
LEAST_LAUNCHES, LEAST_PCT = 5, 40.0
_IN_STEPS = ("sort", "transform")
_SAVED = 0.5  # two steps in one pass


def check(run: Run) -> Iterator[Finding]:
    """One finding for each kernel of a sort or a transform."""
    every = load_cases(run, (MEMORY_PCT,), "--section SpeedOfLight", METRICS)
    yield from make_findings(
        RULE,
        _list_hits(every),
        every,
        "{}.",
        "take several steps in one launch: steps whose stride fits a tile together in shared "
        "memory, two to four others on elements that a thread keeps in registers",
        "sightline stats speed_of_light AFTER: fewer launches, each as long as one of these",
    )


def _list_hits(every: list[Case]) -> Iterator[Hit]:
    groups: dict[tuple[str, int], list[Case]] = defaultdict(list)
    for case in every:
        name, blocks = case.facts.row["name"] or "", count_blocks(case.facts)
        if blocks and _measure_memory(case) >= LEAST_PCT and _takes_steps(name):
            groups[name, int(blocks)].append(case)
    for cases in groups.values():
        if len(cases) < LEAST_LAUNCHES:
            continue
        took = sum(case.time_ns for case in cases)
        mean = sum(case.time_ns * _measure_memory(case) for case in cases) / max(took, 1.0)
        evidence = (
            f"{format_several(len(cases), 'launch', 'launches')} over all of the data, each of "
            f"which needs memory for {format_pct(mean)} of its time"
        )
        for case in cases:
            estimate = _SAVED * _measure_memory(case)
            yield Hit(case, estimate, None, evidence, relieves_limit=True)


def _takes_steps(name: str) -> bool:
    """Whether it is a kernel of the program's own whose steps may be taken together."""
    algorithm = find_algorithm(name)
    return algorithm is not None and algorithm.algorithm in _IN_STEPS and find_library(name) is None


def _measure_memory(case: Case) -> float:
    """For how much of the time device memory or the L2 is needed, %."""
    return max(case.use(DRAM) or 0.0, case.use(L2) or 0.0)
