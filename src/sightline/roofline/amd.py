"""AMD's speed of light: what rocprof-compute computes of the hardware counters of a kernel.

Formulas: ROCm/rocprofiler-compute, src/rocprof_compute_soc/analysis_configs/gfx*/
0200_system-speed-of-light.yaml, and its defaults for $GRBM_GUI_ACTIVE_PER_XCD. Where peaks there
contradict AMD's data sheets or a measurement, docs/accuracy.md says so: those here are the data
sheets' (CDNA 2, 3 and 4 white papers, "Compute Unit" and "Memory").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

# Operations of the matrix cores of one compute unit in a cycle, dense: CDNA, CDNA 2, CDNA 3 and
# CDNA 4 white papers, tables of peak rates over compute units and clock.
_MATRIX = {
    "gfx90a": {"F64": 256, "F32": 256, "F16": 1024, "BF16": 1024, "I8": 1024},
    "gfx942": {"F64": 256, "F32": 256, "F16": 2048, "BF16": 2048, "F8": 4096, "I8": 4096},
    "gfx950": {
        "F64": 128, "F32": 256, "F16": 4096, "BF16": 4096, "F8": 8192, "F6F4": 16384, "I8": 8192,
    },
}  # fmt: skip
_MATRIX["gfx940"] = _MATRIX["gfx941"] = _MATRIX["gfx942"]
_VECTOR = ("ADD", "MUL", "TRANS")


@dataclass(frozen=True)
class Light:
    """One figure: value and peak in the unit. `peak` is None where the machine is not known."""

    value: float
    unit: str
    peak: float | None = None

    @property
    def pct(self) -> float | None:
        """The share of the peak."""
        return 100 * self.value / self.peak if self.peak else None


class _Counts:
    """The counters of one kernel; asking for one that was not collected raises KeyError."""

    def __init__(self, counts: Mapping[str, float], arch: str, ns: float | None) -> None:
        self._counts, self.arch, self._ns = counts, arch, ns

    def __getitem__(self, name: str) -> float:
        return self._counts[name]

    @property
    def ns(self) -> float:
        """The kernel's duration, without which there is no rate."""
        if not self._ns:
            raise KeyError("duration")
        return self._ns

    @property
    def cycles(self) -> float:
        """Cycles in which the GPU was active, of one of its dies."""
        return self["GRBM_GUI_ACTIVE"] / self._counts.get("num_xcd", 1)

    def cycles_of(self, level: str) -> float:
        """The same of the pass that added this level up, where that is known."""
        active = self._counts.get(f"GRBM_GUI_ACTIVE@{level}", self._counts.get("GRBM_GUI_ACTIVE"))
        if active is None:
            raise KeyError(level)
        return active / self._counts.get("num_xcd", 1)

    @property
    def unit_cycles(self) -> float:
        """Cycles of all compute units together."""
        return self.cycles * self["cu_per_gpu"]

    @property
    def clock(self) -> float:
        """Cycles of the highest clock in a ns."""
        return self["max_sclk"] / 1000

    @property
    def is_new(self) -> bool:
        """Whether it is CDNA 3 or later, whose caches have lines of 128 bytes."""
        return self.arch in ("gfx940", "gfx941", "gfx942", "gfx950")

    def fabric(self, name: str) -> float:
        """A counter of the L2's way to memory, which has another name since CDNA 3."""
        for prefix in ("TCC_EA0", "TCC_EA"):
            if f"{prefix}_{name}" in self._counts:
                return self._counts[f"{prefix}_{name}"]
        raise KeyError(name)


def _vector_flop(c: _Counts) -> float:
    return 64 * sum(
        sum(c[f"SQ_INSTS_VALU_{op}_{t}"] for op in _VECTOR) + 2 * c[f"SQ_INSTS_VALU_FMA_{t}"]
        for t in ("F16", "F32", "F64")
    )


def _read_bytes(c: _Counts) -> float:
    short = c.fabric("RDREQ_32B_sum")
    # Since CDNA 3 a request may be for 128 bytes, which TCC_BUBBLE counts.
    long = c["TCC_BUBBLE_sum"] if c.is_new else 0.0
    return 32 * short + 128 * long + 64 * (c.fabric("RDREQ_sum") - short - long)


def _written_bytes(c: _Counts) -> float:
    whole = c.fabric("WRREQ_64B_sum")
    return 64 * whole + 32 * (c.fabric("WRREQ_sum") - whole)


def _memory_peak(c: _Counts) -> float:
    try:
        return c["hbm_bw"]
    except KeyError:
        return c["max_mclk"] / 1000 * 32 * c["num_hbm_channels"]


