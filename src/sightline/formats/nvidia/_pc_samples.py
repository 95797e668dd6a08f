"""PC samples as rows of `profiled_kernels` and `pc_samples`, whoever wrote them down.

Continuous samples belong to a function; serialized ones to one launch, which CUPTI names by its
correlation id. Each is one row of `profiled_kernels`.
"""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from sightline.core.cxx_names import demangle
from sightline.core.model.stall_classes import classify_stall
from sightline.formats._cubin import INSTRUCTION_BYTES, Cubin, read_cubin, read_opcode
from sightline.formats.nvidia._sass import read_operation

# What is asked for: samples of one place for one reason, by the vendor's name of it.
SAMPLES = {
    "context": pl.Int64, "device": pl.Int64, "period_log2": pl.Int64, "cubin": pl.Int64,
    "function": pl.String, "offset": pl.Int64, "correlation": pl.Int64, "name": pl.String,
    "samples": pl.Int64,
}  # fmt: skip
_PREFIX = "smsp__pcsamp_warps_issue_stalled_"
# The samples of a reason that were taken while the scheduler issued nothing are one of their own.
_IDLE = "_not_issued"
# Samples and counters spell this one differently.
_SPELLED = {"no_instructions": "no_instruction"}
_ISSUED = "selected"
_LAUNCH = (
    "context_id", "stream_id", "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z",
    "cluster_x", "cluster_y", "cluster_z", "registers_per_thread", "static_shared_bytes",
    "dynamic_shared_bytes",
)  # fmt: skip


_PLACE = ("context", "device", "period_log2", "cubin", "function", "offset", "correlation")


def build_samples(
    samples: pl.DataFrame, cubins: Mapping[int, bytes], ops: pl.DataFrame, host: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, int]]:
    """Rows of `profiled_kernels` and of `pc_samples`; and what could not be found.

    `samples` has the columns of SAMPLES, `cubins` GPU binaries by their CRC; `ops` and `host` are
    the rows of `device_ops` and `host_ops` of the same process, or empty. What is counted:
    `unnamed_reasons`, samples for a reason without a name; `without_code`, samples whose cubin is
    not there; `unmatched`, launches of serialized samples that no kernel's record has.
    """
    unnamed = int(samples.filter(pl.col("name").is_null()).get_column("samples").sum())
    rows = _combine_reasons(samples.filter(pl.col("name").is_not_null()))
    if rows.is_empty():
        return pl.DataFrame(), pl.DataFrame(), {"unnamed_reasons": unnamed}
    keys = ["cubin", "function", "device", "correlation"]
    kernels = (
        rows.group_by(keys, maintain_order=True)
        .agg(pl.col("samples").sum().alias("_samples"))
        .sort("_samples", "function", descending=[True, False], maintain_order=True)
        .drop("_samples")
        .with_columns(kernel_id=pl.int_range(pl.len(), dtype=pl.Int64))
    )
    placed = _place(rows.join(kernels, on=keys, nulls_equal=True), cubins)
    described, unmatched = _describe(kernels, ops, host)
    lost = int(placed.filter(~pl.col("has_code")).get_column("samples").sum())
    counts = {"unnamed_reasons": unnamed, "without_code": lost, "unmatched": unmatched}
    return described, placed.drop("has_code"), counts


def _combine_reasons(samples: pl.DataFrame) -> pl.DataFrame:
    """Samples by place and reason, with those that were taken while nothing issued beside them."""
    plain = pl.col("name").str.strip_prefix(_PREFIX)
    return (
        samples.with_columns(
            reason=plain.str.strip_suffix(_IDLE).replace(_SPELLED),
            is_idle=plain.str.ends_with(_IDLE),
        )
        .group_by(*_PLACE, "reason", maintain_order=True)
        .agg(
            samples=pl.col("samples").filter(~pl.col("is_idle")).sum(),
            latency_samples=pl.col("samples").filter("is_idle").sum(),
            has_idle=pl.col("is_idle").any(),
        )
        # Null where the library does not tell them apart.
        .with_columns(
            latency_samples=pl.when(pl.col("has_idle").any().over("context")).then(
                pl.min_horizontal("samples", "latency_samples")
            )
        )
        .drop("has_idle")
    )


