"""What torch.compile's kernels cost, which operators are fused in each, and which lines they are.

Kernels are known by their names, with which Inductor numbers them in each graph: where several
graphs have kernels of one name, the time is of all of them, and `graphs` says how many.
"""

from __future__ import annotations

import polars as pl

from sightline.core.model.columns import duration, number, text
from sightline.core.model.declare import Analysis
from sightline.core.model.run import Run

ANALYSIS = Analysis(
    "fused_kernels",
    "From which operators and lines are the kernels that torch.compile generated?",
    (
        text("name", "the kernel", required=True),
        number("launches", "how often it ran; 0 where no timeline was recorded", required=True),
        duration("total_ns", "all of that together"),
        text("aten_ops", "operators that are fused in it"),
        text("lines", "file and lines of the program that it comes from"),
        text("code", "the first of these lines"),
        number("graphs", "generated kernels of this name", required=True),
    ),
    needs=("fused_kernels",),
    notes=(
        "On the CPU, C++ kernels run where torch._inductor's enable_kernel_profile marks them.",
    ),
)


def run(run: Run) -> pl.DataFrame:
    """One row per name, the longest first."""
    kernels = run.table("fused_kernels")
    lines = (
        run.table("fused_nodes")
        .drop_nulls("file")
        .join(kernels.select("fused_kernel_id", "name"), on="fused_kernel_id")
        .sort("fused_kernel_id", "position")
        .unique(["name", "file", "line"], maintain_order=True)
        .group_by("name", "file", maintain_order=True)
        .agg(pl.col("line").cast(pl.String).str.join(","), pl.col("code").first())
        .group_by("name", maintain_order=True)
        .agg(
            lines=pl.concat_str("file", "line", separator=":").str.join(", "),
            code=pl.col("code").first(),
        )
    )
    return (
        kernels.group_by("name", maintain_order=True)
        .agg(
            aten_ops=pl.col("aten_ops").drop_nulls().unique(maintain_order=True).str.join("; "),
            graphs=pl.len().cast(pl.Int64),
        )
        .with_columns(pl.col("aten_ops").replace("", None))
        .join(lines, on="name", how="left")
        .join(_list_times(run), on="name", how="left")
        .with_columns(pl.col("launches", "total_ns").fill_null(0))
        .sort("total_ns", "name", descending=[True, False])
        .select(column.name for column in ANALYSIS.columns)
    )


def _list_times(run: Run) -> pl.DataFrame:
    """Launches and time of what ran under each name, on devices and as ranges of the CPU."""
    cpu = run.table("host_ops").filter(pl.col("name").str.contains("cpp_fused", literal=True))
    ran = pl.concat(
        [
            run.table("device_ops", ["name", "start_ns", "end_ns"]),
            # What marks C++ kernels puts the number of their graph in front.
            cpu.select(pl.col("name").str.replace(r"^graph_\d+_", ""), "start_ns", "end_ns"),
        ]
    )
    return ran.group_by("name").agg(
        launches=pl.len().cast(pl.Int64), total_ns=(pl.col("end_ns") - pl.col("start_ns")).sum()
    )
