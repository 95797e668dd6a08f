"""The segments and blocks of a snapshot, and the allocator's settings."""

from __future__ import annotations

import json
from dataclasses import dataclass

import polars as pl

from sightline._native import Pickle
from sightline.core.algebra.arrow import unpack_columns
from sightline.formats.pytorch.torch_snapshot.texts import Decoder

_SEGMENT = [
    ("device", "number"), ("address", "number"), ("total_size", "number"),
    ("allocated_size", "number"), ("active_size", "number"), ("requested_size", "number"),
    ("stream", "number"), ("segment_type", "text"), ("segment_pool_id", "text"),
    ("is_expandable", "number"), ("frames", "stack"), ("blocks", "skip"),
]  # fmt: skip
_BLOCK = [
    ("address", "number"), ("size", "number"), ("requested_size", "number"), ("state", "text"),
    ("frames", "stack"), ("user_metadata", "text"), ("history", "skip"),
]  # fmt: skip
# torch 2.0 gives a block's present and former allocations instead of frames, the present one first.
_HISTORY = [("addr", "number"), ("real_size", "number"), ("frames", "stack")]
# What the reader of a table takes of the outermost dict.
_TABLES = ("segments", "device_traces", "host_segments", "host_traces", "external_annotations")


@dataclass(frozen=True)
class Segments:
    """The tables before their texts are known: codes stand for them."""

    segments: pl.DataFrame
    blocks: pl.DataFrame

    @property
    def is_empty(self) -> bool:
        """Whether there are none."""
        return self.segments.is_empty()

    def tables(self, decoder: Decoder) -> dict[str, pl.DataFrame]:
        """The tables `memory_segments` and `memory_blocks`."""
        blocks = decoder.decode_columns(self.blocks, "state", "user_metadata", "other")
        return {
            "memory_segments": decoder.decode_columns(
                self.segments, "segment_type", "pool", "other"
            ),
            "memory_blocks": blocks.drop("is_allocated", "is_active"),
        }


def read_segments(pickle: Pickle) -> Segments:
    """All segments of all devices, and of pinned host memory where that was recorded."""
    found = [_read(pickle, key) for key in ("segments", "host_segments")]
    if not found[0][0].height and pickle.rows([]).rows:
        found[0] = _read(pickle, None)  # the segments alone, as torch.cuda.memory_snapshot() gives
    (device, blocks), (host, host_blocks) = found
    host = host.with_columns(
        device_id=pl.lit(None, pl.Int64), segment_id=pl.col("segment_id") + device.height
    )
    host_blocks = host_blocks.with_columns(
        device_id=pl.lit(None, pl.Int64),
        segment_id=pl.col("segment_id") + device.height,
        block_id=pl.col("block_id") + blocks.height,
    )
    return Segments(pl.concat([device, host]), pl.concat([blocks, host_blocks]))


def _read(pickle: Pickle, key: str | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    path = [] if key is None else [key]
    rows = pickle.rows(path)
    segments = unpack_columns(pickle.take(rows, _SEGMENT, 0, rows.rows)).select(
        pl.int_range(pl.len()).alias("segment_id"),
        device_id="device",
        address="address",
        bytes="total_size",
        allocated_bytes="allocated_size",
        active_bytes="active_size",
        requested_bytes="requested_size",
        stream_id="stream",
        segment_type="segment_type",
        pool="segment_pool_id",
        is_expandable=pl.col("is_expandable").cast(pl.Boolean),
        stack_id="frames",
        other="_other",
    )
    rows = pickle.rows([*path, "blocks"])
    blocks = unpack_columns(pickle.take(rows, _BLOCK, 0, rows.rows)).select(
        pl.int_range(pl.len()).alias("block_id"),
        segment_id="_parent",
        address="address",
        bytes="size",
        requested_bytes="requested_size",
        state="state",
        stack_id="frames",
        user_metadata="user_metadata",
        other="_other",
    )
    return segments, _add_state(pickle, _add_history(pickle, path, _add_place(segments, blocks)))


def _add_place(segments: pl.DataFrame, blocks: pl.DataFrame) -> pl.DataFrame:
    """Device and address of blocks: blocks lie one after the other in their segment."""
    place = segments.select("segment_id", "device_id", start="address")
    before = pl.col("bytes").cum_sum().over("segment_id") - pl.col("bytes")
    return (
        blocks.join(place, on="segment_id", how="left", maintain_order="left")
        .with_columns(address=pl.coalesce("address", pl.col("start") + before))
        .drop("start")
    )


def _add_history(pickle: Pickle, path: list[str], blocks: pl.DataFrame) -> pl.DataFrame:
    """Stacks and requested sizes from the first entry of a block's history, where it has one."""
    rows = pickle.rows([*path, "blocks", "history"])
    if not rows.rows:
        return blocks
    first = (
        unpack_columns(pickle.take(rows, _HISTORY, 0, rows.rows))
        .unique("_parent", keep="first")
        .select(block_id="_parent", real="real_size", made="frames")
    )
    return (
        blocks.join(first, on="block_id", how="left", maintain_order="left")
        .with_columns(
            stack_id=pl.coalesce("stack_id", "made"),
            requested_bytes=pl.coalesce("requested_bytes", "real"),
        )
        .drop("real", "made")
    )


def _add_state(pickle: Pickle, blocks: pl.DataFrame) -> pl.DataFrame:
    """Whether a block is allocated, and whether it is active; a free one belongs to no stack."""
    texts = unpack_columns(pickle.texts()).get_column("text")
    active = [code for code, text in enumerate(texts, 1) if text.startswith(b"active_")]
    allocated = [code for code, text in enumerate(texts, 1) if text == b"active_allocated"]
    return blocks.with_columns(
        is_allocated=pl.col("state").is_in(allocated), is_active=pl.col("state").is_in(active)
    ).with_columns(stack_id=pl.when("is_active").then("stack_id"))


def find_final_sums(segments: Segments) -> pl.DataFrame:
    """What each device held when the snapshot was made, in the sizes that its events have.

    Events say what the program asked for, so rounding is left out: device_id, allocated, active,
    reserved in bytes.
    """
    asked = pl.coalesce("requested_bytes", "bytes")
    blocks = segments.blocks.group_by("device_id").agg(
        allocated=asked.filter(pl.col("is_allocated")).sum(),
        active=asked.filter(pl.col("is_active")).sum(),
    )
    return (
        segments.segments.group_by("device_id")
        .agg(reserved=pl.col("bytes").sum())
        .join(blocks, on="device_id", how="left", nulls_equal=True)
        .select(
            "device_id", pl.col("allocated").fill_null(0), pl.col("active").fill_null(0), "reserved"
        )
    )


def _read_object(text: str | None) -> dict[str, object]:
    """The object that the pickle reader wrote as a text; one that holds itself may give none."""
    try:
        value = json.loads(text) if text else None
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def read_settings(pickle: Pickle) -> pl.DataFrame:
    """The allocator's settings, and what else stands beside the tables, as JSON."""
    root = pickle.rows([])
    known = [(key, "skip") for key in _TABLES]
    found: dict[str, object] = {}
    if root.rows == 1:
        settings = unpack_columns(
            pickle.take(root, [*known, ("allocator_settings", "text")], 0, 1)
        ).row(0, named=True)
        decode = Decoder(pickle).decode
        for column in ("allocator_settings", "_other"):
            text = decode(pl.Series([settings[column]], dtype=pl.Int64)).item()
            found |= _read_object(text)
    return pl.DataFrame(
        {"name": list(found), "value": [json.dumps(value) for value in found.values()]},
        schema={"name": pl.String, "value": pl.String},
    )
