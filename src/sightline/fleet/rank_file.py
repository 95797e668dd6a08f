"""Reduced ranks as a file: what one machine keeps of its ranks for those who compare them all.

A line of JSON (`HEAD` first), which says what each rank is and how its columns follow: integers as
differences of 64 bits, texts as numbers of texts in the head, both packed by zlib. Files come from
other machines. Readers of Arrow and Parquet end the process where a buffer is not what its head
says (Polars 1.x: a segmentation fault); here nothing is read but bounded arrays of numbers.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from sightline.core.model.run_folder import RANKS_ENDING
from sightline.errors import DamagedError
from sightline.fleet.reduce import Rank

SCHEMA = "sightline-ranks/1"
HEAD = f'{{"schema": "{SCHEMA}",'.encode()
MOST_BYTES = 512 << 20  # 10,000 ranks of 400 collectives have 80 MB (docs/scale.md)
_MOST_HEAD = 64 << 20
_MOST_ROWS = 50_000_000
_LEVEL = 1
_NUMBERS = ("rank", "begin_ns", "end_ns", "tail_ns")
_NULL = -(1 << 63)  # no time and no count is that
_TEXTS = ("kind", "name", "op", "group", "dtype", "members")
_INTEGERS = (
    *("device_op_id", "device_id", "stream_id", "start_ns", "end_ns", "group_size", "sequence"),
    *("bytes", "source", "target", "worked_start_ns", "worked_end_ns", "step", "anchor", "queued"),
    *("behind_ns", "segment_ns", "compute_ns", "copy_ns", "kernels", "idle_ns", "ahead_ns"),
    "rank",
)
_DAMAGE = (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError)


@dataclass(frozen=True)
class RankFile:
    """The ranks of some recordings, each beside its recording's name, and those that have none."""

    ranks: list[tuple[str, Rank]]
    lost: list[tuple[str, str]]


def write_ranks(held: RankFile) -> bytes:
    """The file's content."""
    told = [
        {
            "recording": name,
            **{key: int(getattr(rank, key)) for key in _NUMBERS},
            "parts": {key: int(value) for key, value in rank.parts.items()},
            "world_size": rank.world_size,
            "rows": rank.rows.height,
        }
        for name, rank in held.ranks
    ]
    rows = pl.concat([rank.rows for _, rank in held.ranks] or [_EMPTY]).select(*_INTEGERS, *_TEXTS)
    head: dict[str, Any] = {"schema": SCHEMA, "ranks": told, "lost": held.lost, "texts": {}}
    columns: list[bytes] = []
    for name in _INTEGERS:
        values = rows.get_column(name).cast(pl.Int64).fill_null(_NULL).to_numpy()
        columns.append(_pack(np.diff(values, prepend=0)))
    for name in _TEXTS:
        texts = rows.get_column(name).cast(pl.String)
        known = texts.drop_nulls().unique().sort().to_list()
        places = texts.replace_strict(
            dict(zip(known, range(len(known)), strict=True)), default=-1, return_dtype=pl.Int64
        )
        head["texts"][name] = known
        columns.append(_pack(places.to_numpy()))
    head["columns"] = [len(column) for column in columns]
    return json.dumps(head).encode() + b"\n" + b"".join(columns)


def _pack(values: np.ndarray) -> bytes:
    return zlib.compress(values.astype("<i8").tobytes(), _LEVEL)


def read_ranks(data: bytes, name: str) -> RankFile:
    """What `write_ranks` wrote. Raises DamagedError."""
    if not data.startswith(HEAD) or len(data) > MOST_BYTES:
        raise DamagedError(f"cannot read {name}", why="these are not reduced ranks")
    head, _, packed = data.partition(b"\n")
    if len(head) > _MOST_HEAD:
        raise DamagedError(f"cannot read {name}", why="its head is too long")
    try:
        told = json.loads(head)
        counts = [_check(one["rows"], _MOST_ROWS) for one in told["ranks"]]
        rows = _read_rows(told, packed, sum(counts))
        ends = np.cumsum([0, *counts])
        ranks = [
            (str(one["recording"]), _read_rank(one, rows.slice(int(at), count)))
            for one, at, count in zip(told["ranks"], ends, counts, strict=False)
        ]
        return RankFile(ranks, [(str(place), str(why)) for place, why in told["lost"]])
    except (*_DAMAGE, zlib.error, pl.exceptions.PolarsError) as error:
        raise DamagedError(f"cannot read {name}", why=str(error)[:200]) from error


