"""Where a kernel does more than it needs, by instruction, out of ncu's source counters."""

from __future__ import annotations

import polars as pl

from sightline.model.run import Run


def worst_places(run: Run, done: str, needed: str) -> dict[int, str]:
    """Of each kernel the instruction that causes most of what is `done` beyond what is `needed`.

    Both are metrics with a value for each instruction. Of several with as much, the first in the
    code.
    """
    key = ["kernel_id", "instance_id"]
    values = (
        run.scan("kernel_metrics")
        .filter(pl.col("instance_id").is_not_null())
        .select(*key, "metric", "value")
    )
    code = run.scan("instructions").drop("rank", "recording_id")
    worst = (
        values.filter(pl.col("metric") == done)
        .join(values.filter(pl.col("metric") == needed), on=key)
        .with_columns(excess=pl.col("value") - pl.col("value_right"))
        .join(code, left_on=key, right_on=["kernel_id", "address"])
        .filter(pl.col("excess") > 0)
        .sort("excess", "instance_id", descending=[True, False])
        .group_by("kernel_id", maintain_order=True)
        .first()
        .collect()
    )
    return {
        r["kernel_id"]: f"{r['file']}:{r['line']}"
        if r["line"] is not None
        else f"{r['opcode'] or 'the instruction'} at byte {r['offset']}"
        for r in worst.iter_rows(named=True)
    }
