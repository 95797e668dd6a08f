"""One kernel takes more device time than all others together.

Symptom
    A single kernel name holds over half of all kernel time.

Why it hurts
    It need not hurt: it says where work on kernels pays, and that other kernels hardly matter.

Evidence
    Kernel time by name (`sightline stats kernels`).

Threshold
    Over 50 % of kernel time (more than all others together), where compute is over half of the
    window: else the kernels are not what limits. Where the kernel alone takes over half of the
    window, it comes first unless a finding gains 10 % of the window or more.

Fix
    Profile this kernel with Nsight Compute or rocprof-compute; look for a library kernel, a
    lower precision or a fused form.

False positives
    A recording of one operator on purpose.

References
    Amdahl, "Validity of the single processor approach" (1967): the limit on what else can give.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.kernel_labels import is_graph
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.algorithms import choose_in_ncu
from sightline.diagnosis.build import Advice, Evidence, build_finding
from sightline.subjects.kernels.rules._launches import advise_algorithm
from sightline.timeline.classes import is_communication
from sightline.timeline.copies import is_too_little

RULE = Rule("dominating-kernel", "One kernel dominates the compute time", over_time=True)

KERNEL_PCT = 50.0
COMPUTE_PCT = 50.0


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or is_too_little(run):
        return
    rows = run.ask("breakdown")
    windows = max(sum_column(rows, "window_ns"), 1)
    compute_pct = 100 * sum_column(rows, "compute_ns") / windows
    kernels = run.ask("kernels")
    kernels = kernels.filter(~is_communication(pl.col("name")))
    if kernels.is_empty() or compute_pct < COMPUTE_PCT:
        return
    top = kernels.row(0, named=True)
    if is_graph(top["name"]):
        return  # many kernels, recorded as one
    share = 100 * top["total_ns"] / max(sum_column(kernels, "total_ns"), 1)
    cost_pct = 100 * top["total_ns"] / windows
    if share < KERNEL_PCT:
        return
    yield build_finding(
        RULE,
        f"{format_pct(share)} of all kernel time is one kernel: "
        f"{format_several(top['instances'], 'instance')}, median {format_ns(top['median_ns'])}.",
        Evidence((top["name"],), where={"kernel": top["name"]}),
        Advice(
            fix=advise_algorithm(run, top["name"])
            + f"profile it:  ncu --set full{choose_in_ncu(top['name'])} -c 1",
            verify="sightline stats kernels AFTER",
        ),
        price=(make_price(top["total_ns"], "ns", cost_pct), None),
        severity="info",
        confidence="high",
        states_limit=cost_pct > COMPUTE_PCT,
    )
