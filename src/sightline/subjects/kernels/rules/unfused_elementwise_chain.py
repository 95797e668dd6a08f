"""Pointwise kernels follow each other on one stream, each reading and writing all of its data.

Symptom
    Two or more elementwise kernels in a row, with the same grid.

Why it hurts
    A pointwise kernel is limited by memory: in a chain each one writes what the next one reads
    again. Fused, the data passes through once.

Evidence
    Runs of kernels with pointwise names (elementwise_kernel, triton_poi_) and equal grid and block
    that follow each other directly on a stream. Of each run the longest stays (one pass over the
    data); the gain is a replay without the others, and without what the host does to launch them:
    an upper bound, since a fused kernel may read more inputs than the longest of them.

Threshold
    What the others take is over 5 % of the window (TraceLens agent, 2026-08: its threshold for
    copies, which pointwise kernels are in effect).

Fix
    torch.compile (Inductor fuses pointwise operations), a fused library operation (bias + GELU,
    fused optimizer: fused=True, foreach=True), or a Triton kernel.

False positives
    Kernels of equal size on different data cannot be fused into one pass: foreach variants help
    against their number only.

References
    PyTorch Performance Tuning Guide, "Fuse operations".
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.kernels.rules._optimizer import list_optimizer_loops
from sightline.subjects.kernels.rules._shared import (
    POINTWISE,
    find_shorter_kernels,
    has_kernel,
    list_kernels,
    match_kernels,
)

RULE = Rule("unfused-elementwise-chain", "Unfused elementwise kernels")
_SHAPE = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
_LANE = ["rank", "device_id", "stream_id"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not has_kernel(run, POINTWISE):
        return
    kernels = list_kernels(run).with_columns(pointwise=match_kernels(run, POINTWISE))
    if run.rows("host_ops"):  # a loop over parameters is a problem of its own
        kernels = kernels.join(list_optimizer_loops(run), on="device_op_id", how="anti")
    chains = (
        # A new link begins where the stream, the kind or the shape of the kernel changes.
        kernels.with_columns(chain=pl.struct(*_LANE, "pointwise", *_SHAPE).rle_id())
        .filter("pointwise", pl.len().over("chain") > 1)
        .with_columns(
            kept=pl.int_range(pl.len()).over("chain") == pl.col("length").arg_max().over("chain")
        )
    )
    number = chains.get_column("chain").n_unique()
    found = find_shorter_kernels(
        run,
        RULE,
        chains.filter(~pl.col("kept")).with_columns(factor=pl.lit(0.0)),
        "{share} of the window is elementwise kernels that one fused kernel could replace.",
        cause="each elementwise operation is a kernel that reads and writes memory",
        fix=choose_fix(
            run,
            "torch.compile the module, or use the fused operation (fused=True for optimizers)",
            jax="put them under one jax.jit, so that XLA fuses them",
            native="merge these kernels into one that passes over the data once",
        ),
        extra=[f"{format_several(number, 'chain')} of {_mean(chains):.1f} kernels on average"],
        sources=("PyTorch Performance Tuning Guide: Fuse operations",),
        is_bound=True,
        with_host=True,
    )
    if found:
        yield found


def _mean(chains: pl.DataFrame) -> float:
    return chains.height / max(chains.get_column("chain").n_unique(), 1)
