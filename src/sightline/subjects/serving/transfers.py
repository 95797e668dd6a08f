"""Where an engine moves keys and values between servers, or to and from the host."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run

# vLLM: vllm/distributed/kv_transfer/kv_connector/v1/base.py, and the ranges around them in
# vllm/v1/worker/kv_connector_model_runner_mixin.py; LMCache: lmcache/v1/cache_engine.py (retrieve,
# store, NVTX); SGLang: srt/disaggregation/{prefill,decode}.py; NIXL's NVTX.
_HOOKS = r"\b(?:start_load_kv|wait_for_layer_load|save_kv_layer|wait_for_save)\b"
TRANSFERS = (
    _HOOKS + r"|\bLMCacheEngine\.(?:retrieve|store)\b|^nixl(?:_|: ?)(?:transfer|read|write|wait)"
    r"|\b(?:send_kv_chunk|pop_transferred|process_disagg_prefill_inflight_queue)\b"
)
IN = r"load|retrieve|nixl(?:_|: ?)read|pop_transferred"
_WORK = ["op", "runtime", "driver"]


def list_transfers(run: Run) -> pl.DataFrame:
    """Outermost ranges that move keys and values: rank, pid, tid, name, start_ns, end_ns, is_in.

    An engine calls its connector in each step and layer, whether anything is to be moved or not.
    Where any of a rank's calls hold operators or calls of the device, the others moved nothing, and
    are left out; a connector that shows neither may have moved something in each.
    """
    host = run.table("host_ops", ["host_op_id", "subtree_end_id", "layer", "rank", "pid", "tid",
                                  "name", "start_ns", "end_ns"])  # fmt: skip
    found = host.filter(match_names(host, TRANSFERS)) if host.height else host
    works = host.filter(pl.col("layer").is_in(_WORK)).get_column("host_op_id").sort()
    first = works.search_sorted(found.get_column("host_op_id"), side="right")
    last = works.search_sorted(found.get_column("subtree_end_id"), side="left")
    name = pl.col("name").cast(pl.String)
    hooks = found.with_columns(name, is_hook=name.str.contains(_HOOKS), works=last > first)
    are_told = (pl.col("is_hook") & pl.col("works")).any().over("rank")
    moving = hooks.filter(~pl.col("is_hook") | pl.col("works") | ~are_told)
    ordered = moving.sort("rank", "start_ns", -pl.col("end_ns")).with_columns(
        before=pl.col("end_ns").cum_max().shift(1).over("rank", "pid", "tid")
    )
    outer = ordered.filter((pl.col("start_ns") >= pl.col("before")).fill_null(value=True))
    return outer.select("rank", "pid", "tid", "name", "start_ns", "end_ns").with_columns(
        is_in=pl.col("name").str.contains(IN)
    )
