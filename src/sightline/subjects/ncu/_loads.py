"""What a warp's global loads ask of the L1, how wide they are, and how long warps wait for them."""

from __future__ import annotations

from sightline.diagnosis.kernel_bounds import Case
from sightline.diagnosis.stall_advice import STALLED, WARP_LATENCY

_OF_LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
REQUESTS, SECTORS = _OF_LOADS.format("requests"), _OF_LOADS.format("sectors")
USED_BYTES = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"  # of 32
WHOLE_SECTOR = 28  # of them are used: nearly all (ours)
# A warp that waits for global or local memory waits for its data, or for a place in the queue.
MEMORY_WAITS = tuple(map(STALLED.format, ("long_scoreboard", "lg_throttle")))


def measure_memory_waits(case: Case) -> float | None:
    """How much of the time between two issues warps wait for global and local memory, %."""
    latency, waits = case.get(WARP_LATENCY), [case.get(name) for name in MEMORY_WAITS]
    if not latency or None in waits:
        return None
    return 100 * sum(wait or 0.0 for wait in waits) / latency
