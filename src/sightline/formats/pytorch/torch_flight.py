"""PyTorch's flight recorder: what each process last asked of NCCL or Gloo, dumped when it hangs.

Dumps are pickles (torch._C._distributed_c10d._dump_nccl_trace, the files of
TORCH_NCCL_DEBUG_INFO_TEMP_FILE) or JSON of the same keys. The pickle is read by a machine that
runs nothing (native/pickle). Keys: torch/csrc/distributed/c10d/FlightRecorder.hpp and
FlightRecorderDetail.hpp; versions 1 to 2.10. `time_discovered_*` are not read: they say when the
watchdog looked, not when something happened. JSON has 0 where the pickle has None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import polars as pl

from sightline._native import Pickle
from sightline.core.algebra.arrow import unpack_columns
from sightline.core.algebra.shared_texts import tabulate
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.tables import load_table
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError, InputError
from sightline.formats._stacks import read_text

IMPORTER = Importer(
    name="torch_flight",
    label="PyTorch flight recorder",
    strong=(
        rb"^\x80[\x02-\x05].{0,65536}?(?:pg_config|profiling_name)",
        rb'^\s*\{.{0,65536}?"(?:pg_status|profiling_name|collective_seq_id)"',
    ),
    weak=(),
    looks_like="a pickle or JSON with 'pg_config' and 'entries'",
    suffixes=(".json", ".pkl", ".pickle"),
    version=5,
    source="https://docs.pytorch.org/tutorials/unstable/flight_recorder_tutorial.html",
)

# Frames of these are between the program and the library: torch's own, and where it was wrapped.
_NOT_THE_PROGRAM = re.compile(
    r"(?:^|/)torch/|site-packages/|dist-packages/|^<|\.(?:cpp|h|cc)$|^\?*$"
)
# What the group of all ranks is called; Gloo's has no name.
_DEFAULT = ("0", "")
# Ranks in all records together: those of 2,000 records (the recorder's default is 2,000 entries) of
# a job of 16,384 GPUs, as that of Llama 3 (arXiv:2407.21783).
_MOST_MEMBERS = 2_000 * 16_384
_ENTRY_KEYS = (
    "record_id",
    "pg_id",
    "process_group",
    "collective_seq_id",
    "p2p_seq_id",
    "seq_id",  # before version 2.0
    "profiling_name",
    "time_created_ns",
    "time_created_us",  # before version 1.5
    "input_sizes",
    "output_sizes",
    "input_dtypes",
    "state",
    "retired",
    "is_p2p",
    "timeout_ms",
    "frames",
)


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all records that are whole.

    Raises DamagedError where it is not plain data, or holds neither records nor process groups.
    """
    quality: list[Quality] = []
    is_pickle = source.head()[:1] == b"\x80"
    document = _read_pickle(source, quality) if is_pickle else _read_json(source, quality)
    entries, groups = document["entries"], _read_groups(document["pg_config"])
    if not entries and not groups:
        raise DamagedError(
            f"cannot read {source.given}", why="it holds neither records nor process groups"
        )
    rows, bad = [], 0
    find_place = _remember(_find_place)
    for entry in entries:
        row = _read_entry(entry, groups, find_place) if isinstance(entry, dict) else None
        bad += row is None
        if row is not None:
            rows.append(row)
    if not entries:
        text = "the dump holds process groups and no record of a collective"
        quality.append(Quality("no_records", "warning", text))
    # What each record is of stands in pg_config since version 2.1.
    if entries and not groups and _has_groups(document["version"]):
        text = "the dump's process groups are missing: who takes part in a collective is not known"
        quality.append(Quality("missing_rows", "warning", text, len(entries)))
    if bad:
        quality.append(Quality("damaged_entries", "warning", "records could not be read", bad))
    tables = {"flight_groups": _tabulate("flight_groups", list(groups.values()))}
    records = _tabulate("flight_records", rows).with_row_index("flight_record_id")
    members = _list_members(rows, tables["flight_groups"], quality)
    tables["flight_records"] = records.with_columns(members)
    created = tables["flight_records"].get_column("created_ns").drop_nulls()
    recording = Recording(
        tool="PyTorch flight recorder",
        tool_version=document["version"],
        world_size=_find_world(groups),
        start_ns=created.min(),  # type: ignore[arg-type]
        end_ns=created.max(),  # type: ignore[arg-type]
        clock_offset_ns=0,
        # The files are called PREFIX and the rank: nothing in them says whose they are.
        own={"rank_ends_name": True},
    )
    return Imported(tables, recording, quality)