def _l1_misses(c: _Counts) -> float:
    return (
        c["TCP_TCC_READ_REQ_sum"]
        + c["TCP_TCC_WRITE_REQ_sum"]
        + sum(c[f"TCP_TCC_ATOMIC_{kind}_RET_REQ_sum"] for kind in ("WITH", "WITHOUT"))
    )


def _lds_useful(c: _Counts) -> float:
    return c["SQ_LDS_IDX_ACTIVE"] - c["SQ_LDS_BANK_CONFLICT"]


def _line(c: _Counts) -> int:
    return 128 if c.is_new else 64


_Formula = Callable[[_Counts], float]


def _of_units(counter: str, each: int = 1) -> _Formula:
    return lambda c: 100 * c[counter] / (c.unit_cycles * each)


def _hits(hit: str, miss: str) -> _Formula:
    return lambda c: 100 * c[hit] / (c[hit] + c[miss])


def _matrix_rate(kind: str) -> tuple[str, str, _Formula, _Formula]:
    what = "IOPs (Int8)" if kind == "I8" else f"FLOPs ({kind})"
    return (
        f"MFMA {what}",
        "Gop/s",
        lambda c: 512 * c[f"SQ_INSTS_VALU_MFMA_MOPS_{kind}"] / c.ns,
        lambda c: c.clock * c["cu_per_gpu"] * _MATRIX[c.arch][kind],
    )


def _of_100(_: _Counts) -> float:
    return 100.0


# Name as rocprof-compute prints it, unit, value, peak.
_FIGURES: tuple[tuple[str, str, _Formula, _Formula | None], ...] = (
    (
        "VALU FLOPs",
        "Gop/s",
        lambda c: _vector_flop(c) / c.ns,
        lambda c: c.clock * c["cu_per_gpu"] * 128,
    ),
    (
        "VALU IOPs",
        "Gop/s",
        lambda c: 64 * (c["SQ_INSTS_VALU_INT32"] + c["SQ_INSTS_VALU_INT64"]) / c.ns,
        lambda c: c.clock * c["cu_per_gpu"] * 128,
    ),
    *(_matrix_rate(kind) for kind in ("F8", "BF16", "F16", "F32", "F64", "F6F4", "I8")),
    ("SALU Utilization", "%", _of_units("SQ_ACTIVE_INST_SCA"), _of_100),
    ("VALU Utilization", "%", _of_units("SQ_ACTIVE_INST_VALU"), _of_100),
    ("MFMA Utilization", "%", _of_units("SQ_VALU_MFMA_BUSY_CYCLES", 4), _of_100),
    (
        "VMEM Utilization",
        "%",
        lambda c: 100 * (c["SQ_ACTIVE_INST_FLAT"] + c["SQ_ACTIVE_INST_VMEM"]) / c.unit_cycles,
        _of_100,
    ),
    ("Branch Utilization", "%", _of_units("SQ_ACTIVE_INST_MISC"), _of_100),
    (
        "VALU Active Threads",
        "threads",
        lambda c: c["SQ_THREAD_CYCLES_VALU"] / c["SQ_ACTIVE_INST_VALU"],
        lambda c: c["wave_size"],
    ),
    ("IPC", "inst/cycle", lambda c: c["SQ_INSTS"] / c["SQ_BUSY_CU_CYCLES"], lambda _: 5.0),
    (
        "Wavefront Occupancy",
        "waves",
        lambda c: c["SQ_LEVEL_WAVES_ACCUM"] / c.cycles_of("SQ_LEVEL_WAVES"),
        lambda c: c["max_waves_per_cu"] * c["cu_per_gpu"],
    ),
    (
        "Theoretical LDS Bandwidth",
        "GB/s",
        lambda c: 4 * _lds_useful(c) * c["lds_banks_per_cu"] / c.ns,
        lambda c: c["max_sclk"] * c["cu_per_gpu"] * 0.128,
    ),
    ("LDS Utilization", "%", _of_units("SQ_LDS_IDX_ACTIVE"), _of_100),
    (
        "LDS Bank Conflicts/Access",
        "conflicts",
        lambda c: c["SQ_LDS_BANK_CONFLICT"] / _lds_useful(c),
        lambda _: 32.0,
    ),
    (
        "vL1D Cache Hit Rate",
        "%",
        lambda c: 100 - 100 * _l1_misses(c) / c["TCP_TOTAL_CACHE_ACCESSES_sum"],
        _of_100,
    ),
    (
        "vL1D Cache BW",
        "GB/s",
        lambda c: c["TCP_TOTAL_CACHE_ACCESSES_sum"] * _line(c) / c.ns,
        lambda c: c.clock * _line(c) * c["cu_per_gpu"],
    ),
    ("L2 Cache Hit Rate", "%", _hits("TCC_HIT_sum", "TCC_MISS_sum"), _of_100),
    (
        "L2 Cache BW",
        "GB/s",
        lambda c: c["TCC_REQ_sum"] * (64 if c.arch in ("gfx906", "gfx908") else 128) / c.ns,
        lambda c: c.clock * (64 if c.arch in ("gfx906", "gfx908") else 128) * c["total_l2_chan"],
    ),
    ("L2-Fabric Read BW", "GB/s", lambda c: _read_bytes(c) / c.ns, _memory_peak),
    ("L2-Fabric Write BW", "GB/s", lambda c: _written_bytes(c) / c.ns, _memory_peak),
    (
        "L2-Fabric Read Latency",
        "cycles",
        lambda c: c.fabric("RDREQ_LEVEL_sum") / c.fabric("RDREQ_sum"),
        None,
    ),
    (
        "L2-Fabric Write Latency",
        "cycles",
        lambda c: c.fabric("WRREQ_LEVEL_sum") / c.fabric("WRREQ_sum"),
        None,
    ),
    ("sL1D Cache Hit Rate", "%", _hits("SQC_DCACHE_HITS", "SQC_DCACHE_MISSES"), _of_100),
    (
        "sL1D Cache BW",
        "GB/s",
        lambda c: 64 * c["SQC_DCACHE_REQ"] / c.ns,
        lambda c: 64 * c.clock * c["sqc_per_gpu"],
    ),
    ("L1I Hit Rate", "%", _hits("SQC_ICACHE_HITS", "SQC_ICACHE_MISSES"), _of_100),
    (
        "L1I BW",
        "GB/s",
        lambda c: 64 * c["SQC_ICACHE_REQ"] / c.ns,
        lambda c: 64 * c.clock * c["sqc_per_gpu"],
    ),
    (
        "LDS limits waves",
        "%",
        lambda c: 400 * c["SPI_RA_LDS_CU_FULL_CSN"] / c.unit_cycles,
        _of_100,
    ),
    ("VGPRs limit waves", "%", _of_units("SPI_RA_VGPR_SIMD_FULL_CSN"), _of_100),
    ("SGPRs limit waves", "%", _of_units("SPI_RA_SGPR_SIMD_FULL_CSN"), _of_100),
    ("Wave slots limit waves", "%", _of_units("SPI_RA_WAVE_SIMD_FULL_CSN"), _of_100),
)
FIGURES = tuple(name for name, *_ in _FIGURES)


