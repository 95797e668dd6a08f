"""Each step asks the kernel for memory that it gave back a step before.

Symptom
    Operators on large tensors are slower than memory is, and much CPU time is the kernel's.

Why it hurts
    glibc's malloc maps blocks of 32 MiB and more anew (mallopt(3), M_MMAP_THRESHOLD), and gives
    the top of its heap back. Each 4 KiB page that is touched for the first time is a fault: the
    kernel finds a page and zeroes it, which takes longer than the operator's work on it.

Evidence
    Page faults and the kernel's CPU time of the process at the ends of steps. The gain is a bound:
    the kernel's time, spread over the CPUs that the process keeps busy.

Threshold
    Over 5 % of the window, and so many faults that at 2.5 µs each they explain the kernel's time
    (ours: 0.25 µs for a first touch on bare metal, 1.3 µs in a virtual machine, lab/page-faults).

Fix
    Keep tensors and write into them (out=, in-place operators, a pool of buffers); jemalloc or
    tcmalloc by LD_PRELOAD; MALLOC_MMAP_THRESHOLD_ and MALLOC_TRIM_THRESHOLD_ at 4 GiB; huge pages.

False positives
    A program that still grows touches new memory once: choose later steps.

References
    mallopt(3); PyTorch Performance Tuning Guide, "CPU specific optimizations", on jemalloc.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_pct, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice
from sightline.subjects.host.rules._asleep import measure_share, report_blocked
from sightline.timeline.host_parts import has_only_host
from sightline.timeline.step_usage import sum_usage

RULE = Rule("host-page-faults", "Page faults in each step", explains_lateness=True)

FAULT_NS = 2_500
PAGE_BYTES = 4096


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all ranks."""
    if not has_only_host(run):
        return
    spread = pl.col("kernel_pct") / pl.max_horizontal("cpus", 1.0)
    explained = pl.col("faults") * FAULT_NS >= pl.col("kernel_ns")
    lost = measure_share(run, pl.when(explained).then(spread).otherwise(0))
    if lost is None or lost.pct < NOTABLE_PCT:
        return
    row = sum_usage(run).sort("faults", descending=True).row(0, named=True)
    faults = row["faults"] // max(row["steps"] or 1, 1)
    yield report_blocked(
        RULE,
        lost,
        f"The kernel spends {format_pct(lost.pct)} of the time handing out memory: "
        f"{format_several(faults, 'page fault')} a step.",
        [f"{format_bytes(faults * PAGE_BYTES)} are touched for the first time in each step"],
        Advice(
            fix="keep large tensors and write into them (out=, in-place), or preload jemalloc; "
            "MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=4294967296 shows its "
            "gain",
            verify="sightline stats step_usage AFTER: faults and kernel_ns",
        ),
        confidence="medium",
    )
