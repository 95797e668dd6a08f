"""One kernel takes most of what the GPU did, by a table of sums.

Symptom
    A row of the kernels' table that is longer than any other row of the GPU's work.

Why it hurts
    It need not hurt: it says where to begin, and that the other kernels matter less.

Evidence
    The tables' sums (`sightline stats summed_runs`).

Threshold
    A tenth of the GPU's work. Where it is the largest of all rows, copies and memsets among them,
    it comes first, unless something else gains a tenth of the summed time.

Fix
    Profile this kernel with Nsight Compute or rocprof-compute; a better algorithm, where its name
    says what it computes.

False positives
    A recording of one kernel on purpose. A name that the table cut may be that of several.

References
    Amdahl, "Validity of the single processor approach" (1967): the limit on what else can give.
    Intel, oneAPI GPU Optimization Guide, "Registers and Performance", for kernels that spill.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sightline.core.algebra.scalars import find_largest, sum_column
from sightline.core.kernel_labels import label_kernels
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.diagnosis.algorithms import advise_kernel
from sightline.diagnosis.build import Advice, Evidence, abstain, build_finding
from sightline.timeline.sum_facts import WAITS, SumFacts, read_sums

RULE = Rule("summed-kernel", "One kernel takes more than any other")

LEAST_PCT, MOST_PCT = 10.0, 50.0
# Intel, oneAPI GPU Optimization Guide, "Small Register Mode vs. Large Register Mode": 128 or 256.
_MOST_REGISTERS = 256
_LARGE_FILE = ", or give it the large register file (-ze-opt-large-register-file)"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding."""
    facts = read_sums(run)
    if facts is None:
        return
    if facts.kernels.is_empty():
        yield abstain(
            RULE,
            "no kernel is in the tables; print them:  nsys stats --report "
            "cuda_gpu_kern_sum,cuda_gpu_mem_time_sum,cuda_gpu_mem_size_sum,cuda_api_sum REPORT",
        )
        return
    top = facts.kernels.row(0, named=True)
    if 100 * top["ns"] < LEAST_PCT * facts.gpu_ns or not top["ns"]:
        return
    share = 100 * top["ns"] / facts.kernel_ns
    others = max(find_largest(facts.copies, "ns"), facts.fill_ns)
    mean = top["ns"] // max(top["calls"] or 1, 1)
    yield build_finding(
        RULE,
        f"{format_pct(share)} of all kernel time is `{_label(facts, 0)}`: "
        f"{format_several(top['calls'] or 0, 'launch', 'launches')} of {format_ns(mean)} on "
        "average.",
        Evidence(
            [*_list_evidence(facts, top["name"]), *_list_spills(top)],
            where={"kernel": top["name"]},
        ),
        Advice(
            fix=_advise_spills(top) + advise_kernel(run, top["name"]),
            verify="sightline stats summed_runs AFTER: kernel_ns",
        ),
        price=(make_price(top["ns"], "ns", 100 * top["ns"] / max(facts.repeated_ns, 1)), None),
        title="One kernel takes most of the kernel time" if share >= MOST_PCT else RULE.title,
        severity="info",
        states_limit=top["ns"] >= others,
    )


def _label(facts: SumFacts, place: int) -> str:
    """The kernel of that place, told apart from the other of the first two."""
    names = facts.kernels.get_column("name").head(2).to_list()
    return label_kernels(names)[names[place]]


def _list_spills(kernel: dict[str, Any]) -> Iterator[str]:
    """What a thread keeps in memory for want of registers, or by its code."""
    spilled, private = kernel["spilled_bytes"], kernel["private_bytes"]
    registers = kernel["registers"]
    file = f"its {format_several(registers, 'register')}" if registers else "registers"
    if spilled:
        size = format_bytes(spilled)
        yield f"registers spill: {size} of each thread are in memory, not in {file}"
    if private:
        yield f"{format_bytes(private)} of each thread's variables are in memory, not in {file}"


def _advise_spills(kernel: dict[str, Any]) -> str:
    if not kernel["spilled_bytes"]:
        return ""
    larger = "" if (kernel["registers"] or 0) >= _MOST_REGISTERS else _LARGE_FILE
    return (
        f"let each thread need fewer registers (smaller tiles, less unrolling, a narrower SIMD "
        f"width){larger}; then "
    )


def _list_evidence(facts: SumFacts, name: str) -> Iterator[str]:
    yield name
    rest = facts.kernels.row(1, named=True) if facts.kernels.height > 1 else None
    if rest is not None:
        yield f"next: {format_ns(rest['ns'])} in `{_label(facts, 1)}`"
    yield (
        f"the GPU's work together: kernels {format_ns(facts.kernel_ns)}, copies "
        f"{format_ns(sum_column(facts.copies, 'ns'))}, memsets {format_ns(facts.fill_ns)}"
    )
    calls, ns = facts.sum_calls(WAITS)
    if 2 * ns >= facts.kernel_ns:
        yield (
            f"{format_ns(ns)} in {format_several(calls, 'synchronizing call')} are the host's wait "
            "for this work, and no cost of their own"
        )
