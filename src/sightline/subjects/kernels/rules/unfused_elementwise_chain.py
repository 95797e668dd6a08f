"""Pointwise kernels follow each other on one stream, each reading and writing all of its data.

Symptom
    Two or more elementwise kernels in a row, with the same grid.

Why it hurts
    A pointwise kernel is limited by memory: in a chain each one writes what the next one reads
    again. Fused, the data passes through once.

Evidence
    Runs of kernels with pointwise names (elementwise_kernel, triton_poi_) and equal grid and block
    that follow each other directly on a stream. Of each run the longest stays (one pass over the
    data) and, where shapes were recorded, all traffic but what one kernel writes and the next one
    reads. The gain is a replay without the rest, and without what the host does to launch the
    kernels that are gone: an upper bound. Where the same one to four kernels come eight times and
    more, they are turns of a loop, and each turn is a run by itself. Kernels that a narrower rule
    speaks for (attention-not-fused, operator-patterns) are not counted. A batch normalization with
    fixed statistics (cuDNN's bn_fw_inf, MIOpen's BatchNormFwdInfer, PyTorch's own without the
    statistics of its input) is one multiplication and addition a channel, so it is a link, too;
    right after a convolution or product, and where nothing is trained, nothing of it stays: the
    weights hold it. That of a training step passes over its input for the statistics first, and is
    none.

Threshold
    What the others take is over 5 % of the window (TraceLens agent, 2026-08: its threshold for
    copies, which pointwise kernels are in effect).

Fix
    torch.compile (Inductor fuses pointwise operations), a fused library operation (bias + GELU,
    fused optimizer: fused=True, foreach=True), or a Triton kernel. In evaluation, batch
    normalization folded into the convolution (fuse_conv_bn_eval, or freezing). Where the passes are
    over fp32 and the products in TF32 already, half precision halves their bytes.

False positives
    Kernels of equal size on different data cannot be fused into one pass: foreach variants help
    against their number only.

References
    PyTorch Performance Tuning Guide, "Fuse operations"; PyTorch, "Building a Convolution/Batch Norm
    fuser with torch.compile"; Ioffe and Szegedy (arXiv 1502.03167), algorithm 2, on inference.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.lookup import number_groups
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_several
from sightline.diagnosis.advice import choose_fix
from sightline.subjects.kernels.keeping import add_factors
from sightline.subjects.kernels.patterns.match import list_claimed
from sightline.subjects.kernels.rules._half import advise_half
from sightline.subjects.kernels.rules._norms import FIXED_NORM, list_fixed_norms
from sightline.subjects.kernels.rules._operators import add_owners, add_results, select_calls
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
# Kernels that come so many times in the same order are a loop, whose turns depend on each other or
# are of other data, for all that is recorded (ours: a few alike in a row are found in
# formulas, too).
_TURNS, _LONGEST_TURN = 8, 4
_LANE = ["rank", "device_id", "stream_id"]


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    if not run.rows("device_ops") or not has_kernel(run, f"{POINTWISE}|{FIXED_NORM}"):
        return
    kernels = list_kernels(run).with_columns(pointwise=match_kernels(run, POINTWISE))
    kernels = kernels.join(list_fixed_norms(run), on="device_op_id", how="left")
    claimed = kernels.get_column("device_op_id").is_in(list_claimed(run).implode())
    kernels = kernels.with_columns(
        pl.col("pointwise") & ~claimed, norm=pl.col("folds").is_not_null() & ~claimed
    ).with_columns(folds=pl.col("norm") & pl.col("folds").fill_null(value=False))
    if run.rows("host_ops"):  # a loop over parameters is a problem of its own
        kernels = kernels.join(list_optimizer_loops(run), on="device_op_id", how="anti")
    chains = _list_chains(kernels)
    shorter = add_factors(_keep_moved(run, chains), "chain").filter(pl.col("factor") < 1)
    has_norms = chains.get_column("norm").any()
    found = find_shorter_kernels(
        run,
        RULE,
        shorter,
        "{share} of the window is elementwise kernels "
        + ("and batch normalization " if has_norms else "")
        + "that one fused kernel could replace.",
        cause="each elementwise operation is a kernel that reads and writes memory",
        fix=_advise(run, has_norms=has_norms) + advise_half(run),
        extra=_describe_chains(chains),
        sources=("PyTorch Performance Tuning Guide: Fuse operations",),
        is_bound=True,
        with_host=True,
    )
    if found:
        yield found


def _advise(run: Run, *, has_norms: bool) -> str:
    """How to fuse, in the words of the run's world."""
    if has_norms:
        return choose_fix(
            run,
            "fold the batch normalization into the weights before it, and merge what is behind it "
            "into one pass over the data",
            pytorch="fold the batch normalization into the convolutions "
            "(torch.nn.utils.fusion.fuse_conv_bn_eval, or torch.compile with "
            "torch._inductor.config.freezing), and let torch.compile fuse what comes after it",
        )
    return choose_fix(
        run,
        "merge these operations into one that passes over the data once",
        training="torch.compile the module, or use the fused operation (fused=True for optimizers)",
        pytorch="torch.compile the module, or use the fused operation",
        jax="put them under one jax.jit, so that XLA fuses them",
        native="merge these kernels into one that passes over the data once",
    )