def _has_groups(version: str | None) -> bool:
    found = re.match(r"(\d{1,9})\.(\d{1,9})", version or "")
    return found is not None and (int(found[1]), int(found[2])) >= (2, 1)


def _tabulate(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    schema = {c.name: c.dtype for c in load_table(name).stored if not c.name.endswith("_id")}
    return tabulate(rows, schema)


def _list_members(
    rows: list[dict[str, Any]], groups: pl.DataFrame, quality: list[Quality]
) -> pl.Series:
    """The ranks of each record's group: none at all where they would take too much memory."""
    members = groups.get_column("group_ranks")
    numbers = {name: n for n, name in enumerate(groups.get_column("group"))}
    codes = pl.Series([numbers.get(row["known_group"]) for row in rows], dtype=pl.UInt32)
    named = members.list.len().gather(codes).sum() or 0
    if named > _MOST_MEMBERS:
        text = "records are of groups so large that their ranks are listed with the groups only"
        quality.append(Quality("members_left_out", "warning", text, len(rows)))
        return pl.Series("group_ranks", [None] * len(rows), dtype=members.dtype)
    return members.gather(codes).alias("group_ranks")


def _remember(function: Callable[[Any], str | None]) -> Callable[[Any], str | None]:
    """The function, called once for each object; the caller keeps the objects."""
    known: dict[int, str | None] = {}

    def call(value: Any) -> str | None:
        if id(value) not in known:
            known[id(value)] = function(value)
        return known[id(value)]

    return call


def _read_json(source: Source, quality: list[Quality]) -> dict[str, Any]:
    try:
        found = json.loads(read_text(source, quality))
    except (ValueError, RecursionError) as error:
        raise DamagedError(
            f"cannot read {source.given}", why=f"it is not complete JSON ({error})"
        ) from error
    entries, config = found.get("entries"), found.get("pg_config")
    return {
        "version": _as_text(found.get("version")),
        "entries": entries if isinstance(entries, list) else [],
        "pg_config": config if isinstance(config, dict) else {},
    }


def _read_pickle(source: Source, quality: list[Quality]) -> dict[str, Any]:
    """The same of a pickle; what is not text or number in it comes as JSON."""
    try:
        pickle = Pickle(source.path)
    except OSError as error:
        raise InputError(
            f"cannot read {source.given}", why=(error.strerror or str(error)).lower()
        ) from error
    while pickle.read(1 << 24):
        pass
    if pickle.refused:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"{pickle.refused}, near byte {pickle.position}; nothing of it was run",
        )
    if pickle.damage:
        text = f"reading stopped at byte {pickle.position}: {pickle.damage}"
        quality.append(Quality("truncated", "error", text))
    top = _take(pickle, [], ("version", "pg_config"), quality)
    outer: dict[str, Any] = top[0] if top else {}
    config = outer.get("pg_config")
    return {
        "version": _as_text(outer.get("version")),
        "entries": _take(pickle, ["entries"], _ENTRY_KEYS, quality),
        "pg_config": config if isinstance(config, dict) else {},
    }


def _take(
    pickle: Pickle, path: list[str], keys: tuple[str, ...], quality: list[Quality]
) -> list[dict[str, Any]]:
    """Dicts at a place, each value as JSON reads it; texts that are none stay texts."""
    rows = pickle.rows(path)
    codes = unpack_columns(pickle.take(rows, [(key, "text") for key in keys], 0, rows.rows))
    texts = unpack_columns(pickle.texts()).get_column("text")
    known = [None, *(value.decode("utf-8", "replace") for value in texts)]
    read: dict[int, Any] = {}  # records share stacks and shapes: each is read once

    def unpack(code: int) -> Any:
        if code not in read:
            read[code] = _unpack(known[code])
        return read[code]

    made = [
        {key: unpack(code) for key, code in row.items() if key in keys and code}
        for row in codes.iter_rows(named=True)
    ]
    if rows.is_cut:
        text = "records share more of each other than the file can hold: some values are left out"
        quality.append(Quality("values_left_out", "warning", text))
    return made


