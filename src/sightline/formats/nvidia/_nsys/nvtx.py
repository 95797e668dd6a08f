"""NVTX: ranges, marks, domains, categories, payloads, and the collectives that NCCL announces."""

from __future__ import annotations

import struct
from typing import Any

import polars as pl

from sightline.formats.nvidia._nsys import codes
from sightline.formats.nvidia._nsys.codes import decode_codes, mask_process
from sightline.formats.nvidia._nsys.database import Database

_TABLE = "NVTX_EVENTS"
_COLUMNS = (
    "start",
    "end",
    "eventType",
    "category",
    "globalTid",
    "endGlobalTid",
    "textId",
    "domainId",
    "uint64Value",
    "int64Value",
    "uint32Value",
    "int32Value",
    "jsonTextId",
)
_TORCH_STEP = "ProfilerStep#"  # torch.profiler's own name of a step, as emit_nvtx passes it on


def read(db: Database) -> tuple[pl.DataFrame, int]:
    """Ranges and marks as host ranges in the recording's time; and how many never ended.

    Ranges that never ended have no end_ns.
    """
    frame = db.ints(_TABLE, _COLUMNS)
    if frame.is_empty():
        return _empty(), 0
    # rowid ties the texts, read apart, to their rows.
    frame = frame.with_columns(rowid=_rowids(db, frame.height))
    frame = frame.join(db.texts(_TABLE, "text"), on="rowid", how="left", maintain_order="left")
    frame = frame.join(
        db.strings.rename({"id": "textId", "value": "registered"}),
        on="textId",
        how="left",
        maintain_order="left",
    ).with_columns(text=pl.coalesce("text", "registered"), _gpid=mask_process("globalTid"))
    frame = _with_names(frame)
    frame = _with_payload(frame, db)
    ranges = frame.filter(pl.col("eventType").is_in(list(codes.NVTX_KINDS)))
    is_mark = pl.col("eventType") == codes.NVTX_MARK
    text = pl.col("text").fill_null("")
    return (
        ranges.select(
            start_ns="start",
            end_ns=pl.when(is_mark).then(pl.col("start")).otherwise(pl.col("end")),
            layer=pl.when(text.str.starts_with(_TORCH_STEP))
            .then(pl.lit("step"))
            .otherwise(pl.lit("annotation")),
            name=text,
            _gtid="globalTid",
            end_tid=codes.name_thread("endGlobalTid"),
            range_kind=decode_codes("eventType", codes.NVTX_KINDS),
            domain="domain",
            category="category_name",
            payload="payload",
            rowid="rowid",
        ),
        ranges.filter(~is_mark & pl.col("end").is_null()).height,
    )


def _empty() -> pl.DataFrame:
    texts = ("layer", "name", "range_kind", "domain", "category", "payload")
    numbers = ("start_ns", "end_ns", "_gtid", "end_tid", "rowid")
    return pl.DataFrame(
        schema={**dict.fromkeys(numbers, pl.Int64), **dict.fromkeys(texts, pl.String)}
    )


def _rowids(db: Database, rows: int) -> pl.Series:
    """rowid of each row in table order, which is the order that `ints` reads in."""
    found = db.rowids(_TABLE)
    return found if found.len() == rows else pl.Series([None] * rows, dtype=pl.Int64)


