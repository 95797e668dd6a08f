"""The kernel's events as `perf script` prints them: scheduler, interrupts, disks, system calls.

Format: a line per event (tools/perf/Documentation/perf-script.txt): command, pid/tid, CPU, time,
event, and its fields as the event's own format says (/sys/kernel/tracing/events/*/*/format), or as
libtraceevent's plug-ins write them. `perf record -a -e 'sched:*'`, `perf sched record` and
`sightline run --for system` record them.
"""

from __future__ import annotations

import polars as pl

from sightline.core.algebra.nesting import nest_ranges
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.tables import load_table
from sightline.errors import DamagedError
from sightline.formats._pairs import close_pairs
from sightline.formats._stacks import note_bad_lines, read_text
from sightline.formats._text_damage import is_nearly, note_lines_of_blanks

IMPORTER = Importer(
    name="perf_trace",
    label="Linux perf trace of the kernel (perf script)",
    strong=(
        rb"(?:^|\n)[^\n#]*\s\[[0-9]+\]\s+[0-9]+\.[0-9]+:\s+sched:sched_\w+:\s[^\n]*\n"
        rb"(?!\s+[0-9a-f]{8,} )",
    ),
    weak=(),
    looks_like="lines 'command pid [cpu] time: sched:sched_switch: ...' without frames",
    suffixes=(".perf-trace.txt",),
    version=5,
    source="https://man7.org/linux/man-pages/man1/perf-script.1.html",
)

_LINE = (
    r"^\s*(?P<comm>.*?)\s+(?:(?P<pid>-?\d{1,10})/)?(?P<tid>-?\d{1,10})\s+\[(?P<cpu>\d{1,6})\]\s+"
    r"(?P<s>\d{1,9})\.(?P<fraction>\d{6,9}):\s+(?:\d+\s+)?(?P<event>[\w-]+:\w+):\s*(?P<rest>.*)$"
)
_SWITCH = (
    r"^prev_comm=(?P<prev_comm>.*?) prev_pid=(?P<prev>\d+) prev_prio=-?\d+"
    r" prev_state=(?P<state>\S+) ==> next_comm=(?P<next_comm>.*?) next_pid=(?P<next>\d+)"
)
_SWITCH_BY_PLUGIN = (
    r"^(?P<prev_comm>.*):(?P<prev>\d+) \[-?\d+\] (?P<state>\S+)"
    r" ==> (?P<next_comm>.*):(?P<next>\d+) \["
)
_WAKEUP = r"^comm=(?P<comm_>.*?) pid=(?P<woken>\d+) .*?target_cpu=(?P<target>\d+)"
_WAKEUP_BY_PLUGIN = r"^(?P<comm_>.*):(?P<woken>\d+) \[-?\d+\].*?CPU:(?P<target>\d+)"
_FORK = r"child_comm=(?P<comm_>.*?) child_pid=(?P<child>\d+)"
_REQUEST = (
    r"^(?P<major>\d+),(?P<minor>\d+) (?P<rwbs>\S+) (?:\d+ )?\(.*?\)"
    r" (?P<sector>\d+) \+ (?P<sectors>\d+)"
)
_AGAIN = r"\s\[\d{3}\]\s+\d+\.\d{6,9}: +\w+:\w+: "
_KINDS = ("sched_switch", "sched_waking", "sched_wakeup", "irq_handler_entry", "irq_handler_exit",
          "softirq_entry", "softirq_exit", "block_rq_issue", "block_rq_complete")  # fmt: skip
