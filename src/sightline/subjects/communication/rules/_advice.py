"""What to do about communication, by what its groups are for."""

from __future__ import annotations

import polars as pl

from sightline.core.model.run import Run
from sightline.diagnosis.advice import choose_fix
from sightline.timeline.collectives import name_kind
from sightline.timeline.communication import list_communication
from sightline.timeline.world import INFERENCE, TRAINING, read_world

_TENSOR = (
    "communicate less in tensor parallelism, which computes nothing meanwhile: fewer GPUs per "
    "model, a one-shot or symmetric-memory all-reduce for small messages, or matrix products in "
    "parts, each communicated while the next is computed"
)
_EXPERT = (
    "overlap the exchange between experts with compute: two halves of the batch alternating, or "
    "the shared expert; and balance how many tokens each expert gets"
)
_CONTEXT = "send the next part of keys and values while attention works on the one before it"


def find_parallelism(run: Run) -> str | None:
    """What the group that takes most time is for: data, tensor, expert, context, ...; or None.

    A group of all ranks serves the model where the program only runs forward, and the data where it
    learns. Where groups were not recorded, an all-to-all is expert parallelism, and other
    collectives are judged so.
    """
    purpose = read_world(run).purpose
    of_all = {INFERENCE: "tensor", TRAINING: "data"}.get(purpose)
    if run.rows("collectives"):
        known = run.ask("parallel_groups").get_column("parallelism").drop_nulls()
        if known.len():
            return of_all if known.item(0) in ("world", "data") else str(known.item(0))
    length = pl.col("end_ns") - pl.col("start_ns")
    kinds = list_communication(run).select(
        ns=length, kind=pl.coalesce(name_kind(pl.col("op")), name_by_kernel(pl.col("name")))
    )
    most = kinds.group_by("kind").agg(pl.col("ns").sum()).sort("ns", "kind", descending=True)
    if most.height and most.item(0, "kind") == "all_to_all":
        return "expert"
    return of_all


def advise_overlap(run: Run) -> str:
    """What to do about transfers that nothing hides."""
    match find_parallelism(run):
        case "tensor":
            return _TENSOR
        case "expert":
            return _EXPERT
        case "context":
            return _CONTEXT
        case "data":
            return choose_fix(
                run,
                _NEUTRAL,
                training="start communication earlier and in smaller buckets (DDP bucket_cap_mb, "
                "FSDP backward_prefetch), or send less",
            )
    return choose_fix(run, _NEUTRAL, jax=_JAX)


_NEUTRAL = "start communication earlier, during compute that does not need it, or send less"
_JAX = (
    "let XLA overlap it with compute: XLA_FLAGS=--xla_gpu_enable_latency_hiding_scheduler=true; "
    "or send less"
)


def advise_short(run: Run) -> str:
    """What to do about many short collectives."""
    if find_parallelism(run) in ("tensor", "expert"):
        return advise_overlap(run)
    return choose_fix(
        run,
        "send more at once: several tensors in one call",
        training="send more at once: larger buckets (DDP bucket_cap_mb), or several tensors in one "
        "call (ncclGroupStart and ncclGroupEnd)",
        native="send more at once: several buffers in one call (ncclGroupStart and ncclGroupEnd)",
    )


def advise_stream(run: Run) -> str:
    """How to take communication off the stream that computes."""
    return choose_fix(
        run,
        "give communication a stream of its own",
        training="give communication a stream of its own (async_op=True in PyTorch)",
    )


# How NCCL, RCCL and oneCCL name a kernel after what it does (ncclDevKernel_AllGather_RING_LL).
_KERNELS = (
    ("all_gather", r"(?i)all_?gather"),
    ("reduce_scatter", r"(?i)reduce_?scatter"),
    ("all_reduce", r"(?i)all_?reduce|cross_device_reduce"),
    ("all_to_all", r"(?i)all_?to_?all"),
    ("broadcast", r"(?i)broadcast"),
    ("send_recv", r"(?i)send_?recv"),
)


def name_by_kernel(name: pl.Expr) -> pl.Expr:
    """What a collective does, by its kernel's name; null where that does not say."""
    text = name.cast(pl.String)
    return pl.coalesce(pl.when(text.str.contains(p)).then(pl.lit(k)) for k, p in _KERNELS)