def _place(rows: pl.DataFrame, cubins: Mapping[int, bytes]) -> pl.DataFrame:
    """The samples with opcode, file and line of their instruction, from the cubins' line tables."""
    asked = rows.select("cubin", "function", "offset").unique(maintain_order=True)
    # A CRC above the largest int64 is negative in the samples.
    known = {crc - (1 << 64) if crc >= 1 << 63 else crc: crc for crc in cubins}
    named = asked.get_column("cubin").unique().to_list()
    read = {crc: read_cubin(cubins[known[crc]]) for crc in named if crc in known}
    places = [
        _find_place(read.get(crc), function or "", offset)
        for crc, function, offset in asked.iter_rows()
    ]
    types = {
        "opcode": pl.String, "before": pl.String, "file": pl.String, "line": pl.Int64,
        "has_code": pl.Boolean,
    }  # fmt: skip
    table = asked.hstack(pl.DataFrame(places, schema=types, orient="row"))
    reasons = rows.get_column("reason").unique().to_list()
    classes = {reason: classify_stall(reason) for reason in reasons}
    return (
        rows.join(table, on=["cubin", "function", "offset"], how="left", nulls_equal=True)
        .filter(pl.col("samples") > 0)
        .select(
            "kernel_id",
            "offset",
            "function",
            "opcode",
            "file",
            "line",
            "reason",
            "samples",
            "latency_samples",
            "has_code",
            # Its counter has passed on when the warp is looked at (docs/roofline.md).
            issued_operation=pl.when(pl.col("reason") == _ISSUED).then("before"),
            stall_class=pl.col("reason").replace_strict(classes, return_dtype=pl.String),
            # Between 2^5 and 2^31 cycles (cupti_pcsampling.h); 0 is not known.
            period_cycles=pl.when(pl.col("period_log2").is_between(5, 31)).then(
                pl.lit(2, pl.Int64).pow(pl.col("period_log2"))
            ),
        )
        .sort("kernel_id", "offset", "reason", maintain_order=True)
    )


def _find_place(
    cubin: Cubin | None, function: str, offset: int
) -> tuple[str | None, str | None, str | None, int | None, bool]:
    """Opcode, operation of the instruction before, file, line, and whether the code is there."""
    if cubin is None or function not in cubin.code:
        return None, None, None, None, False
    word = cubin.read_instruction(function, offset)
    opcode = None if word is None else read_opcode(word[0], cubin.capability, word[1])
    word = cubin.read_instruction(function, offset - INSTRUCTION_BYTES)
    before = None if word is None else read_operation(*word, cubin.capability)
    file, line = cubin.find_line(function, offset)
    return opcode, before, file, line, True


def _describe(
    kernels: pl.DataFrame, ops: pl.DataFrame, host: pl.DataFrame
) -> tuple[pl.DataFrame, int]:
    """The kernels, with the launch that serialized samples name; and how many have none."""
    names = {n: demangle(n) for n in kernels.get_column("function").unique().drop_nulls().to_list()}
    plain = pl.col("function").replace_strict(names, default=None, return_dtype=pl.String)
    described = kernels.with_columns(name=plain.fill_null("unknown kernel"))
    unmatched = 0
    if ops.height and kernels.select((pl.col("correlation") > 0).any()).item():
        launches = (
            ops.filter(pl.col("kind") == "kernel", pl.col("correlation_id").is_not_null())
            .unique("correlation_id", keep="first", maintain_order=True)
            .select("correlation_id", "launch_id", *(c for c in _LAUNCH if c in ops.columns))
        )
        calls = host.select(launch_id="host_op_id", tid="tid")
        launches = launches.join(calls, on="launch_id", how="left", maintain_order="left")
        launches = launches.with_columns(_name_ranges(host, launches.get_column("launch_id")))
        described = described.join(
            launches,
            left_on="correlation",
            right_on="correlation_id",
            how="left",
            maintain_order="left",
        )
        asked = described.filter(pl.col("correlation") > 0)
        unmatched = int(asked.get_column("launch_id").null_count())
    present = [c for c in (*_LAUNCH, "tid", "nvtx") if c in described.columns]
    return described.select(
        "kernel_id",
        "name",
        *present,
        kind=pl.lit("kernel"),
        function=pl.col("name").str.replace(r"[<(].*$", ""),
        mangled_name="function",
        device_id="device",
        api_call_id=pl.when(pl.col("correlation") > 0).then("correlation"),
        occurrence=pl.int_range(pl.len(), dtype=pl.Int64).over("name", *present),
    ).sort("kernel_id"), unmatched


def _name_ranges(host: pl.DataFrame, launches: pl.Series) -> pl.Series:
    """The annotations around each launch, outermost first, ' / ' between; null where none is.

    `host` has the rows of `host_ops` in the order of their ids, which count from 0.
    """
    found: list[pl.Series] = []
    at = launches
    while at.null_count() < at.len():
        at = host.get_column("parent_id").gather(at)
        around = host.select("name", "layer").select(pl.all().gather(at))
        is_range = pl.col("layer").is_in(["annotation", "step"])
        found.append(
            around.select(pl.when(is_range).then("name")).to_series().alias(str(len(found)))
        )
    if not found:
        return pl.repeat(None, launches.len(), dtype=pl.String, eager=True).alias("nvtx")
    joined = pl.concat_str([s.name for s in reversed(found)], separator=" / ", ignore_nulls=True)
    text = pl.DataFrame(found).select(nvtx=pl.when(joined != "").then(joined))
    return text.to_series()
