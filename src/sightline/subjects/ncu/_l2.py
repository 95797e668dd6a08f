"""Which part of the L2 is busy: what comes in from the SMs, what goes out, tags, data banks.

The L2's throughput is that of its busiest part (Nsight Compute, Kernel Profiling Guide, "Metrics
Decoder": a throughput is the maximum of its breakdown).
"""

from __future__ import annotations

from typing import NamedTuple

from sightline.diagnosis.kernel_bounds import L2, Case
from sightline.roofline.placement import LATENCY_PCT

_PCT = ".avg.pct_of_peak_sustained_elapsed"
_INPUT, _OUTPUT, _SECTORS, _ATOMICS = (
    f"lts__{part}{_PCT}"
    for part in (
        "xbar2lts_cycles_active",
        "lts2xbar_cycles_active",
        "t_sectors",
        "d_atomic_input_cycles_active",
    )
)
# The parts of the breakdown, in words.
_PARTS = {
    _INPUT: "its input from the SMs",
    _OUTPUT: "its output to the SMs",
    _SECTORS: "its sectors",
    f"lts__t_tag_requests{_PCT}": "its tags",
    f"lts__d_sectors{_PCT}": "its data banks",
    _ATOMICS: "its atomic units",
    f"lts__d_sectors_fill_device{_PCT}": "what device memory fills it with",
    f"lts__d_sectors_fill_sysmem{_PCT}": "what the host's memory fills it with",
}
METRICS = tuple(_PARTS)
# Ours, by recordings: kernels that fill arrays by whole sectors keep the input as busy as the
# sectors on an A40 and a T4 (31 and 31 %, 17 and 17 %), and 1.7 times as busy on an H100
# (spill.before: 68 and 40 %); stores of 4 bytes a sector 2.7 times on an RTX 4070 and 4080 (89 and
# 33 %), and 3.5 times on an H100 (transpose.before: 88 and 25 %).
_PARTIAL = 2.0
# Atomics send parts of sectors by nature; loads come back through the output (ours).
_FEW = 0.1


class InputLimit(NamedTuple):
    """An L2 whose input is full of requests that carry part of a sector, % of each one's peak."""

    input_pct: float
    sectors_pct: float

    @property
    def needless_pct(self) -> float:
        """How much of the input's work whole sectors save at most: down to the sectors' rate."""
        return 100 * (1 - self.sectors_pct / self.input_pct)


def name_l2_part(case: Case) -> str | None:
    """The part of the L2 that makes its throughput, in words; None where no part is known to."""
    used, parts = case.use(L2), {name: pct for name in METRICS if (pct := case.get(name))}
    busiest = max(parts, key=lambda name: parts[name], default=None)
    # Another part that no report lists may be the busiest.
    if used is None or busiest is None or parts[busiest] < 0.99 * used:
        return None
    return _PARTS[busiest]


def find_partial_stores(case: Case) -> InputLimit | None:
    """Where stores of parts of sectors fill the L2's input, which binds the kernel; else None."""
    came, went, sectors = (case.get(name) for name in (_INPUT, _OUTPUT, _SECTORS))
    if came is None or sectors is None or came < LATENCY_PCT or came < (case.use(L2) or 0.0) * 0.99:
        return None
    few = _FEW * came
    is_other = (went or 0.0) > came / _PARTIAL or (case.get(_ATOMICS) or 0.0) > few
    return None if is_other or came < _PARTIAL * sectors else InputLimit(came, sectors)
