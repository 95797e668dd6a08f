"""A simulated recording of many events, written as tables: a file of its own size in JSON would

take a minute to write and to read, and this is about the page.
"""

from __future__ import annotations

import random
from pathlib import Path

import polars as pl

from sightline.core.model.columns import conform_columns
from sightline.core.model.store import write_store
from sightline.core.registry import load

NAMES = 300  # kernels of different names, as a large model has


def write(target: Path, events: int, seed: int = 0) -> None:
    """A training loop: steps of operators, each with a launch call and a kernel, on two streams.

    Half of the kernels run on a second stream beside the first, some overlap on one stream.
    """
    rng = random.Random(seed)
    n = events // 3
    steps = max(1, n // 5000)
    # Durations and pauses are drawn per event: nothing repeats, so nothing packs too well.
    think = pl.Series([rng.randrange(2_000, 9_000) for _ in range(n)])
    at = think.cum_sum()
    length = pl.Series([int(1_500 * 1.6 ** rng.gauss(2, 1.5)) for _ in range(n)])
    name = pl.Series([min(NAMES - 1, int(rng.expovariate(1 / 40))) for _ in range(n)])
    frame = pl.DataFrame({"at": at, "length": length, "name": name}).with_row_index("i")
    start = 1_700_000_000_000_000_000
    frame = frame.with_columns(
        pl.col("i").cast(pl.Int64),
        pl.col("at") + start,
        stream=pl.when(pl.col("i") % 4 == 3).then(20).otherwise(7),
    )
    text = pl.concat_str(pl.lit("void cutlass::Kernel<gemm_"), "name", pl.lit(", float>(Params)"))
    device = frame.select(
        device_op_id="i",
        device_id=pl.lit(0),
        context_id=pl.lit(1),
        stream_id="stream",
        kind=pl.lit("kernel"),
        name=text,
        start_ns=pl.col("at") + 8_000,
        end_ns=pl.col("at") + 8_000 + pl.col("length"),
        correlation_id="i",
        launch_id=pl.col("i") * 2 + 1 + steps,
        grid_x=pl.col("name") * 4 + 1,
        grid_y=pl.lit(1),
        grid_z=pl.lit(1),
        block_x=pl.lit(256),
        block_y=pl.lit(1),
        block_z=pl.lit(1),
        registers_per_thread=pl.col("name") % 200,
    )
    op = frame.select(
        host_op_id=pl.col("i") * 2 + steps,
        pid=pl.lit(1),
        tid=pl.lit(1),
        layer=pl.lit("op"),
        name=pl.concat_str(pl.lit("aten::op_"), "name"),
        start_ns=pl.col("at") - 1_900,
        end_ns="at",
        parent_id=pl.lit(None, pl.Int64),
        depth=pl.lit(1),
        subtree_end_id=pl.col("i") * 2 + 2 + steps,
        correlation_id=pl.lit(None, pl.Int64),
        input_shapes=pl.concat_str(pl.lit("[["), "name", pl.lit(", 64]]")),
    )
    call = frame.select(
        host_op_id=pl.col("i") * 2 + 1 + steps,
        pid=pl.lit(1),
        tid=pl.lit(1),
        layer=pl.lit("runtime"),
        name=pl.lit("cudaLaunchKernel"),
        start_ns=pl.col("at") - 1_200,
        end_ns=pl.col("at") - 100,
        parent_id=pl.col("i") * 2 + steps,
        depth=pl.lit(2),
        subtree_end_id=pl.col("i") * 2 + 2 + steps,
        correlation_id="i",
        input_shapes=pl.lit(None, pl.String),
    )
    first, last = int(at[0]) + start - 2_000, int(at[-1]) + start
    width = (last - first) // steps
    marks = pl.DataFrame(
        {
            "host_op_id": range(steps),
            "pid": [1] * steps,
            "tid": [1] * steps,
            "layer": ["step"] * steps,
            "name": [f"ProfilerStep#{i}" for i in range(steps)],
            "start_ns": [first + i * width for i in range(steps)],
            "end_ns": [first + (i + 1) * width for i in range(steps)],
            "parent_id": pl.Series([None] * steps, dtype=pl.Int64),
            "depth": [0] * steps,
            "subtree_end_id": [i + 1 for i in range(steps)],
            "correlation_id": pl.Series([None] * steps, dtype=pl.Int64),
            "input_shapes": pl.Series([None] * steps, dtype=pl.String),
        }
    )
    host = pl.concat([marks, op, call], how="vertical_relaxed").sort("host_op_id")
    tables = {"device_ops": device, "host_ops": host}
    facts = {
        "path": target.name,
        "format": "kineto",
        "tool": "simulated",
        "bytes": 0,
        "importer_version": "1",
        "quality": [],
    }
    write_store(
        target,
        [(0, facts, {n: _stored(n, f) for n, f in tables.items()})],
        sightline_version="test",
    )


def _stored(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    columns = load("tables", name).TABLE.columns
    return conform_columns(
        frame, tuple(c for c in columns if c.name not in ("rank", "recording_id"))
    )