def _read_rows(told: dict[str, Any], packed: bytes, count: int) -> pl.DataFrame:
    if count > _MOST_ROWS:
        raise ValueError("there are too many rows")
    sizes = [_check(size, len(packed)) for size in told["columns"]]
    if sum(sizes) != len(packed):
        raise ValueError("it was cut off, or goes on after its end")
    places = np.cumsum([0, *sizes])
    columns: dict[str, pl.Series] = {}
    for name, at, size in zip((*_INTEGERS, *_TEXTS), places, sizes, strict=False):
        values = _unpack(packed[at : at + size], count)
        if name in _INTEGERS:
            whole = pl.Series(name, np.cumsum(values))
            columns[name] = whole.to_frame().select(pl.when(whole != _NULL).then(name))[name]
        else:
            columns[name] = _read_texts(name, told["texts"][name], values)
    rows = pl.DataFrame(columns)
    _check_places(rows)
    return rows


def _unpack(packed: bytes, count: int) -> np.ndarray:
    whole = zlib.decompressobj().decompress(packed, 8 * count + 1)
    if len(whole) != 8 * count:
        raise ValueError("a column and its ranks differ in length")
    return np.frombuffer(whole, "<i8")


def _read_texts(name: str, known: list[Any], places: np.ndarray) -> pl.Series:
    texts = pl.Series(name, [str(text) for text in known], dtype=pl.String)
    if places.size and not -1 <= places.min() <= places.max() < texts.len():
        raise ValueError(f"a {name} is missing")
    at = pl.Series(places).to_frame("at").select(pl.when(pl.col("at") >= 0).then("at"))["at"]
    return texts.gather(at)


def _check_places(rows: pl.DataFrame) -> None:
    """What a replay follows leads to rows that lie before."""
    needed = ("device_op_id", "start_ns", "end_ns", "anchor", "queued", "segment_ns", "idle_ns")
    for name in (*needed, "compute_ns", "copy_ns", "behind_ns", "kernels"):
        if rows.get_column(name).null_count():
            raise ValueError(f"a {name} is missing")
    own = rows.get_column("device_op_id")
    for name in ("anchor", "queued"):
        to = rows.get_column(name)
        if ((to < -1) | (to >= own)).any():
            raise ValueError(f"{name} leads nowhere")


def _read_rank(told: dict[str, Any], rows: pl.DataFrame) -> Rank:
    if not rows.get_column("device_op_id").eq(pl.int_range(rows.height, eager=True)).all():
        raise ValueError("its rows are out of order")
    numbers = {key: _check(told[key], 1 << 62) for key in _NUMBERS}
    parts = {str(key): _check(value, 1 << 62) for key, value in told["parts"].items()}
    world = None if told["world_size"] is None else _check(told["world_size"], 1 << 32)
    return Rank(rows=rows, parts=parts, world_size=world, **numbers)


def _check(value: Any, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not -most <= value <= most:
        raise TypeError(f"{str(value)[:40]} is not a number")
    return value


def list_rank_files(paths: Sequence[str]) -> list[Path]:
    """The files of reduced ranks among what a person typed, and in the folders of it."""
    found: list[Path] = []
    for given in paths:
        path = Path(given)
        if path.is_dir():
            found += sorted(p for p in path.glob(f"*{RANKS_ENDING}") if p.is_file())
        elif path.name.endswith(RANKS_ENDING) and path.is_file():
            found.append(path)
    return found


_EMPTY = pl.DataFrame(
    schema={**dict.fromkeys(_INTEGERS, pl.Int64), **dict.fromkeys(_TEXTS, pl.String)}
)
