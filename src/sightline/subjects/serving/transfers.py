"""Where an engine moves keys and values between servers, or to and from the host."""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run

# vLLM: vllm/distributed/kv_transfer/kv_connector/v1/base.py, and the ranges around them in
# vllm/v1/worker/kv_connector_model_runner_mixin.py; LMCache: lmcache/v1/cache_engine.py (retrieve,
# store, NVTX); SGLang: srt/disaggregation/{prefill,decode}.py; NIXL's NVTX.
TRANSFERS = (
    r"\b(?:start_load_kv|wait_for_layer_load|save_kv_layer|wait_for_save)\b"
    r"|\bLMCacheEngine\.(?:retrieve|store)\b|^nixl(?:_|: ?)(?:transfer|read|write|wait)"
    r"|\b(?:send_kv_chunk|pop_transferred|process_disagg_prefill_inflight_queue)\b"
)
IN = r"load|retrieve|nixl(?:_|: ?)read|pop_transferred"


def list_transfers(run: Run) -> pl.DataFrame:
    """Outermost ranges that move keys and values: rank, pid, tid, name, start_ns, end_ns, is_in."""
    host = run.table("host_ops", ["rank", "pid", "tid", "name", "start_ns", "end_ns"])
    found = host.filter(match_names(host, TRANSFERS)) if host.height else host
    found = found.with_columns(pl.col("name").cast(pl.String))
    ordered = found.sort("rank", "start_ns", -pl.col("end_ns")).with_columns(
        before=pl.col("end_ns").cum_max().shift(1).over("rank", "pid", "tid")
    )
    outer = ordered.filter((pl.col("start_ns") >= pl.col("before")).fill_null(value=True))
    return outer.drop("before").with_columns(is_in=pl.col("name").str.contains(IN))
