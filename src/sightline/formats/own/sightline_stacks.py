"""CPU stacks that sightline sampled itself, through perf_event.

core/model/stack_file.py describes the format. Nothing in it is trusted: numbers of frames and nodes
are checked, and what points nowhere is left out and counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import polars as pl

from sightline.core.cxx_names import demangle
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import MAX_DEPTH, Frame, StackTrie
from sightline.core.units import format_bytes, format_ns, format_pct, format_several
from sightline.errors import DamagedError
from sightline.formats.own._blocks import LATEST_NS, find_clock, is_count, open_blocks, read_text

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, Any]

IMPORTER = Importer(
    name="sightline_stacks",
    label="CPU stacks sampled by sightline",
    strong=(rb"^SIGHTLINE-STACK\n",),
    weak=(),
    looks_like="a file that starts with SIGHTLINE-STACK",
    suffixes=(".stacks",),
    version=4,
    source="src/sightline/core/model/stack_file.py",
)

# 24 bytes each in the file: three days of one thread at 99 Hz are 26 million.
_MOST_SAMPLES = 50_000_000
_MOST_FRAMES = 1 << 22
# Where a thread begins: its outermost frame lies there if its stack was followed to the end.
_BEGINNINGS = ("_start", "__libc_start_call_main", "start_thread", "clone3", "clone", "main")
_FIRST_MODULES = ("libc.so", "libc-", "ld-linux", "libpthread", "ld-musl")


@dataclass
class _Read:
    samples: list[Array] = field(default_factory=list)
    nodes: list[Array] = field(default_factory=list)
    frames: dict[int, Frame] = field(default_factory=dict)
    threads: dict[tuple[int, int], tuple[str | None, str | None]] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    missing: int = 0
    damaged: int = 0  # blocks
    left_out: int = 0  # samples beyond those that are read


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where there is none."""
    found = _read_file(source)
    stacks, wrong = _check_nodes(found)
    samples, unplaced = _tabulate(found, stacks)
    if samples.is_empty():
        raise DamagedError(f"cannot read {source.given}", why="there is no sample in it")
    offset, apart = find_clock(found.facts)
    samples = samples.with_columns(pl.col("time_ns") + offset)
    trie = StackTrie()
    numbers = {number: trie.number(frame) for number, frame in sorted(found.frames.items())}
    stacks = stacks.with_columns(pl.col("frame_id").replace_strict(numbers, return_dtype=pl.Int64))
    tables = {
        "cpu_samples": samples.drop("is_cut", "is_lost"),
        "frames": trie.tables()["frames"],
        "stacks": stacks,
        "threads": _list_threads(found),
    }
    quality = [
        *_note_losses(found, wrong, unplaced),
        *_note_limits(found, samples, tables["frames"], stacks),
    ]
    recording = Recording(
        tool="sightline perf_event",
        tool_version=read_text(found.facts.get("sightline")),
        clock_offset_ns=offset,
        clock_uncertainty_ns=apart,
        has_stacks=True,
    )
    return Imported(tables, recording, quality)


# -- the file -------------------------------------------------------------------------------------


def _read_file(source: Source) -> _Read:
    import numpy as np  # all commands ask what recognises a file

    from sightline.core.model import stack_file as f

    found, count = _Read(), 0
    with source.open() as stream:
        for block in open_blocks(stream, source.given, f.VERSION, f.RECORD.itemsize):
            found.missing += block.missing
            if block.kind in (f.SAMPLES, f.NODES):
                kind = f.RECORD if block.kind == f.SAMPLES else f.NODE
                whole = len(block.content) // kind.itemsize * kind.itemsize
                rows = np.frombuffer(block.content[:whole], kind)
                if block.kind == f.NODES:
                    found.nodes.append(rows)
                    continue
                found.samples.append(rows[: max(_MOST_SAMPLES - count, 0)])
                count += len(found.samples[-1])
                found.left_out += len(rows) - len(found.samples[-1])
            elif not _take_text(found, block.kind, block.content):
                found.damaged += not block.missing
    return found


def _take_text(found: _Read, kind: int, content: bytes) -> bool:
    """Add what a block of JSON says. False where it says nothing."""
    from sightline.core.model import stack_file as f

    if len(content) > f.MAX_TEXT_BYTES:
        return False
    try:
        told = json.loads(content)
    except (ValueError, RecursionError):
        return False
    if kind == f.FACTS and isinstance(told, dict):
        found.facts.update(told)
        return True
    if kind == f.THREADS and isinstance(told, list):
        for row in told:
            if isinstance(row, list) and len(row) == 4 and all(is_count(n) for n in row[:2]):
                found.threads[row[0], row[1]] = read_text(row[2]), read_text(row[3])
        return True
    if kind != f.FRAMES or not isinstance(told, dict) or not is_count(told.get("from")):
        return False
    rows, first = told.get("rows"), told["from"]
    if not isinstance(rows, list) or first + len(rows) > _MOST_FRAMES:
        return False
    for number, row in enumerate(rows, first):
        frame = _make_frame(row)
        if frame is not None:
            found.frames[number] = frame
    return True


