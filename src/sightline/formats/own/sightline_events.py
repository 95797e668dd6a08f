"""What a program marked itself while it was recorded: ranges, steps, marks, checkpoints, samples.

Written by the in-code API and by sightline's samplers; core/model/event_file.py describes the
format. A file is readable at any moment: of a process that was killed, all but what it was just
writing.
"""

from __future__ import annotations

import json
import shlex
from array import array
from dataclasses import dataclass
from typing import Any

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model import event_file as f
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import WHOLE_BYTES, Source, read_intact
from sightline.core.text import make_printable
from sightline.core.units import format_ns, format_several
from sightline.errors import DamagedError

IMPORTER = Importer(
    name="sightline_events",
    label="sightline's own marks and samples",
    strong=(rb"^SIGHTLINE-EVENTS",),
    weak=(),
    looks_like="a file that starts with SIGHTLINE-EVENTS",
    suffixes=(f.SUFFIX,),
    version=6,
    source="src/sightline/core/model/event_file.py",
)

_LAYER = {f.STEP: "step", f.OPEN_STEP: "step"}
_2_32 = 1 << 32
# Clocks that came apart by more were set while the program ran: slewing moves both alike.
_STEPPED_NS = 1_000_000


@dataclass(frozen=True)
class _Read:
    events: pl.DataFrame  # slot, first, second, value, name, tid, extra, flags, device, kind
    texts: dict[int, str]
    facts: dict[str, Any]
    broken: int  # slots that were never finished, and texts that are not whole


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all finished slots. Raises DamagedError where not even the header is whole."""
    quality: list[Quality] = []
    with source.open() as stream:
        data, damage = read_intact(stream, WHOLE_BYTES)
    if len(data) < f.FIRST_EVENT * f.SLOT:
        raise DamagedError(f"cannot read {source.given}", why="it ends inside its header")
    _, version, pid, _ = f.HEADER.unpack_from(data)
    if version not in f.READ:
        raise DamagedError(
            f"cannot read {source.given}",
            why=f"it has version {version}, this sightline reads {f.VERSION} and less",
        )
    state, error, lost, written, *_ = f.STATUS.unpack_from(data, f.SLOT)
    if damage:
        quality.append(Quality("truncated", "error", f"reading stopped early: {damage}"))
    elif version >= f.FIRST_WITH_END and (missing := _find_missing(len(data), written)) is not None:
        count = missing or None
        text = "marks and samples are missing: the file ends early"
        quality.append(Quality("truncated", "error", text, count))
    found = _slots(data)
    offset, apart, drift = _clock(found.events)
    quality += _notes(found, (state, error, lost, len(data)), drift)
    host = _host_ops(found, pid, offset, state)
    facts = found.facts
    edges = found.events.filter(pl.col("kind") != f.CLOCK).select(
        pl.min("first"), last=pl.max_horizontal(pl.max("first"), _ends().max())
    )
    start, end = edges.row(0) if edges.height else (None, None)
    recording = Recording(
        tool="sightline",
        tool_version=_name_versions(facts),
        rank=_int(facts.get("rank")),
        world_size=_int(facts.get("world_size")),
        clock_offset_ns=offset,
        clock_uncertainty_ns=apart,
        start_ns=None if start is None else start + offset,
        end_ns=None if end is None else end + offset,
        own=facts,
        layers=tuple(host.get_column("layer").unique().sort()),
    )
    tables = {"host_ops": host, "counters": _counters(found, offset), "threads": _threads(host)}
    return Imported(tables, recording, quality)


def _name_versions(facts: dict[str, Any]) -> str | None:
    """Our version, and PyTorch's where its profiler ran: two runs of different ones differ."""
    torch = facts.get("torch_profiler")
    other = _text(torch.get("version")) if isinstance(torch, dict) else None
    known = [_text(facts.get("sightline")), None if other is None else f"PyTorch {other}"]
    return ", ".join(v for v in known if v is not None) or None