def _with_names(frame: pl.DataFrame) -> pl.DataFrame:
    """Names of domains and categories, which events of their own announce per process."""
    domains = (
        frame.filter((pl.col("eventType") == codes.NVTX_DOMAIN) & pl.col("domainId").is_not_null())
        .select("_gpid", "domainId", domain="text")
        .unique(["_gpid", "domainId"], keep="last", maintain_order=True)
    )
    categories = (
        frame.filter(
            (pl.col("eventType") == codes.NVTX_CATEGORY) & pl.col("category").is_not_null()
        )
        .select("_gpid", "domainId", "category", category_name="text")
        .unique(["_gpid", "domainId", "category"], keep="last", maintain_order=True)
    )
    return (
        frame.join(domains, on=["_gpid", "domainId"], how="left", maintain_order="left")
        .join(
            categories,
            on=["_gpid", "domainId", "category"],
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        .with_columns(
            category_name=pl.coalesce("category_name", pl.col("category").cast(pl.String))
        )
    )


def _with_payload(frame: pl.DataFrame, db: Database) -> pl.DataFrame:
    """The value that a range carries, as JSON text."""
    numbers = ("uint64Value", "int64Value", "uint32Value", "int32Value")
    reals = [db.texts(_TABLE, c) for c in ("doubleValue", "floatValue")]
    json = db.texts(_TABLE, "jsonText")
    value = pl.coalesce(*(pl.col(c).cast(pl.String) for c in numbers))
    for number, part in enumerate([*reals, json]):
        if part.height:
            name = f"_payload{number}"
            frame = frame.join(
                part.rename({"text": name}), on="rowid", how="left", maintain_order="left"
            )
            value = pl.coalesce(value, name)
    if frame.get_column("jsonTextId").null_count() < frame.height:
        frame = db.named(frame, _json="jsonTextId")
        value = pl.coalesce(value, pl.col("_json").cast(pl.String))
    return frame.with_columns(payload=value)


# A binary payload: a header of 32 bytes (little-endian: four uint32, of which the third is the
# schema's id, then two uint64, sizes), then the fields as the schema lays them out. As written by
# nsys 2025 and 2026 with --include-blobs=true.
PAYLOAD_HEADER = struct.Struct("<IIIIQQ")
_OPS = {
    "ncclAllReduce": "allreduce",
    "ncclAllGather": "allgather",
    "ncclReduceScatter": "reducescatter",
    "ncclBroadcast": "broadcast",
    "ncclBcast": "broadcast",
    "ncclReduce": "reduce",
    "ncclSend": "send",
    "ncclRecv": "recv",
    "ncclAllToAll": "alltoall",
    "ncclAlltoAll": "alltoall",
    "ncclGather": "gather",
    "ncclScatter": "scatter",
}


def read_nccl_payloads(db: Database) -> pl.DataFrame:
    """What NCCL's ranges say of their operation: rowid, op, group, group_size, bytes, peer."""
    schema: dict[str, Any] = {
        "rowid": pl.Int64,
        "group": pl.String,
        "bytes": pl.Int64,
        "peer": pl.Int64,
        "group_size": pl.Int64,
    }
    if not db.has(_TABLE, "binaryData") or not db.has("NVTX_PAYLOAD_SCHEMA_ENTRIES", "schemaId"):
        return pl.DataFrame(schema=schema)
    entries = db.rows("NVTX_PAYLOAD_SCHEMA_ENTRIES", ["schemaId", "type", "name", "offset"])
    layouts: dict[int, dict[str, tuple[int, int]]] = {}
    for number, kind, name, offset in entries.unique(maintain_order=True).iter_rows():
        layouts.setdefault(number, {})[str(name)] = (offset or 0, kind)
    rows = []
    for rowid, blob in db.blobs(_TABLE, "binaryData"):
        fields = _fields(blob, layouts)
        # A hash, printed so that it is not taken for a quantity.
        group = fields.get("NCCL communicator ID")
        rows.append(
            (
                rowid,
                None if group is None else f"{group:#018x}",
                fields.get("Message size [bytes]"),
                fields.get("Peer rank"),
                fields.get("No. of ranks"),
            )
        )
    return pl.DataFrame(rows, schema=schema, orient="row")


def _fields(blob: bytes, layouts: dict[int, dict[str, tuple[int, int]]]) -> dict[str, int]:
    if len(blob) < PAYLOAD_HEADER.size:
        return {}
    layout = layouts.get(PAYLOAD_HEADER.unpack_from(blob)[2], {})
    found = {}
    for name, (offset, kind) in layout.items():
        form = codes.PAYLOAD_FORMATS.get(kind)
        at = PAYLOAD_HEADER.size + offset
        if form is not None and offset >= 0 and at + struct.calcsize(form) <= len(blob):
            (found[name],) = struct.unpack_from(form, blob, at)
    return found


def list_announced(host: pl.DataFrame, payloads: pl.DataFrame) -> pl.DataFrame:
    """The ranges that NCCL opens around an operation, with what their payload says of it.

    `host` has host_op_id, subtree_end_id, name and rowid.
    """
    groups = (
        payloads.drop_nulls(["group", "group_size"]).select("group", "group_size").unique("group")
    )
    return (
        host.filter(pl.col("name").is_in(list(_OPS)))
        .select("host_op_id", "subtree_end_id", pl.col("name").cast(pl.String), "rowid")
        .join(payloads.drop("group_size"), on="rowid", how="left")
        .join(groups, on="group", how="left")
        .sort("host_op_id")
    )


def list_collectives(announced: pl.DataFrame, device: pl.DataFrame) -> pl.DataFrame:
    """Meaning of NCCL kernels: from the innermost NCCL range around the call that launched them.

    `device` has device_op_id, launch_id, name.
    """
    names = device.get_column("name").unique()
    theirs = names.filter(names.cast(pl.String).str.contains("(?i)nccl"))
    kernels = (
        device.filter((pl.col("kind") == "kernel") & pl.col("name").is_in(theirs.implode()))
        .select("device_op_id", "launch_id")
        .drop_nulls()
        .sort("launch_id")
    )
    found = (
        kernels.join_asof(
            announced, left_on="launch_id", right_on="host_op_id", check_sortedness=False
        )
        .filter(pl.col("launch_id") < pl.col("subtree_end_id"))
        .sort("device_op_id")
    )
    # NCCL's payload states the bytes of this rank's send buffer, or of the receive buffer of recv.
    receives = pl.col("name") == "ncclRecv"
    return found.select(
        "device_op_id",
        "host_op_id",
        "group",
        "group_size",
        "peer",
        op=decode_codes("name", {}) if found.is_empty() else pl.col("name").replace_strict(_OPS),
        bytes_in=pl.when(~receives).then("bytes"),
        bytes_out=pl.when(receives).then("bytes"),
    )