def _list_chains(kernels: pl.DataFrame) -> pl.DataFrame:
    """The kernels of chains of two and more, with `chain`, a number; and norms that fold, alone.

    A new link begins where the stream, the kind or the shape of the kernel changes, and where a
    loop begins its next turn: that its turns could be one pass, nothing shows. A normalization has
    a grid of its own for the same data: it is of the chain behind it, else of the one before it.
    """
    shapes, _ = number_groups(kernels, _SHAPE)
    kernels = kernels.with_columns(
        link=pl.col("pointwise") | pl.col("norm"), shape=shapes.cast(pl.Int64)
    )
    if kernels.get_column("norm").any():
        shape = pl.when(~pl.col("norm")).then("shape")
        row = pl.struct(*_LANE, "link").rle_id()
        kernels = kernels.with_columns(shape=shape.backward_fill().over(row)).with_columns(
            pl.col("shape").forward_fill().over(row)
        )
    kinds, _ = number_groups(kernels, [*_LANE, "link", "shape"])
    chains = kernels.with_columns(chain=kinds.rle_id())
    several = pl.len().over("chain") > 1
    chains = chains.filter("link", several | pl.col("folds")).with_columns(
        place=pl.int_range(pl.len()).over("chain"), links=pl.len().over("chain")
    )
    turn = pl.lit(0)
    for period in range(_LONGEST_TURN, 0, -1):
        again = pl.col("name") == pl.col("name").shift(period).over("chain")
        repeats = again.fill_null(value=True).all().over("chain")
        is_loop = repeats & (pl.col("links") >= _TURNS * period)
        turn = pl.when(is_loop).then(pl.col("place") // period).otherwise(turn)
    return chains.with_columns(chain=pl.struct("chain", turn=turn).rle_id()).filter(
        several | pl.col("folds")
    )


def _keep_moved(run: Run, chains: pl.DataFrame) -> pl.DataFrame:
    """Chains with `kept_ns`: the longest pass, and no less than what still has to move takes.

    Where the operators' shapes are known, fused they save what one link writes and the next one
    reads, and move all else. Of a normalization that folds nothing stays.
    """
    calls = add_results(select_calls(run, chains))
    links = add_owners(run, chains).join(
        calls, left_on="owner", right_on="host_op_id", how="left", maintain_order="left"
    )
    stays = ~pl.col("folds")
    is_last = pl.int_range(pl.len()).over("chain") == pl.len().over("chain") - 1
    saved = 2 * pl.col("result_bytes").filter(stays & ~is_last).sum().over("chain")
    moved = pl.col("moved_bytes").filter(stays).sum().over("chain")
    known = pl.col("moved_bytes").is_not_null().all().over("chain") & (moved > 0)
    left = pl.when(known).then(1 - saved / moved).otherwise(0.0).clip(0.0, 1.0)
    length = pl.col("length").filter(stays)
    whole, longest = (getattr(length, of)().over("chain").fill_null(0) for of in ("sum", "max"))
    return links.with_columns(kept_ns=pl.max_horizontal(left * whole, longest)).select(
        *chains.columns, "kept_ns"
    )


def _describe_chains(chains: pl.DataFrame) -> list[str]:
    """'16 chains of 2.0 kernels on average', and how many normalizations fold into weights."""
    several = chains.filter(pl.len().over("chain") > 1)
    number, folded = several.get_column("chain").n_unique(), chains.filter("folds").height
    lines = [f"{format_several(number, 'chain')} of {_mean(several):.1f} kernels on average"]
    if folded:
        lines.append(
            f"{format_several(folded, 'batch normalization')} with fixed statistics right after a "
            "convolution or product, whose weights can hold them"
        )
    return lines if number else lines[1:]


def _mean(chains: pl.DataFrame) -> float:
    return chains.height / max(chains.get_column("chain").n_unique(), 1)