def _find_missing(size: int, written: int) -> int | None:
    """How many slots a file lacks; 0 where some lack and it is not known how many; else None."""
    if written > 0:
        return max(written - size // f.SLOT, 0) or None
    # A file that was not ended consists of whole chunks.
    return None if size and size % f.CHUNK == 0 else 0


def _slots(data: bytes) -> _Read:
    """The slots as columns, and the texts put together from their parts."""
    whole = len(data) // f.SLOT * f.SLOT
    signed, unsigned, real = array("q"), array("Q"), array("d")
    for words in (signed, unsigned, real):
        words.frombytes(data[f.FIRST_EVENT * f.SLOT : whole])
    frame = pl.DataFrame(
        {
            "first": pl.Series(signed[0::4].tolist(), dtype=pl.Int64),
            "second": pl.Series(signed[1::4].tolist(), dtype=pl.Int64),
            "value": pl.Series(real[1::4].tolist(), dtype=pl.Float64),
            "low": pl.Series(unsigned[2::4].tolist(), dtype=pl.UInt64),
            "high": pl.Series(unsigned[3::4].tolist(), dtype=pl.UInt64),
        }
    ).with_row_index("slot")
    frame = frame.with_columns(kind=(pl.col("high") // (1 << 56)).cast(pl.Int64))
    used = frame.filter(pl.col("kind") != f.EMPTY)
    last: int = -1 if used.is_empty() else used.select(pl.col("slot").cast(pl.Int64).max()).item()
    torn = last + 1 - used.height
    is_text = pl.col("kind").is_in([f.NAME, f.FACT])
    texts, facts, bad = _texts(data, used.filter(is_text).get_column("slot").to_list())
    events = used.filter(~is_text & (pl.col("kind") <= f.VOID)).select(
        "slot",
        "first",
        "second",
        "value",
        "kind",
        name=(pl.col("low") % _2_32).cast(pl.Int64),
        tid=(pl.col("low") // _2_32).cast(pl.Int64),
        extra=(pl.col("high") % _2_32).cast(pl.Int64),
        flags=(pl.col("high") // _2_32 % (1 << 16)).cast(pl.Int64),
        device=(pl.col("high") // (1 << 48) % 256).cast(pl.Int64),
    )
    unknown = used.filter(pl.col("kind") > f.STATE).height
    return _Read(events.filter(pl.col("kind") != f.VOID), texts, facts, torn + bad + unknown)


def _texts(data: bytes, slots: list[int]) -> tuple[dict[int, str], dict[str, Any], int]:
    """Texts by number, the facts among them merged in order, and how many are not whole."""
    parts: dict[int, dict[int, bytes]] = {}
    is_fact: dict[int, bool] = {}
    for slot in slots:
        number, part, length, piece, kind = f.TEXT.unpack_from(
            data, (slot + f.FIRST_EVENT) * f.SLOT
        )
        parts.setdefault(number, {})[part] = piece[:length]
        is_fact[number] = kind == f.FACT
    texts: dict[int, str] = {}
    facts: dict[str, Any] = {}
    bad = 0
    for number in sorted(parts):
        pieces = parts[number]
        if len(pieces) != max(pieces) + 1:
            bad += 1
        text = b"".join(pieces[p] for p in sorted(pieces)).decode("utf-8", "replace")
        if not is_fact[number]:
            texts[number] = text
            continue
        try:
            told = json.loads(text)
        except (ValueError, RecursionError):
            bad += len(pieces) == max(pieces) + 1
            continue
        if isinstance(told, dict):
            facts.update(told)
    return texts, facts, bad


def _ends() -> pl.Expr:
    """End of the rows that have one."""
    return pl.when(pl.col("kind").is_in([f.RANGE, f.STEP])).then("second")


def _clock(events: pl.DataFrame) -> tuple[int, int | None, int]:
    """Wall minus monotonic clock, by the pair read closest together; how close; how it drifted."""
    pairs = events.filter(pl.col("kind") == f.CLOCK).select(
        offset=pl.col("second") - pl.col("first"), apart="extra"
    )
    if pairs.is_empty():
        return 0, None, 0
    best = pairs.sort("apart", maintain_order=True).row(0)
    low, high = pairs.select(pl.min("offset"), high=pl.max("offset")).row(0)
    return best[0], -(-best[1] // 2), high - low


def _host_ops(found: _Read, pid: int, offset: int, state: int) -> pl.DataFrame:
    """Ranges and marks, nested. What was open at the end ends with the file's last event."""
    events = found.events
    kinds = [f.RANGE, f.STEP, f.OPEN, f.OPEN_STEP, f.MARK]
    last = events.select(pl.max_horizontal(pl.max("first"), _ends().max())).item()
    # Of a process that ended in order, what follows its last step is none.
    dropped = [f.OPEN_STEP] if state == f.CLOSED else []
    rows = events.filter(pl.col("kind").is_in(kinds) & ~pl.col("kind").is_in(dropped))
    end = (
        pl.when(pl.col("kind").is_in([f.RANGE, f.STEP]))
        .then("second")
        .when(pl.col("kind") == f.MARK)
        .then("first")
        .otherwise(pl.lit(last, pl.Int64))
    )
    is_step = pl.col("kind").is_in([f.STEP, f.OPEN_STEP])
    name = pl.col("name").replace_strict(found.texts, default="?", return_dtype=pl.String)
    text = pl.col("extra").replace_strict(found.texts, default=None, return_dtype=pl.String)
    labels = pl.when(pl.col("flags") // f.HAS_LABELS % 2 == 1).then(text)
    lines = labels.str.splitn("\n", 2)
    first = lines.struct.field("field_0")
    # What is no array, as in a damaged file, has no label.
    is_array = first.str.contains(r'^\[(?:null|"(?:[^"\\]|\\.)*"), (?:null|"(?:[^"\\]|\\.)*")\]$')
    domain, category = (
        pl.when(is_array).then(first).str.json_path_match(f"$[{at}]") for at in range(2)
    )
    payload = pl.when(pl.col("flags") // f.HAS_PAYLOAD % 2 == 1).then(text)
    rows = rows.select(
        pid=pl.lit(pid, pl.Int64),
        tid="tid",
        layer=pl.when(is_step).then(pl.lit("step")).otherwise(pl.lit("annotation")),
        name=pl.when(is_step).then(name + pl.col("extra").cast(pl.String)).otherwise(name),
        start_ns=pl.col("first") + offset,
        end_ns=pl.max_horizontal(end, "first") + offset,
        range_kind=pl.when(~is_step).then(
            pl.when(pl.col("kind") == f.MARK).then(pl.lit("mark")).otherwise(pl.lit("pushpop"))
        ),
        domain=domain,
        category=category,
        payload=payload.fill_null(lines.struct.field("field_1")),
    )
    order = pl.when(pl.col("layer") == "step").then(0).otherwise(1)
    return nest_ranges(rows, order=order)


def _counters(found: _Read, offset: int) -> pl.DataFrame:
    """Samples; the unit stands in brackets behind the metric's name."""
    rows = found.events.filter(pl.col("kind") == f.SAMPLE)
    name = pl.col("name").replace_strict(found.texts, default="?", return_dtype=pl.String)
    return rows.select(
        metric=name.str.replace(r" \[[^\]]*\]$", ""),
        unit=name.str.extract(r" \[([^\]]*)\]$"),
        device_id=pl.when(pl.col("device") != f.NO_DEVICE).then("device"),
        time_ns=pl.col("first") + offset,
        value="value",
    )


def _threads(host: pl.DataFrame) -> pl.DataFrame:
    return host.select("pid", "tid").unique().sort("pid", "tid")


def _notes(found: _Read, status: tuple[int, int, int, int], drift: int) -> list[Quality]:
    """Notes on what was lost; `status`: the file's state, errno, lost events, and bytes."""
    state, error, lost, size = status
    facts, notes = found.facts, []
    opened = found.events.filter(pl.col("kind") == f.OPEN).height
    if state == f.WRITING:
        text = "the process did not exit normally (killed, os._exit, or replaced by exec)"
        if opened:
            text += f"; ranges that were open then: {opened}, taken as ending with the last mark"
        notes.append(Quality("process_killed", "warning", text, None))
    if state == f.FULL or lost:
        import os

        why = os.strerror(error) if error else "unknown"
        text = f"marks were lost: the event file could not grow ({why})"
        remedy = "Record to a disk with room:  sightline run -o FOLDER"
        if size + f.CHUNK > f.MOST_BYTES:
            text = f"marks were lost: a process marks {f.MOST_BYTES >> 30} GiB at most"
            remedy = "Mark fewer ranges: steps and their parts, not what is done in each of them."
        notes.append(Quality("events_lost", "error", text, lost or None, remedy))
    if found.broken:
        notes.append(
            Quality(
                "damaged_events", "warning", "events were not finished and left out", found.broken
            )
        )
    if drift > _STEPPED_NS:
        notes.append(
            Quality(
                "clock_set",
                "warning",
                f"the wall clock was set by {format_ns(drift)} while the program ran; marks keep "
                "the clock of their start",
            )
        )
    for key, text in (
        ("torch_failed", "the PyTorch profiler failed"),
        ("jax_failed", "JAX's profiler failed"),
        ("torch_skipped", "the PyTorch profiler was not started"),
        ("torch_ended_early", "the PyTorch recording ended early"),
        ("memory_history_skipped", "no memory history was kept"),
        ("memory_history_failed", "the memory history failed"),
        ("oom_snapshot_failed", "the memory snapshot of a failed allocation failed"),
        ("clock_failed", "the clocks of the hosts could not be compared"),
    ):
        if key in facts:
            then = _name_own_traces(facts) if key == "torch_ended_early" else None
            if key == "torch_ended_early" and facts.get("torch_begun_again"):
                # Nothing was lost: what ran meanwhile is in the program's own traces.
                times = format_several(_int(facts["torch_begun_again"]) or 1, "time")
                paused = (
                    f"the PyTorch recording paused {times}, while the program's own profiler ran"
                )
                text = f"{paused}. {then}" if then else paused
                notes.append(Quality(key, "info", text, None, then))
                continue
            notes.append(Quality(key, "warning", f"{text}: {facts[key]}", None, then))
    forked = _int(facts.get("torch_forked"))
    if forked:
        text = (
            "worker process was" if forked == 1 else "worker processes were"
        ) + " forked while PyTorch's profiler ran and could not be recorded"
        remedy = 'Start them with multiprocessing.set_start_method("spawn").'
        notes.append(Quality("torch_forked", "warning", text, forked, remedy))
    overrun = facts.get("torch_overrun")
    if isinstance(overrun, list) and len(overrun) == 2:
        asked, lasted = overrun
        text = (
            f"PyTorch was recorded for {lasted} s instead of {asked} s: the program was in a call "
            "that held the GIL, and nothing else could end the recording"
        )
        notes.append(Quality("torch_overrun", "info", text))
    if "torch_limited" in facts:
        text = f"PyTorch was recorded for the first {facts['torch_limited']} s only"
        remedy = "Choose yourself: --seconds S, or --steps WAIT:WARMUP:ACTIVE."
        notes.append(Quality("torch_limited", "info", text, None, remedy))
    return [*notes, *_cost(found)]


def _name_own_traces(facts: dict[str, Any]) -> str | None:
    """How to open what the program's own profiler wrote."""
    told = facts.get("torch_own_traces")
    paths = (
        [make_printable(p) for p in told if isinstance(p, str)] if isinstance(told, list) else []
    )
    return f"What it wrote:  sightline {' '.join(map(shlex.quote, paths))}" if paths else None


def _cost(found: _Read) -> list[Quality]:
    """What the recording cost the process, as far as it was measured."""
    pair = _int(found.facts.get("pair_ns"))
    count = found.events.filter(pl.col("kind") != f.CLOCK).height
    said = []
    if pair and count:
        said.append(
            f"{format_several(count, 'mark')} and samples at {format_ns(pair)} or more each"
        )
    torch = found.facts.get("torch_profiler")
    if isinstance(torch, dict):
        numbers = {k: _int(torch.get(k)) or 0 for k in ("start_ns", "stop_ns", "export_ns")}
        said.append(
            f"PyTorch profiler: start {format_ns(numbers['start_ns'])}, stop "
            f"{format_ns(numbers['stop_ns'])}, writing {format_ns(numbers['export_ns'])}"
        )
    jax = found.facts.get("jax_profiler")
    if isinstance(jax, dict):
        numbers = {k: _int(jax.get(k)) or 0 for k in ("start_ns", "stop_ns")}
        said.append(
            f"JAX's profiler: start {format_ns(numbers['start_ns'])}, stop and writing "
            f"{format_ns(numbers['stop_ns'])}"
        )
    return [Quality("overhead", "info", "recording cost: " + "; ".join(said))] if said else []


def _int(value: Any) -> int | None:
    return value if type(value) is int else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
