"""Attention in steps of decode against what reading its keys and values takes.

A step of decode reads the keys and values of all its requests once a layer: context tokens × 2 ×
heads of keys × width × bytes of a number, over the memory's bandwidth. vLLM writes the heads and
the width as shapes of its attention operator, the context with `detailed_trace_annotation`.
"""

from __future__ import annotations

import math
import re
from functools import cache

import polars as pl

from sightline.core.algebra.lookup import match_names
from sightline.core.model.run import Run
from sightline.core.packaged_rows import read_rows
from sightline.roofline.hardware import find_gpu
from sightline.roofline.operator_roofs import ARGUMENTS
from sightline.roofline.operators.arguments import ELEMENT_BYTES, parse_arguments
from sightline.timeline.engine_steps import list_step_work
from sightline.timeline.kernel_kinds import name_kinds

# vLLM: vllm/model_executor/layers/attention/attention.py; SGLang: layers/radix_attention.py.
OPERATORS = r"^(?:vllm|sglang)::unified_attention(?:_with_output)?$"


@cache
def _list_slow() -> tuple[tuple[re.Pattern[str], str], ...]:
    rows = read_rows(__package__, "attention_backends.tsv")
    return tuple((re.compile(pattern, re.IGNORECASE), backend) for pattern, backend, _ in rows)


def name_slow_backend(kernel: str) -> str | None:
    """The backend of a kernel's name, where others outrun it in decode (attention_backends.tsv)."""
    return next((backend for pattern, backend in _list_slow() if pattern.search(kernel)), None)


def list_attention(run: Run, steps: pl.DataFrame) -> pl.DataFrame:
    """The attention kernels of each of some steps: rank, step, ns, kernels, and a kernel's name.

    One row per step that has any; `kernel` is the one that takes most, `backend` that of a slow
    one, or null.
    """
    work = list_step_work(run).filter(pl.col("kind") == "kernel")
    work = work.join(steps.select("rank", "step"), on=["rank", "step"], how="semi")
    names = pl.DataFrame({"name": work.get_column("name").cast(pl.String).unique()})
    names = names.with_columns(
        kind=name_kinds(names.get_column("name")),
        backend=names.get_column("name").map_elements(
            name_slow_backend, return_dtype=pl.String, skip_nulls=True
        ),
    )
    found = work.with_columns(pl.col("name").cast(pl.String)).join(names, on="name", how="left")
    mine = found.filter((pl.col("kind") == "attention") | pl.col("backend").is_not_null())
    length = pl.col("end_ns") - pl.col("start_ns")
    return (
        mine.with_columns(ns=length)
        .sort("ns", descending=True)
        .group_by("rank", "step", maintain_order=True)
        .agg(
            pl.col("ns").sum(),
            kernels=pl.len().cast(pl.Int64),
            kernel=pl.col("name").first(),
            backend=pl.col("backend").drop_nulls().first(),
        )
        .sort("rank", "step")
    )


def measure_reading_ns(run: Run) -> float | None:
    """ns in which a GPU of the run reads one token's keys and values of one layer; None: unknown.

    Of several layers' shapes the most frequent.
    """
    names = run.table("devices", ["name"]).get_column("name").drop_nulls().unique().to_list()
    gpu = find_gpu(names[0]) if len(names) == 1 else None
    rate = None if gpu is None else gpu.number("memory_bandwidth")
    host = run.table("host_ops", ["name", *ARGUMENTS])
    calls = host.filter(match_names(host, OPERATORS)) if host.height else host
    if not rate or calls.is_empty():
        return None
    counts = calls.group_by(ARGUMENTS).len().sort("len", descending=True)
    for row in counts.select(ARGUMENTS).rows():
        arguments = parse_arguments(*row)
        keys = None if arguments is None else arguments.tensor(1)  # [tokens, heads of keys, width]
        if keys is not None and len(keys.shape) > 1 and keys.dtype in ELEMENT_BYTES:
            return 1e9 * 2 * math.prod(keys.shape[1:]) * keys.element_bytes / rate
    return None
