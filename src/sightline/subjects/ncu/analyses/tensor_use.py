"""How much of each profiled kernel ran on the tensor cores, and how well."""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import number, pct, real, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run
from sightline.roofline.facts import Facts, load_facts
from sightline.roofline.placement import METRICS, PREFIXES, place_kernel

_ELAPSED = tuple(
    f"{name}.avg.pct_of_peak_sustained_elapsed"
    for name in (
        "sm__pipe_tensor_cycles_active",
        "sm__inst_executed_pipe_tensor",
        "sm__pipe_tensor_op_hmma_cycles_active",
        "sm__pipe_tensor_op_hmma_type_hmma_hgmma_qgmma_cycles_active",
        "sm__pipe_tensor_subpipe_hmma_cycles_active",
    )
)
# Guide values that users know: under 10 % not used effectively, 30 % good, 50 % dominated by
# matrix work (hardware profiling guide among the project's seed documents).
_LEVELS = ((50.0, "dominant"), (30.0, "good"), (10.0, "partial"), (0.0, "low"))

ANALYSIS = Analysis(
    "tensor_use",
    "How much do the kernels use the tensor cores?",
    (
        number("kernel_id", "the execution", required=True),
        text("name", "kernel"),
        pct("pipe_pct", "cycles in which the tensor pipe was busy, % of elapsed"),
        text("level", "none, low (under 10 %), partial (30), good (50) or dominant"),
        pct("instruction_pct", "matrix instructions, % of the kernel's instructions"),
        text("precision", "input type of the matrix operations"),
        real("flop_per_s", "matrix operations per second", "FLOP/s"),
        text("flop_source", "what counted them"),
        pct("of_peak_pct", "% of the tensor peak at the measured clock"),
        text("peak_source", "where that peak is from"),
    ),
    needs=("profiled_kernels", "kernel_metrics"),
    notes=("Sparse matrix instructions are only counted by op-path counters.",),
)


def run(run: Run) -> pl.DataFrame:
    """One row per kernel and input type; a kernel without matrix operations has one row."""
    rows: list[dict[str, object]] = []
    for f in load_facts(run, (*METRICS, *_ELAPSED), PREFIXES):
        pipe = f.get(*_ELAPSED)
        base = {
            "kernel_id": f.row["kernel_id"],
            "name": f.row["name"],
            "pipe_pct": pipe,
            "level": None if pipe is None else _level(pipe),
            "instruction_pct": _share(f),
        }
        placed = [p for p in place_kernel(f) if p.work and p.work.precision.endswith("_tensor")]
        rows += [
            {
                **base,
                "precision": p.work.precision.removesuffix("_tensor"),
                "flop_per_s": p.work.per_s,
                "flop_source": p.work.source,
                "of_peak_pct": (
                    100 * p.work.per_s / p.compute.best
                    if p.work.per_s is not None and p.compute.best
                    else None
                ),
                "peak_source": p.compute.source,
            }
            for p in placed
            if p.work
        ] or [base]
    return pl.DataFrame(rows, schema={c.name: c.dtype for c in ANALYSIS.columns})


def _level(pct: float) -> str:
    return "none" if pct <= 0 else next(name for least, name in _LEVELS if pct >= least)


def _share(f: Facts) -> float | None:
    total = sum(f.opcodes.values())
    if not total:
        return None
    matrix = sum(n for o, n in f.opcodes.items() if "MMA" in o.split(".")[0])
    return 100 * matrix / total
