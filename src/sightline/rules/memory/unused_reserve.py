"""The allocator holds whole segments that nothing uses.

Symptom
    nvidia-smi shows far more memory in use than the program allocates; another process on the
    device runs out of it.

Why it hurts
    A caching allocator keeps what was freed for the next request. What a phase that is over needed
    (loading, warm-up, an evaluation) stays taken from other processes, NCCL and libraries.

Evidence
    Segments without a block in use (`sightline stats fragmentation`, unused_bytes).
    torch.cuda.empty_cache() gives back exactly these.

Threshold
    Over 20 % of what is reserved (ours: below, the next step mostly takes it again).

Fix
    torch.cuda.empty_cache() once after the phase that needed it, never in each step;
    PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8 gives back by itself.

False positives
    A snapshot from between two steps: the next step uses the same segments again. So this is a
    remark where nothing failed.

References
    PyTorch, "CUDA semantics", "Memory management" and "Optimizing memory usage".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.model.declare import Finding, Rule
from sightline.model.run import Run
from sightline.rules.finding import Advice
from sightline.rules.memory._shared import make_memory_finding, name_device, write_share
from sightline.units import format_bytes

RULE = Rule("unused-reserve", "Reserved memory that nothing uses")
LEAST_PCT = 20.0


def check(run: Run) -> Iterator[Finding]:
    """One finding for each device."""
    if not run.rows("memory_segments"):
        return
    for device in run.ask("fragmentation").drop_nulls("device_id").iter_rows(named=True):
        lost, reserved = device["unused_bytes"], device["reserved_bytes"]
        if not reserved or 100 * lost < LEAST_PCT * reserved:
            continue
        yield make_memory_finding(
            RULE,
            device,
            f"{format_bytes(lost)} on {name_device(device)} are in segments that nothing uses: "
            f"{write_share(lost, reserved)} of what the allocator holds.",
            cost_bytes=lost,
            gain_bytes=lost,
            whole_bytes=reserved,
            evidence=[
                f"{format_bytes(reserved)} reserved, {format_bytes(device['active_bytes'])} in use"
            ],
            advice=Advice(
                fix="torch.cuda.empty_cache() after the phase that needed it, or "
                "PYTORCH_ALLOC_CONF=garbage_collection_threshold:0.8",
                verify="sightline stats fragmentation AFTER: unused_bytes",
                cause="the cache keeps what an earlier phase needed",
                sources=("PyTorch, CUDA semantics: Memory management",),
            ),
            method="the segments without a block in use, which empty_cache() gives back",
            confidence="medium",
            severity="info",
        )