_WAKEUPS = ["sched_waking", "sched_wakeup", "sched_wakeup_new"]
_MINOR_BITS = 20  # include/linux/kdev_t.h
# block/blk-core.c, blk_fill_rwbs: what a request does is its first letter, after F for a flush.
_OPERATIONS = {"R": "read", "W": "write", "D": "discard", "F": "flush"}


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all events. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    whole = read_text(source, quality)
    quality += note_lines_of_blanks(whole)
    lines = [line for line in whole.split("\n") if line.strip()]
    text = pl.DataFrame({"line": [line for line in lines if not line.startswith("#")]})
    parsed = text.select(pl.col("line").str.extract_groups(_LINE)).unnest("line")
    events = _take_times(parsed.drop_nulls("event"))
    bad = text.height - events.height
    # Two lines in one, and kinds of events that are nearly those which are read.
    bad += events.filter(pl.col("rest").str.contains(_AGAIN)).height
    kinds = events.get_column("kind_").value_counts()
    bad += sum(n for kind, n in kinds.iter_rows() if any(is_nearly(kind or "", k) for k in _KINDS))
    quality += note_bad_lines(bad, "events")
    if events.is_empty():
        raise DamagedError(f"cannot read {source.given}", why="there is no event in it")
    switches = _list_switches(events)
    # Each has two sides: where its text has another form, both are missing.
    quality += note_bad_lines(
        _list_of_kind(events).height - switches.height // 2, "switch of a thread"
    )
    wakeups, woken_names = _list_wakeups(events)
    is_wakeup = pl.col("kind_").is_in(_WAKEUPS)
    unread = events.filter(is_wakeup).height - wakeups.height
    quality += note_bad_lines(unread, "wakeup of a thread")
    threads = _list_threads(events, switches, woken_names)
    tables = {
        "sched_events": _own(switches.filter(pl.col("tid") > 0), threads),
        "wakeups": wakeups,
        "interrupts": _close(
            _list_interrupts(events), ("cpu", "kind", "key"), "interrupts", quality
        ),
        "disk_requests": _close(
            _list_requests(events), ("device", "key"), "disk_requests", quality
        ),
        "host_ops": _list_calls(events, quality),
        "threads": threads,
    }
    kept = {name: _declare(name, frame) for name, frame in tables.items() if not frame.is_empty()}
    if not kept.keys() - {"threads"}:
        why = "none of its events is of the scheduler, an interrupt, a disk or a system call"
        raise DamagedError(f"cannot read {source.given}", why=why)
    recording = Recording(tool="perf", clock_offset_ns=0, of_host=True, layers=("os",))
    return Imported(kept, recording, quality)


def _take_times(parsed: pl.DataFrame) -> pl.DataFrame:
    """The events with numbers, in order of time: `time` in ns, `event` their place."""
    fraction = pl.col("fraction").str.pad_end(9, "0").cast(pl.Int64, strict=False)
    timed = parsed.with_columns(
        pl.col("pid", "tid", "cpu").cast(pl.Int64, strict=False),
        time=_read_number("s") * 1_000_000_000 + fraction,
        kind_=pl.col("event").str.splitn(":", 2).struct.field("field_1"),
    )
    timed = timed.sort("time", maintain_order=True).drop("event", "s", "fraction")
    return timed.with_columns(event=pl.int_range(pl.len(), dtype=pl.UInt64))


def _extract(events: pl.DataFrame, *patterns: str) -> pl.DataFrame:
    """The events that one of the patterns fits, with what its groups found."""
    parts = []
    for pattern in patterns:
        found = events.with_columns(pl.col("rest").str.extract_groups(pattern).alias("_")).unnest(
            "_"
        )
        fits = pl.any_horizontal(
            pl.col(name).is_not_null() for name in found.columns if name not in events.columns
        )
        parts.append(found.filter(fits))
    return pl.concat(parts, how="diagonal").sort("event")


def _list_of_kind(events: pl.DataFrame) -> pl.DataFrame:
    return events.filter(pl.col("kind_") == "sched_switch")


def _list_switches(events: pl.DataFrame) -> pl.DataFrame:
    """A thread that leaves a core, and the one that comes, of each switch; with their names."""
    found = _extract(_list_of_kind(events), _SWITCH, _SWITCH_BY_PLUGIN)
    leaves = found.select(
        "event", "cpu", time_ns="time", tid=_read_number("prev"), comm_="prev_comm",
        switched_in=pl.lit(value=False),
        # D|K and the like: the first is what it does.
        state=pl.col("state").str.extract(r"^(R\+|\w)"),
    )  # fmt: skip
    comes = found.select(
        "event", "cpu", time_ns="time", tid=_read_number("next"), comm_="next_comm",
        switched_in=pl.lit(value=True), state=pl.lit(None, pl.String),
    )  # fmt: skip
    return pl.concat([leaves, comes]).sort("event", "switched_in", maintain_order=True)


