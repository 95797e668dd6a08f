"""Output of `perf script`, and what else writes its form: FlameScope, iaprof's FlameScope output.

Format: Linux tools/perf/Documentation/perf-script.txt: a header per sample (command, pid/tid, CPU,
time, period, event), then its frames, leaf first, as address, symbol and binary.
"""

from __future__ import annotations

import re
from decimal import Decimal

import polars as pl

from sightline.core.cxx_names import demangle
from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.perf_text import BEGIN, END
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie, note_shortened
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._stacks import note_bad_lines, read_text

IMPORTER = Importer(
    name="perf_script",
    label="Linux perf script output",
    strong=(
        rb"(?:^|\n)\S[^\n]*?\s+[0-9]+(?:/[0-9]+)?\s+(?:\[[0-9]+\]\s+)?[0-9]+\.[0-9]+:\s[^\n]*\n"
        rb"\s+[0-9a-f]+ ",
    ),
    weak=(rb"^# ========\n# captured on",),
    looks_like="a line 'command pid [cpu] time: event:' followed by indented frames",
    suffixes=(".perf.txt", ".linux-perf.txt", ".perf-script"),
    version=5,
    source="https://man7.org/linux/man-pages/man1/perf-script.1.html",
)

_HEADER = re.compile(
    r"^(?P<comm>\S.*?)\s+(?P<pid>\d{1,10})(?:/(?P<tid>\d{1,10}))?\s+(?:\[(?P<cpu>\d{1,6})\]\s+)?"
    r"(?P<time>\d{1,12}\.\d{1,9}):\s+(?:(?P<period>\d{1,18})\s+)?(?P<event>[^\s:][^:]*(?::[\w]+)*):?"
)
_FRAME = re.compile(r"^\s+([0-9a-fA-F]+)\s+(.*?)(?:\s+\((.*)\))?\s*$")
_OFFSET = re.compile(r"\+0x[0-9a-f]+$")
# A module of the operating system stands there as its bare name in brackets.
_KERNEL_MODULE = re.compile(
    r"^\[(?:kernel|guest\.kernel)|\.ko(?:\.\w+)?$|vmlinux"
    r"|^\[(?!unknown|vdso|vsyscall|heap|stack|anon)\w+\]$"
)
# The period of these events is in ns (perf_event_open(2): cpu-clock and task-clock).
_CLOCK = re.compile(r"^(?:cpu|task)-clock")


# Later than 73 years after the clock's beginning is damage: sums of such moments would not fit.
_LATEST_NS = INT64_MAX // 4
_Sample = tuple[int, int, int, int | None, int | None, int | None]


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all samples. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    trie = StackTrie()
    rows: list[_Sample] = []
    names: dict[tuple[int, int], str] = {}
    header: re.Match[str] | None = None
    frames: list[Frame] = []
    bad = 0
    whole = read_text(source, quality)
    quality += _note_end(whole)
    for line in [*whole.split("\n"), ""]:
        text = line.rstrip("\r")
        if header is not None and not text.strip():
            rows.append(_sample(header, trie.add(reversed(frames)), names))
            header, frames = None, []
        elif text[:1] in (" ", "\t") and header is not None:
            found = _FRAME.match(text)
            if found is None:
                bad += 1
            else:
                frames.append(_frame(found[1], found[2], found[3] or ""))
        elif text.strip() and not text.startswith("#"):
            started = _HEADER.match(text)
            if started is None or _read_time(started) > _LATEST_NS:
                bad += 1
                continue
            if header is not None:
                rows.append(_sample(header, trie.add(reversed(frames)), names))
            bad += "\t" in text  # a frame stands behind it: its line does not end
            header, frames = started, []
    if not rows:
        raise DamagedError(f"cannot read {source.given}", why="there is no sample in it")
    quality += note_bad_lines(bad, "part of a sample") + note_shortened(trie)
    columns = ("time_ns", "pid", "tid", "stack_id", "weight_ns", "cpu")
    samples = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.Int64), orient="row")
    threads = pl.DataFrame(
        [(pid, tid, name) for (pid, tid), name in sorted(names.items())],
        schema={"pid": pl.Int64, "tid": pl.Int64, "process_name": pl.String},
        orient="row",
    )
    tables = {
        **trie.tables(),
        "cpu_samples": samples.with_columns(on_cpu=pl.lit(value=True)),
        "threads": threads,
    }
    return Imported(tables, Recording(tool="perf", clock_offset_ns=0), quality)


def _note_end(text: str) -> list[Quality]:
    """Whether the text ends where perf ended it: behind a sample's frames stands an empty line."""
    kept = text.replace("\r", "")
    whole = kept.rstrip("\n").endswith(END)
    if not kept.startswith(BEGIN):
        last = kept.rstrip("\n").rpartition("\n")[2]
        whole = kept.endswith("\n\n") or (not last.startswith((" ", "\t")) and kept.endswith("\n"))
    if whole:
        return []
    return [Quality("truncated", "error", "samples are missing: the text ends in the middle")]


def _sample(header: re.Match[str], stack: int | None, names: dict[tuple[int, int], str]) -> _Sample:
    pid = int(header["pid"])
    tid = int(header["tid"] or header["pid"])
    names.setdefault((pid, tid), header["comm"])
    period = header["period"]
    is_clock = period is not None and _CLOCK.match(header["event"]) is not None
    cpu = None if header["cpu"] is None else int(header["cpu"])
    return _read_time(header), pid, tid, stack, int(period) if is_clock else None, cpu


def _read_time(header: re.Match[str]) -> int:
    """When the sample was taken, in ns of perf's clock."""
    return int(Decimal(header["time"]) * 10**9)


def _frame(address: str, symbol: str, module: str) -> Frame:
    layer = "os" if _KERNEL_MODULE.search(module) else "native"
    name = _OFFSET.sub("", symbol)
    if name in ("", "[unknown]"):
        # The binary says more than nothing; an address differs in every run.
        short = module.rsplit("/", 1)[-1]
        name = f"[{short.strip('[]')}]" if short and short != "[unknown]" else "[unknown]"
    return Frame(layer, demangle(name), None, None, module or None)
