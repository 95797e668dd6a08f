"""PyTorch's memory snapshots: the pickles of torch.cuda.memory._dump_snapshot.

A pickle is a program, and this one comes from a stranger. It is read by a machine that knows the
opcodes of plain data only: whatever names something to import or to call is refused, and nothing is
ever imported, called or built (native/pickle). What the keys mean: docstring of
torch.cuda.memory._snapshot, and torch/csrc/cuda/memory_snapshot.cpp. Keys are only ever added, so
unknown ones are kept, in the column `other`.
"""

from __future__ import annotations

from pathlib import Path

import polars as pl

from sightline._native import Pickle
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.errors import DamagedError, InputError
from sightline.formats.pytorch.torch_snapshot.events import read_events
from sightline.formats.pytorch.torch_snapshot.segments import (
    find_final_sums,
    read_segments,
    read_settings,
)
from sightline.formats.pytorch.torch_snapshot.texts import Decoder

IMPORTER = Importer(
    name="torch_snapshot",
    label="PyTorch memory snapshot",
    # The first key of the outermost dict; torch.cuda.memory_snapshot() gives the segments alone.
    strong=(
        rb"^\x80[\x02-\x05].{0,40}?(?:segments|device_traces|allocator_settings"
        rb"|external_annotations|host_segments|host_traces)",
        rb"^\x80[\x02-\x05].{0,400}?(?:total_size|segment_type)",
    ),
    weak=(),
    looks_like="a pickle with 'segments' and 'device_traces'",
    suffixes=(".pickle", ".pkl", ".pickle.gz", ".pkl.gz"),
    version=7,
    source="https://docs.pytorch.org/docs/stable/torch_cuda_memory.html",
)

_BUDGET = 16 << 20  # bytes between two reports of progress


def read(source: Source, options: ImportOptions) -> Imported:
    """Read a snapshot as far as it is intact.

    Raises DamagedError where it is not plain data, or holds neither segments nor events.
    """
    try:
        pickle = Pickle(source.path)
    except OSError as error:
        raise InputError(
            f"cannot read {source.given}", why=(error.strerror or str(error)).lower()
        ) from error
    told = 0
    more = True
    while more:
        more = pickle.read(_BUDGET)
        if source.on_read is not None:
            source.on_read(pickle.stored - told)
            told = pickle.stored
    if pickle.refused:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"{pickle.refused}, near byte {pickle.position}; nothing of it was run",
            hint="torch.cuda.memory._dump_snapshot(PATH) writes plain data only.",
        )
    segments = read_segments(pickle)
    events = read_events(pickle, find_final_sums(segments))
    settings = read_settings(pickle)
    if not events.rows and segments.is_empty:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"{pickle.damage or 'it holds neither segments nor events'}, "
            f"after {pickle.position} bytes",
        )
    # Only now are all texts known.
    decoder = Decoder(pickle)
    tables = {**segments.tables(decoder), **decoder.make_stacks(), "memory_settings": settings}
    imported = Imported(tables, Recording(tool="PyTorch memory snapshot", clock_offset_ns=0))
    events.add_to(imported, decoder)
    imported.recording = Recording(
        tool="PyTorch memory snapshot",
        clock_offset_ns=0,
        start_ns=events.start_ns,
        end_ns=events.end_ns,
        has_stacks=pickle.stacks().rows > 0,
    )
    imported.quality = [*_check_pickle(pickle), *events.quality]
    if not pickle.damage and not has_whole_frames(source.path):
        text = "the pickle's frames end elsewhere than they say: bytes were added or are missing"
        imported.quality.append(Quality("damaged_frames", "error", text))
    imported.quality += _note_missing_blocks(imported.tables)
    return imported


# What may stand between frames: long texts and bytes, in pickletools' words BINUNICODE(8),
# BINBYTES(8) and BYTEARRAY8.
_UNFRAMED = b"X\x8dB\x8e\x96"
_FRAME, _SHORTEST = b"\x95", 4  # bytes: less than that stands behind the last frame without one


def has_whole_frames(path: Path) -> bool:
    """Whether the frames of a pickle, which say how long they are, end where the next one begins.

    True also where it has none, and of what is packed or behind a long text.
    """
    size, at = path.stat().st_size, 2
    with path.open("rb") as stream:
        head = stream.read(3)
        if head[:1] != b"\x80" or head[2:] != _FRAME:
            return True
        while size - at >= _SHORTEST:
            stream.seek(at)
            head = stream.read(9)
            if head[:1] != _FRAME:
                return head[:1] in _UNFRAMED
            at += 9 + int.from_bytes(head[1:], "little")
    return at <= size


def _note_missing_blocks(tables: dict[str, pl.DataFrame]) -> list[Quality]:
    """A note on segments that no block is of: the allocator has none without (SegmentInfo)."""
    segments, blocks = tables["memory_segments"], tables["memory_blocks"]
    bare = segments.join(blocks, on="segment_id", how="anti").height
    if not bare:
        return []
    text = (
        "segments have no block, though every segment has at least one: what was there is damaged"
    )
    return [Quality("missing_rows", "warning", text, bare)]


def _check_pickle(pickle: Pickle) -> list[Quality]:
    """What limits the reading as such."""
    found = []
    if pickle.damage:
        found.append(
            Quality(
                "truncated",
                "error",
                f"reading stopped at byte {pickle.position}: {pickle.damage}",
            )
        )
    if pickle.shortened:
        text = "of strings over 64 KiB only the beginning was kept"
        found.append(Quality("texts_shortened", "info", text, pickle.shortened))
    if pickle.stacks_shortened:
        text = "stacks were deeper than 1024 frames: their outer frames are left out"
        found.append(Quality("stacks_shortened", "warning", text, pickle.stacks_shortened))
    return found