def _list_wakeups(events: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The table, and names of the threads that were woken or made."""
    found = _extract(events.filter(pl.col("kind_").is_in(_WAKEUPS)), _WAKEUP, _WAKEUP_BY_PLUGIN)
    made = _extract(events.filter(pl.col("kind_") == "sched_process_fork"), _FORK)
    names = pl.concat(
        [
            found.select("event", "comm_", tid=_read_number("woken")),
            made.select("event", "comm_", tid=_read_number("child")),
        ]
    )
    wakeups = found.select(
        "pid", "tid", "cpu", time_ns="time", woken_tid=_read_number("woken"),
        target_cpu=_read_number("target"), kind="kind_",
    )  # fmt: skip
    return wakeups, names


def _list_threads(
    events: pl.DataFrame, switches: pl.DataFrame, names: pl.DataFrame
) -> pl.DataFrame:
    """All threads: a process from the head of a line, the last name from anywhere."""
    heads = events.select("event", "pid", "tid", comm_="comm")
    every = pl.concat([heads, switches.select("event", "tid", "comm_"), names], how="diagonal")
    found = (
        every.filter(pl.col("tid") > 0)
        .sort("event", maintain_order=True)
        .group_by("tid", maintain_order=True)
        .agg(pl.col("pid").drop_nulls().last(), thread_name=pl.col("comm_").drop_nulls().last())
    )
    return found.with_columns(pid=pl.coalesce("pid", "tid")).sort("tid")


def _own(rows: pl.DataFrame, threads: pl.DataFrame) -> pl.DataFrame:
    return rows.join(threads.select("pid", "tid"), on="tid", how="left", maintain_order="left")


def _list_interrupts(events: pl.DataFrame) -> pl.DataFrame:
    rest = pl.col("rest")
    kind = pl.col("kind_").str.extract("^(irq|softirq|hrtimer)_")
    number = rest.str.extract(r"^(?:irq|vec)=(\d+)").cast(pl.Int64, strict=False)
    return (
        events.filter(
            pl.col("kind_").str.contains("^(?:irq_handler|softirq|hrtimer_expire)_(?:entry|exit)$")
        )
        .with_columns(
            side=_side(),
            kind=kind,
            number=number,
            key=rest.str.extract(r"^(\w+=\w+)"),
            name=pl.coalesce(
                rest.str.extract(r"\[action=(\w+)\]"), rest.str.extract(r" name=(\S+)"), kind
            ),
        )
        .drop("pid", "kind_", "rest", "comm")
    )


def _read_number(name: str) -> pl.Expr:
    """A column of digits as int64; null where they do not fit, such as the sector of a flush."""
    return pl.col(name).cast(pl.Int64, strict=False)


def _side() -> pl.Expr:
    is_begin = pl.col("kind_").str.contains("(?:_entry|_issue)$|^sys_enter_")
    return pl.when(is_begin).then(pl.lit("begin")).otherwise(pl.lit("end"))


def _list_requests(events: pl.DataFrame) -> pl.DataFrame:
    found = _extract(
        events.filter(pl.col("kind_").is_in(["block_rq_issue", "block_rq_complete"])), _REQUEST
    )
    letter = pl.col("rwbs").str.extract("^F?([RWD])")
    letter = pl.coalesce(letter, pl.col("rwbs").str.slice(0, 1))
    return found.select(
        "time", "event", "tid", "cpu",
        side=_side(),
        key="sector",
        device=_read_number("major") * 2**_MINOR_BITS + _read_number("minor"),
        sector=_read_number("sector"),
        sectors=_read_number("sectors"),
        operation=letter.replace_strict(_OPERATIONS, default=None, return_dtype=pl.String),
    )  # fmt: skip


def _list_calls(events: pl.DataFrame, quality: list[Quality]) -> pl.DataFrame:
    """System calls (`syscalls:sys_enter_NAME`), nested, with what they returned."""
    rest = pl.col("rest")
    digits = rest.str.extract("^0x([0-9a-f]{1,16})$").str.to_integer(
        base=16, strict=False, dtype=pl.UInt64
    )
    found = events.filter(pl.col("kind_").str.contains("^sys_(?:enter|exit)_")).select(
        "time", "event", "pid", "tid",
        side=_side(),
        layer=pl.lit("os"),
        name=pl.col("kind_").str.extract("^sys_(?:enter|exit)_(.*)$"),
        return_value=pl.when(_side() == "end").then(digits.reinterpret(signed=True)),
        # A futex's address tells one lock from another.
        payload=rest.str.extract(r"^uaddr: (0x[0-9a-f]+)"),
    )  # fmt: skip
    closed = _close(found, ("pid", "tid", "name"), "host_ops", quality, ("return_value",))
    return nest_ranges(closed) if closed.height else closed


def _close(
    pairs: pl.DataFrame,
    lane: tuple[str, ...],
    table: str,
    quality: list[Quality],
    from_end: tuple[str, ...] = (),
) -> pl.DataFrame:
    if pairs.is_empty():
        return pairs
    closed, notes = close_pairs(pairs, lane, table, from_end)
    quality += notes
    return closed.rename({"time": "start_ns"}).sort("start_ns", "event")


def _declare(table: str, frame: pl.DataFrame) -> pl.DataFrame:
    names = {column.name for column in load_table(table).stored}
    return frame.select(name for name in frame.columns if name in names)