def _unpack(text: str | None) -> Any:
    if text is None or text[:1] not in '[{-0123456789tfn"':
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _read_groups(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Process groups by name; Gloo's dump has the one group under an empty name."""
    found = {}
    for key, told in config.items():
        if not isinstance(told, dict):
            continue
        name = _as_text(told.get("name")) or str(key) or "0"
        ranks = told.get("ranks")
        numbers = ranks if isinstance(ranks, list) else re.findall(r"\d{1,9}", str(ranks or ""))
        found[name] = {
            "group": replace_surrogates(name),
            "group_description": _as_text(told.get("desc")),
            "group_ranks": sorted({int(n) for n in numbers if _is_number(n)}),
        }
    return found


def _find_world(groups: dict[str, dict[str, Any]]) -> int | None:
    """How many ranks the job has: those of the default group; other groups do not show."""
    whole = [
        known["group_ranks"]
        for known in groups.values()
        if known["group_description"] == "default_pg" or known["group"] in _DEFAULT
    ]
    return max(map(len, whole), default=0) or None


def _read_entry(
    entry: dict[str, Any], groups: dict[str, Any], find_place: Callable[[Any], str | None]
) -> dict[str, Any] | None:
    """A record as a row; None where it does not even say what it is of."""
    op = entry.get("profiling_name")
    if not isinstance(op, str):
        return None
    name, description = _name_group(entry)
    known = groups.get(name or "", groups.get("0") if len(groups) == 1 else None) or {}
    is_p2p = bool(entry.get("is_p2p"))
    sequence = entry.get("p2p_seq_id" if is_p2p else "collective_seq_id", entry.get("seq_id"))
    created = _as_int(entry.get("time_created_ns"))
    if created is None:
        micro = _as_int(entry.get("time_created_us"))
        created = None if micro is None else micro * 1000
    state = entry.get("state")
    return {
        "record": _as_int(entry.get("record_id")),
        "group": known.get("group", name),
        "group_description": description or known.get("group_description"),
        "known_group": known.get("group"),
        "op": replace_surrogates(op),
        "sequence": _as_int(sequence),
        "is_p2p": is_p2p,
        "state": _as_text(state),
        "retired": bool(entry["retired"]) if "retired" in entry else None,
        "created_ns": created,
        "input_sizes": _write(entry.get("input_sizes")),
        "output_sizes": _write(entry.get("output_sizes")),
        "dtype": _write(entry.get("input_dtypes")),
        "timeout_ms": _as_int(entry.get("timeout_ms")),
        "place": find_place(entry.get("frames") or ()),
    }


def _name_group(entry: dict[str, Any]) -> tuple[str | None, str | None]:
    told = entry.get("process_group")
    if isinstance(told, list | tuple) and told:
        return _as_text(told[0]), _as_text(told[1]) if len(told) > 1 else None
    return _as_text(told if told is not None else entry.get("pg_id")), None


def _find_place(frames: Any) -> str | None:
    """The innermost frame that is the program's own, else the innermost of all."""
    known = [f for f in frames if isinstance(f, dict)] if isinstance(frames, Iterable) else []
    own = [f for f in known if not _NOT_THE_PROGRAM.search(str(f.get("filename") or ""))]
    for frame in [*own, *known]:
        place = f"{frame.get('filename')}({frame.get('line')}): {frame.get('name')}"
        return replace_surrogates(place)
    return None


def _write(value: Any) -> str | None:
    return None if value is None else replace_surrogates(json.dumps(value))


def _as_text(value: Any) -> str | None:
    return None if value is None else replace_surrogates(str(value))


def _is_number(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, str) and value.isdecimal())


def _as_int(value: Any) -> int | None:
    """A number of 64 bits, or None."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if abs(value) <= INT64_MAX else None