def _make_frame(row: Any) -> Frame | None:
    if not isinstance(row, list) or len(row) not in (4, 5):
        return None
    if row[0] not in ("python", "native", "os"):
        return None
    layer, function, file, module = (read_text(value) for value in row[:4])
    line = row[4] if len(row) == 5 and is_count(row[4]) else None
    if function is not None:
        return Frame(layer or "native", demangle(function), file, line, module)
    short = "unknown" if module is None else module.rsplit("/", 1)[-1].strip("[]")
    return Frame(layer or "native", f"[{short}]", file, None, module)


def _check_nodes(found: _Read) -> tuple[pl.DataFrame, int]:
    """The table `stacks`, and how many nodes make no sense: they and what is below are left out."""
    import numpy as np

    rows = np.concatenate(found.nodes) if found.nodes else np.zeros(0, [("parent", "<i4")] * 1)
    if not len(rows):
        types = dict.fromkeys(("stack_id", "parent_id", "frame_id", "depth"), pl.Int64)
        return pl.DataFrame(schema=types), 0
    parent, frame = rows["parent"].astype(np.int64), rows["frame"].astype(np.int64)
    number = np.arange(len(rows))
    good = np.isin(frame, np.fromiter(found.frames, np.int64, len(found.frames)))
    good &= (parent >= -1) & (parent < number)  # a parent comes first: no circle
    depth = np.where(good & (parent == -1), 0, -1)
    level = np.flatnonzero(depth == 0)
    waiting = np.flatnonzero(good & (parent >= 0))
    for below in range(1, MAX_DEPTH):
        is_next = np.isin(parent[waiting], level)
        level, waiting = waiting[is_next], waiting[~is_next]
        if not len(level):
            break
        depth[level] = below
    kept = depth >= 0
    stacks = pl.DataFrame(
        {
            "stack_id": number[kept],
            "parent_id": pl.Series(parent[kept]).replace(-1, None),
            "frame_id": frame[kept],
            "depth": depth[kept],
        }
    )
    return stacks, int((~kept).sum())


