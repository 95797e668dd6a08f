"""Kernels compute in double precision on a GPU that does so at a small part of its fp32 rate.

Symptom
    Kernels whose names or signatures have `double`, on a GPU for games or graphics.

Why it hurts
    GPUs for games and most workstation cards run fp64 at 1/32 or 1/64 of the rate of fp32, where
    data-center GPUs run it at half. Doubles also move twice the bytes of floats.

Evidence
    Kernel names: products that libraries name after doubles (`dgemm`, `d884`), and C++, Julia or
    Numba signatures with `double` or `Float64`; the GPU's rates by its name in the table of GPUs
    (docs/roofline.md), else by its compute capability. The gain is a replay in which products take
    the ratio of the two peaks, and any other kernel half of its time, as one does that is bound by
    the memory: both are upper bounds. What a kernel computes in, its signature does not say.

Threshold
    fp64 at a sixteenth of fp32 or less (between the two kinds of GPUs, 1/2 and 1/32). What could be
    saved is over 5 % of the window (TraceLens agent, 2026-08). By signatures alone it is a note.

Fix
    float where the accuracy allows, or a double in the few sums that need it; literals as 1.0f; or
    a data-center GPU.

False positives
    Kernels that take a double as a parameter and compute in float; results that need 53 bits.

References
    CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions"; NVIDIA's white
    papers of GA102, AD102 and GB202 (two fp64 units for each multiprocessor).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.roofline.rates import compare_rates
from sightline.subjects.kernels.rules._launches import FLOOR_NS
from sightline.subjects.kernels.rules._shared import (
    add_shapes,
    find_shorter_kernels,
    list_computing,
    match_kernels,
)

RULE = Rule("double-precision", "Double precision on a GPU that is slow at it")

SLOW_RATE = 1 / 16
_PRODUCT = r"(?i)dgemm|d884|dtrsm|dsyrk|gemm\w*f64|f64\w*gemm|tensorop_d"
# A type of its own, not a part of another name such as double_buffer or cp_double.
_SIGNATURE = r"\bdouble\b|\bFloat64\b|\bfloat64\b|\bfp64\b"
_SOURCE = "CUDA C++ Programming Guide: Throughput of Native Arithmetic Instructions"


def check(run: Run) -> Iterator[Finding]:
    """At most one finding for products, and one note for other kernels."""
    if not run.rows("device_ops"):
        return
    rates = {
        (d["rank"], d["device_id"]): rate
        for d in run.table("devices").iter_rows(named=True)
        if (rate := compare_rates(d).get("fp64", 1.0)) <= SLOW_RATE
    }
    if not rates or not match_kernels(run, f"{_PRODUCT}|{_SIGNATURE}").any():
        return
    schema = {"rank": pl.Int64, "device_id": pl.Int64, "rate": pl.Float64}
    slow = pl.DataFrame([(*k, v) for k, v in rates.items()], schema=schema, orient="row")
    kernels = list_computing(run).join(slow, on=["rank", "device_id"], maintain_order="left")
    is_product = pl.col("name").str.contains(_PRODUCT)
    floor = FLOOR_NS / pl.col("length").clip(1)
    products = kernels.filter(is_product).with_columns(factor=pl.max_horizontal("rate", floor))
    others = kernels.filter(~is_product, pl.col("name").str.contains(_SIGNATURE)).with_columns(
        factor=pl.max_horizontal(0.5, floor)
    )
    # Products of recorded shapes are judged by them (operator-patterns).
    unknown = add_shapes(run, products).filter(pl.col("shapes").is_null())
    for part, is_note in ((unknown.select(products.columns), False), (others, True)):
        short = part.filter(pl.col("factor") < 1)
        if short.height and (found := _find(run, short, is_note=is_note)):
            yield found


def _find(run: Run, kernels: pl.DataFrame, *, is_note: bool) -> Finding | None:
    times = round(1 / float(kernels.item(0, "rate")))
    found = find_shorter_kernels(
        run,
        RULE,
        kernels.with_columns(pl.col("factor").clip(0.0, 1.0)),
        f"Doubles take {{share}} of the window more than floats would: this GPU computes them at "
        f"1/{times} of its rate for floats.",
        cause="the signature has doubles; it does not show the type that the kernel computes in"
        if is_note
        else "a library's product of doubles",
        fix=choose_fix(
            run,
            "float where the accuracy allows (literals as 1.0f, sums that need it in double), or a "
            "data-center GPU, which computes doubles at half of its rate for floats",
            pytorch="float32 where the accuracy allows: .float(), and NumPy arrays made with "
            "dtype=np.float32; else a data-center GPU",
            jax="float32 where the accuracy allows (jax_enable_x64 off); else a data-center GPU",
        ),
        sources=(_SOURCE,),
        confidence="low" if is_note else "medium",
        is_bound=True,
    )
    return replace(found, severity="info") if found and is_note else found
