"""What each profiled kernel does to registers' neighbors: L1, shared memory, L2, device memory."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.columns import Column, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.facts import Facts, load_facts

_HIT = (
    ("l1", "hit rate", "l1tex__t_sector_hit_rate.pct"),
    ("l1", "hit rate, global loads", "l1tex__t_sector_pipe_lsu_mem_global_op_ld_hit_rate.pct"),
    ("l1", "hit rate, local loads", "l1tex__t_sector_pipe_lsu_mem_local_op_ld_hit_rate.pct"),
    ("l2", "hit rate", "lts__t_sector_hit_rate.pct"),
    ("l2", "throughput", "lts__throughput.avg.pct_of_peak_sustained_elapsed"),
    ("l1", "throughput", "l1tex__throughput.avg.pct_of_peak_sustained_active"),
    ("dram", "throughput", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
)
_ACCESS = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum"
_SHARED = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{}.sum"
_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
_SHARED_REQUESTS = "smsp__inst_executed_op_shared_{}.sum"
_EXCESS = (
    ("l2", "sectors beyond the ideal, global accesses", "memory_l2_theoretical_sectors_global"),
    ("shared", "wavefronts beyond the ideal", "memory_l1_wavefronts_shared"),
)
_MISS = "lts__t_sectors_srcunit_tex_aperture_{}_lookup_miss.sum"
_RATES = (
    ("dram", "read", "dram__bytes_read.sum.per_second"),
    ("dram", "written", "dram__bytes_write.sum.per_second"),
    ("dram", "traffic", "dram__bytes.sum.per_second"),
    ("l2", "read by L1", "l1tex__m_xbar2l1tex_read_bytes.sum.per_second"),
)
_APERTURES = ("device", "sysmem", "peer")
_PAIRS = [(space, op) for space in ("global", "local") for op in ("ld", "st")]
_OPS = {"ld": "loads", "st": "stores"}
_METRICS = (
    *(m for _, _, m in (*_HIT, *_RATES)),
    *(_ACCESS.format(w, s, o) for w in ("sectors", "requests") for s, o in _PAIRS),
    *(t.format(o) for t in (_SHARED, _WAVEFRONTS, _SHARED_REQUESTS) for o in _OPS),
    *(n for _, _, m in _EXCESS for n in (m, f"{m}_ideal")),
    *(_MISS.format(a) for a in _APERTURES),
)

ANALYSIS = Analysis(
    "memory_hierarchy",
    "How does each kernel use caches, shared memory and device memory?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        text("level", "l1, shared, l2 or dram", required=True),
        text("quantity", "what is measured", required=True),
        Column("value", pl.Float64, "its value", unit_in="unit"),
        text("unit", "unit of the value", required=True),
    ),
    needs=("profiled_kernels", "kernel_metrics"),
    notes=(
        "Sectors are 32 bytes. A warp that loads 4 bytes per thread side by side needs 4 sectors "
        "per request; 32 is the worst case.",
        "Bank conflicts: share of the wavefronts of shared memory that only conflicts cause.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kernel, level and quantity that was measured."""
    rows = [
        {
            "kernel_id": f.row["kernel_id"],
            "name": f.row["name"],
            "level": level,
            "quantity": quantity,
            "value": value,
            "unit": unit,
        }
        for f in load_facts(run, _METRICS)
        for level, quantity, value, unit in _quantities(f)
    ]
    return pl.DataFrame(rows, schema={c.name: c.dtype for c in ANALYSIS.columns})


def _quantities(f: Facts) -> Iterator[tuple[str, str, float, str]]:
    for level, quantity, metric in _HIT:
        if (value := f.get(metric)) is not None:
            yield level, quantity, value, "%"
    for level, quantity, metric in _RATES:
        if (value := f.get(metric)) is not None:
            yield level, quantity, value, "bytes/s"
    for space, op in _PAIRS:
        sectors, requests = (f.get(_ACCESS.format(w, space, op)) for w in ("sectors", "requests"))
        if sectors is not None and requests:
            yield "l1", f"sectors per request, {space} {_OPS[op]}", sectors / requests, "sectors"
    for op, word in _OPS.items():
        conflicts, wavefronts = f.get(_SHARED.format(op)), f.get(_WAVEFRONTS.format(op))
        if conflicts is not None and wavefronts:
            yield "shared", f"bank conflicts, {word}", 100 * conflicts / wavefronts, "%"
        requests = f.get(_SHARED_REQUESTS.format(op))
        if wavefronts and requests:
            yield "shared", f"wavefronts per request, {word}", wavefronts / requests, "wavefronts"
    for level, quantity, metric in _EXCESS:
        total, ideal = f.get(metric), f.get(f"{metric}_ideal")
        if total and ideal is not None:
            yield level, quantity, 100 * (total - ideal) / total, "%"
    misses = {a: f.get(_MISS.format(a)) for a in _APERTURES}
    known = sum(v for v in misses.values() if v is not None)
    for aperture, missed in misses.items():
        if missed is not None and known:
            yield "l2", f"misses that go to {aperture}", 100 * missed / known, "%"