def _tabulate(found: _Read, stacks: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The rows of `cpu_samples`, and how many have no stack although they should."""
    import numpy as np

    from sightline.core.model.stack_file import CUT, LOST_WAY, RECORD

    rows = np.concatenate(found.samples) if found.samples else np.zeros(0, RECORD)
    rows = rows[rows["time"] < LATEST_NS]
    stack = rows["stack"].astype(np.int64)
    known = np.isin(stack, stacks.get_column("stack_id").to_numpy())
    period = found.facts.get("period_ns")
    frame = pl.DataFrame(
        {
            "time_ns": rows["time"].astype(np.int64),
            "pid": rows["pid"].astype(np.int64),
            "tid": rows["tid"].astype(np.int64),
            "stack_id": pl.Series(np.where(known, stack, -1)).replace(-1, None),
            "cpu": rows["cpu"].astype(np.int64),
            "is_cut": (rows["flags"] & CUT) != 0,
            "is_lost": (rows["flags"] & LOST_WAY) != 0,
        }
    )
    weight = period if isinstance(period, int) and 0 < period < 10**12 else None
    frame = frame.with_columns(weight_ns=pl.lit(weight, pl.Int64), on_cpu=pl.lit(value=True)).sort(
        "time_ns", maintain_order=True
    )
    return frame, int(((stack >= 0) & ~known).sum())


def _list_threads(found: _Read) -> pl.DataFrame:
    rows = [(*key, *names) for key, names in sorted(found.threads.items())]
    types: dict[str, type[pl.DataType]] = {"pid": pl.Int64, "tid": pl.Int64}
    types |= {"process_name": pl.String, "thread_name": pl.String}
    return pl.DataFrame(rows, schema=types, orient="row")


# -- what limits conclusions ----------------------------------------------------------------------


def _note_losses(found: _Read, wrong: int, unplaced: int) -> Iterator[Quality]:
    facts = found.facts
    if is_count(lost := facts.get("lost")) and lost:
        text = "samples were lost: their buffer was full"
        yield Quality("samples_lost", "warning", text, lost)
    if is_count(times := facts.get("throttled")) and times:
        text = (
            "times the kernel paused sampling, because it took too long "
            "(kernel.perf_cpu_time_max_percent)"
        )
        remedy = "Sample less often:  sightline run --cpu-rate 49 -- PROGRAM"
        yield Quality("samples_throttled", "warning", text, times, remedy)
    if found.missing:
        yield Quality("truncated", "error", "the file ends early")
    if found.damaged or wrong or unplaced:
        text = "blocks, frames or stacks are malformed and were left out"
        yield Quality("damaged_events", "warning", text, found.damaged + wrong + unplaced)
    if found.left_out:
        text = "only the first 50 million samples are read; others were left out"
        yield Quality("samples_left_out", "warning", text, found.left_out)
    if is_count(count := facts.get("stacks_left_out")) and count:
        text = "stacks did not fit into the recording: their samples have none"
        yield Quality("stacks_left_out", "warning", text, count)
    if "finished" not in facts and not found.missing:
        text = (
            "sightline did not end normally (killed, or still running); its last moment may be lost"
        )
        yield Quality("process_killed", "warning", text)


def _note_limits(
    found: _Read, samples: pl.DataFrame, frames: pl.DataFrame, stacks: pl.DataFrame
) -> Iterator[Quality]:
    facts = found.facts
    if facts.get("sees_kernel") is False:
        text = "what threads did in the kernel is not sampled: perf_event_paranoid is above 1"
        remedy = "sudo sysctl kernel.perf_event_paranoid=1"
        yield Quality("kernel_not_sampled", "info", text, None, remedy)
    yield from _note_broken(facts, samples, frames, stacks)
    has_python = frames.get_column("layer").eq("python").any()
    names = [name or "" for name, _ in found.threads.values()]
    if not has_python and any(name.startswith(("python", "pt_main")) for name in names):
        text = (
            "Python functions are not named: its interpreter has no perf support, which 3.12 and "
            "newer have (-X perf, PYTHONPERFSUPPORT=1)"
        )
        remedy = "Python stacks:  sightline run --cpu-stacks py-spy -- PROGRAM"
        yield Quality("no_python_frames", "info", text, None, remedy)
    if (cost := _tell_cost(facts)) is not None:
        yield Quality("overhead", "info", cost)


def _note_broken(
    facts: dict[str, Any], samples: pl.DataFrame, frames: pl.DataFrame, stacks: pl.DataFrame
) -> Iterator[Quality]:
    """Stacks that do not reach the beginning of their thread."""
    size = facts.get("stack_bytes")
    if not is_count(size) or not size:
        lost = samples.height - _count_whole(samples, frames, stacks)
        why = "code without frame pointers lies in between"
        remedy = "Build with -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer"
    else:
        cut, lost = samples.select(pl.col("is_cut").sum(), pl.col("is_lost").sum()).row(0)
        if 100 * cut >= samples.height:
            text = (
                f"{format_pct(100 * cut / samples.height)} of the stacks are deeper than the "
                f"{format_bytes(size)} that were copied of each: their outermost callers are "
                "missing"
            )
            remedy = "Copy more:  sightline run --cpu-stack-bytes 61440 -- PROGRAM"
            yield Quality("stacks_cut", "info", text, None, remedy)
        why = "some of their code cannot be unwound (no call frame information)"
        remedy = None
    if 100 * lost >= samples.height:
        share = format_pct(100 * lost / samples.height)
        text = f"{share} of the stacks do not reach their thread's beginning: {why}"
        yield Quality("broken_stacks", "info", text, None, remedy)


def _count_whole(samples: pl.DataFrame, frames: pl.DataFrame, stacks: pl.DataFrame) -> int:
    """Samples whose outermost frame is where threads begin, or in the kernel."""
    begins = frames.filter(
        pl.col("function").is_in(_BEGINNINGS)
        | (pl.col("layer") == "os")
        | pl.col("module")
        .str.split("/")
        .list.last()
        .str.contains(f"^(?:{'|'.join(_FIRST_MODULES)})")
    )
    roots = stacks.filter(pl.col("parent_id").is_null()).select(
        "stack_id", whole=pl.col("frame_id").is_in(begins.get_column("frame_id").implode())
    )
    reached = roots.filter("whole").select("stack_id")
    level, count = reached, 0
    while level.height:
        count += samples.join(level, on="stack_id", how="semi").height
        level = stacks.join(level.rename({"stack_id": "parent_id"}), on="parent_id", how="semi")
        level = level.select("stack_id")
    return count


def _tell_cost(facts: dict[str, Any]) -> str | None:
    """What sampling took of the program's CPU time, and of sightline's own."""
    keys = ("cpu_time_ns", "samples", "period_ns", "own_cpu_ns")
    numbers: list[int] = [facts[key] for key in keys if is_count(facts.get(key))]
    if len(numbers) < len(keys):
        return None
    spent, count, period, own = numbers
    text = (
        f"{format_several(count, 'sample')} of {format_ns(period)} stand for "
        f"{format_ns(count * period)} of the {format_ns(spent)} of CPU time that the kernel counted"
    )
    cost = facts.get("sample_cost_ns")
    if isinstance(cost, int) and is_count(cost) and spent:
        share = format_pct(100 * cost * count / spent)
        text += f"; each took {format_ns(cost)}, {share} of the program's time"
    return f"{text}; sightline's own thread took {format_ns(own)}"
