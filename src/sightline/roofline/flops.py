"""Arithmetic that a kernel did, by precision, and where the count comes from.

Vector units: thread instructions with their predicate on, an FMA counts twice (Kernel Profiling
Guide, "Roofline Charts"). A half-precision instruction works on two values: its counter's peak is
64 per clock and SM where the white papers state 256 FLOP, so an HFMA2 counts four. Blackwell adds
packed FFMA2 (two values) and QFMA4 (four).

Tensor cores, in this order of trust: op-path counters, which count operations exactly
(NVIDIA/DCGM#251: an FP8 GEMM of 4096³ gives 2MNK); matrix instructions by shape, where the report
has counts per opcode; and on Volta only, 512 operations per instruction. That factor, which the
vendor's own chart of 2024.1 still used, is wrong from Ampere on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sightline.roofline.facts import Facts

_SASS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
# Operation in the counter's name: FLOP of one thread instruction.
VECTOR = {
    "fp64": {"dadd": 1, "dmul": 1, "dfma": 2},
    "fp32": {"fadd": 1, "fmul": 1, "ffma": 2, "fadd2": 2, "fmul2": 2, "ffma2": 4},
    "fp16": {"hadd": 2, "hmul": 2, "hfma": 4},
    "fp8": {"qadd4": 4, "qmul4": 4, "qfma4": 8},
}
# The same by opcode, for reports with instruction statistics only. HFMA2 is left out: compilers
# also use it to load constants.
_BY_OPCODE = {
    "fp64": {"DADD": 1, "DMUL": 1, "DFMA": 2},
    "fp32": {"FADD": 1, "FMUL": 1, "FFMA": 2, "FADD32I": 1, "FMUL32I": 1, "FFMA32I": 2},
}
FMA_PEAK = {
    "fp64": ("sm__sass_thread_inst_executed_op_dfma_pred_on.sum.peak_sustained", 2),
    "fp32": ("sm__sass_thread_inst_executed_op_ffma_pred_on.sum.peak_sustained", 2),
    "fp16": ("sm__sass_thread_inst_executed_op_hfma_pred_on.sum.peak_sustained", 4),
}
OPS_PATH = "sm__ops_path_tensor_src_"
VOLTA_TENSOR = "sm__inst_executed_pipe_tensor.sum"
_GROUP_WARPS = 4
_VOLTA_FLOP = 512  # HMMA.884: four 8×8×4 products a warp, in two steps

_CYCLES = "smsp__cycles_elapsed.avg.per_second"
METRICS = (
    *(
        name
        for ops in VECTOR.values()
        for op in ops
        for name in (_SASS.format(op), f"{_SASS.format(op)}.per_cycle_elapsed")
    ),
    *(name for name, _ in FMA_PEAK.values()),
    _CYCLES,
    VOLTA_TENSOR,
)

# HMMA.16816.F32.BF16, IMMA.16832.S8.S8, HGMMA.64x128x16.F32, QGMMA.64x256x32.F32.E4M3.E4M3
_MATRIX = re.compile(
    r"^(?P<op>[HDIQO]G?MMA)\.(?:(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)|(?P<packed>\d{3,5}))(?P<rest>\.|$)"
)
_PACKED = {
    "884": (8, 8, 4),
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
}


@dataclass(frozen=True)
class Work:
    """Operations of one precision."""

    precision: str
    flop: float
    per_s: float | None
    source: str


def count_work(facts: Facts) -> list[Work]:
    """What the kernel computed, by precision; precisions without any operation are left out."""
    found = [w for p in VECTOR if (w := _vector(facts, p)) is not None]
    return [w for w in (*found, *_tensor(facts)) if w.flop > 0]


def is_measured(facts: Facts) -> bool:
    """Whether anything that counts arithmetic was recorded."""
    return bool(_tensor(facts)) or any(_vector(facts, p) is not None for p in VECTOR)


def _vector(facts: Facts, precision: str) -> Work | None:
    rate: float | None = None
    total: float | None = None
    for op, flop in VECTOR[precision].items():
        count = facts.get(_SASS.format(op))
        if count is not None:
            total = (total or 0.0) + flop * count
        per_cycle = facts.get(f"{_SASS.format(op)}.per_cycle_elapsed")
        if per_cycle is not None:
            rate = (rate or 0.0) + flop * per_cycle
    seconds, clock = facts.seconds, facts.get(_CYCLES) or facts.sm_clock
    per_s = rate * clock if rate is not None and clock else None
    if total is None and per_s is not None and seconds:
        total = per_s * seconds
    source = "instruction counters"
    if total is None and facts.thread_opcodes and precision in _BY_OPCODE:
        source = "thread instructions by opcode"
        total = sum(n * facts.thread_opcodes.get(o, 0) for o, n in _BY_OPCODE[precision].items())
    if total is None:
        return None
    if per_s is None and seconds:
        per_s = total / seconds
    return Work(precision, total, per_s, source)


def _tensor(facts: Facts) -> list[Work]:
    for found, source in (
        (_by_op_path(facts), "op-path counters"),
        (_by_opcode(facts), "matrix instructions by shape"),
        (_by_volta(facts), "512 operations per instruction (Volta)"),
    ):
        if found:
            seconds = facts.seconds
            return [
                Work(f"{p}_tensor", n, n / seconds if seconds else None, source)
                for p, n in found.items()
            ]
    return []


def _by_op_path(facts: Facts) -> dict[str, float]:
    """Operations by source type.

    A type's own counter is the sum of those with a _dst or _sparsity ending, so these count only
    where it was not recorded.
    """
    totals: dict[str, float] = {}
    parts: dict[str, float] = {}
    for metric, value in facts.metrics.items():
        if not (metric.startswith(OPS_PATH) and metric.endswith(".sum")):
            continue
        name = metric.removeprefix(OPS_PATH).removesuffix(".sum")
        source, _, rest = name.partition("_dst_")
        bare, _, sparsity = (rest or source).partition("_sparsity_")
        source = source.partition("_sparsity_")[0]
        if not rest and not sparsity:
            totals[source] = value
        elif not sparsity or f"{OPS_PATH}{source}{f'_dst_{bare}' if rest else ''}.sum" not in (
            facts.metrics
        ):
            parts[source] = parts.get(source, 0.0) + value
    merged = {**parts, **totals}
    return {name.split("_")[0]: n for name, n in merged.items()} if merged else {}


def _by_opcode(facts: Facts) -> dict[str, float]:
    """Operations of the matrix instructions."""
    found: dict[str, float] = {}
    for opcode, count in facts.opcodes.items():
        product = None if _is_volta(facts) else count_product(opcode)
        if product is not None:
            precision, flop = product
            found[precision] = found.get(precision, 0.0) + flop * count
    return found


def count_product(opcode: str) -> tuple[str, float] | None:
    """Source type and operations of one warp's matrix instruction, by its shape.

    None for what is not a matrix instruction, and for sparse ones, whose shape says nothing of the
    operations that are skipped.
    """
    match = _MATRIX.match(opcode)
    if match is None:
        return None
    shape = (
        _PACKED.get(match["packed"])
        if match["packed"]
        else (int(match["m"]), int(match["n"]), int(match["k"]))
    )
    if shape is None:
        return None
    m, n, k = shape
    # The shape is that of a warp group, and each of its four warps executes the instruction (PTX
    # ISA 8.7, "wgmma.mma_async"; 64x256x16 takes a Hopper SM 128 cycles at 4096 FLOP).
    warps = _GROUP_WARPS if match["op"][1:] == "GMMA" else 1
    return _precision(match["op"], opcode), 2.0 * m * n * k / warps


def _precision(op: str, opcode: str) -> str:
    if op.startswith("I") and re.search(r"\.[SU]4\b", opcode):
        return "int4"
    for kind, name in (("D", "fp64"), ("I", "int8"), ("Q", "fp8"), ("O", "fp4")):
        if op.startswith(kind):
            return name
    if "TF32" in opcode:
        return "tf32"
    return "bf16" if "BF16" in opcode else "fp16"


def _by_volta(facts: Facts) -> dict[str, float]:
    count = facts.get(VOLTA_TENSOR)
    return {"fp16": count * _VOLTA_FLOP} if count is not None and _is_volta(facts) else {}


def _is_volta(facts: Facts) -> bool:
    return facts.device.get("compute_capability") in ("7.0", "7.2")