def compute_light(
    counts: Mapping[str, float], arch: str | None, ns: float | None
) -> dict[str, Light]:
    """The figures of a kernel by name: those whose counters were collected.

    `counts` are its counters, and what is known of the GPU under the names of sysinfo.csv; what
    rocprof-compute itself computed stands in under the figure's name. `ns` is its duration.
    """
    counted = _Counts(counts, arch or "", ns)
    found = {}
    for name, unit, value, peak in _FIGURES:
        recorded = counts.get(name)
        number = _try(value, counted) if recorded is None else recorded
        if number is not None:
            highest = counts.get(f"{name} (Peak)")
            if highest is None and peak is not None:
                highest = _try(peak, counted)
            found[name] = Light(number, unit, highest)
    return found


def _try(formula: _Formula, counts: _Counts) -> float | None:
    """The formula's value; None where a counter is missing, or nothing was counted to divide by."""
    try:
        return formula(counts)
    except (KeyError, ZeroDivisionError):
        return None


# The parts of the two throughputs that rank kernels, as Nsight Compute has them for NVIDIA's.
COMPUTE_PARTS = (
    "VALU Utilization", "MFMA Utilization", "SALU Utilization", "VMEM Utilization",
    "Branch Utilization",
)  # fmt: skip
MEMORY_PARTS = ("Theoretical LDS Bandwidth", "vL1D Cache BW", "L2 Cache BW")
_FABRIC = ("L2-Fabric Read BW", "L2-Fabric Write BW")


def find_busiest(light: Mapping[str, Light], parts: tuple[str, ...]) -> tuple[str, float] | None:
    """The part with the highest share of its peak, and that share in %."""
    shares = [(pct, n) for n in parts if n in light and (pct := light[n].pct) is not None]
    if not shares:
        return None
    pct, name = max(shares)
    return name, pct


def compute_memory_pct(light: Mapping[str, Light]) -> float | None:
    """What is read and written through the fabric, % of the device memory's bandwidth."""
    shares = [light[name].pct for name in _FABRIC if name in light]
    known = [s for s in shares if s is not None]
    return sum(known) if known else None
