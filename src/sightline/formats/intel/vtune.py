"""Intel VTune's tables: hotspots by function, call trees, hardware events, the GPU's kernels.

`vtune -report hotspots|top-down|hw-events -format csv`, and hotspots with `-group-by
computing-task`, which is what gpu-offload and gpu-hotspots show; also what the GUI copies, whose
times have units. Columns: Intel's user guide, "hotspots Report", and programs that read these
tables. No GPU result of a real program was to be had: its columns are those that others name.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import MAX_DEPTH, Frame, StackTrie
from sightline.core.redaction import redact_frame
from sightline.errors import DamagedError
from sightline.formats._ncu import make_frame
from sightline.formats._stacks import finish_import, note_bad_lines, read_text

_FIRST = rb"(?:Function(?: Stack)?|Computing Task)"
IMPORTER = Importer(
    name="vtune",
    label="Intel VTune report (CSV)",
    strong=(
        rb"(?:\A|\n)(?:\xef\xbb\xbf)?\"?" + _FIRST + rb"\"?[\t,;^|][^\n]*\"?"
        rb"(?:CPU Time|Clockticks|Hardware Event Count|Computing Task: ?Total Time)\b",
    ),
    weak=(),
    looks_like="a table with the columns Function and CPU Time, or Computing Task: Total Time",
    suffixes=(".csv", ".tsv", ".txt"),
    version=6,
    source="https://www.intel.com/content/www/us/en/docs/vtune-profiler/user-guide/current/"
    "hotspots-report.html",
)

_HEAD = re.compile(r'^"?(Function Stack|Function|Computing Task)"?([\t,;^|])')
_TIME = re.compile(r"^([\d,]*\d(?:\.\d+)?(?:[eE][-+]?\d{1,2})?) ?(s|ms|us|µs|ns)?$")
_NS = {None: 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "µs": 10**3, "ns": 1}
_NUMBER = re.compile(r"^([\d,]*\d(?:\.\d+)?(?:[eE][-+]?\d{1,2})?) ?(%?)$")
_CYCLES = "Hardware Event Count:CPU_CLK_UNHALTED.THREAD"
# VTune's word for what it does not know, and for GPU time that belongs to no kernel.
_UNKNOWN, _NO_TASK = "[Unknown]", "[Outside any task]"
_NO_VALUES = ("nan", "inf", "-inf", "-")  # which VTune never writes: it leaves cells empty
_NO_NUMBER = ("N/A", _UNKNOWN)
# A number of which one character became another.
_BROKEN = re.compile(r"[\d.,]*[^\d\s.,][\d.,]+%?|[\d.,]+[^\d\s.,%][\d.,]*%?|[\d.,]+%?")
_TASK_TIME = "Computing Task:Total Time"
_COUNT = "Computing Task:Instance Count"
_SIZES = ("Work Size:Global", "Work Size:Local")
Weight = tuple[int | None, str, int, str]


class _Table(NamedTuple):
    kind: str
    columns: list[str]
    rows: list[list[str]]
    bad: int


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all rows of the first table. Raises DamagedError where none has a time or a count."""
    quality: list[Quality] = []
    table = _read_table(read_text(source, quality), source)
    trie = StackTrie()
    weights = list(_weigh_rows(table, trie, keep_identity=options.keep_identity))
    quality += note_bad_lines(table.bad, "rows with a cell for each column")
    imported = finish_import(source, trie, weights, quality, "VTune")
    if table.kind == "Computing Task":
        imported.quality += note_bad_lines(_count_odd(table), "rows of numbers")
        imported.tables |= _list_kernels(table)
        said = "VTune added up each kernel's launches: a kernel's time is their sum"
        imported.quality.append(Quality("kernels_added_up", "info", said))
    return imported


def _read_table(text: str, source: Source) -> _Table:
    """The first table: VTune may print warnings before it."""
    lines = text.splitlines()
    at = next((n for n, line in enumerate(lines) if _HEAD.match(line)), None)
    found = None if at is None else _HEAD.match(lines[at])
    if at is None or found is None:
        raise DamagedError(f"cannot read {source.given}", why="it has no line that names columns")
    try:
        cells = list(csv.reader(lines[at:], delimiter=found[2]))
    except csv.Error as error:
        raise DamagedError(f"cannot read {source.given}", why=str(error)) from error
    # "CPU Time: Self" where the GUI writes it.
    columns = [re.sub(r":\s+", ":", name.strip()) for name in cells[0]]
    rows = [row for row in cells[1:] if any(cell.strip() for cell in row)]
    whole = [row for row in rows if len(row) == len(columns)]
    return _Table(found[1], columns, whole, len(rows) - len(whole))


def _weigh_rows(table: _Table, trie: StackTrie, *, keep_identity: bool) -> Iterator[Weight]:
    """What each row weighs by itself: time of CPU or GPU, and cycles."""
    place = {name: number for number, name in reversed(list(enumerate(table.columns)))}
    is_tree = table.kind == "Function Stack"
    own = "CPU Time:Self" if is_tree or "CPU Time" not in place else "CPU Time"
    times = {"gpu_time_ns": _TASK_TIME} if table.kind == "Computing Task" else {"cpu_time_ns": own}
    counts = [(name, 1000 if name.endswith(" (K)") else 1) for name in (_CYCLES, f"{_CYCLES} (K)")]
    above: list[tuple[int, int | None]] = []
    for row in table.rows:
        name = row[0].strip()
        if not name or name == _NO_TASK:
            continue
        indent = len(row[0]) - len(row[0].lstrip())
        while above and above[-1][0] >= indent:
            above.pop()
        if is_tree and name == "Total":
            continue
        frame = _describe(table.kind, name if keep_identity else redact_frame(name), row, place)
        node = trie.add_below(above[-1][1] if is_tree and above else None, frame)
        if is_tree and len(above) < MAX_DEPTH:
            above.append((indent, node))
        for metric, column in times.items():
            if column in place and (spent := _read_ns(row[place[column]])):
                yield node, metric, spent, "exact"
        for column, scale in counts:
            if column in place and (count := _read_decimal(row[place[column]])):
                yield node, "cycles", round(count * scale), "exact"


def _describe(kind: str, name: str, row: list[str], place: dict[str, int]) -> Frame:
    if kind == "Computing Task":
        return Frame("kernel", name)
    file, module = (
        row[place[column]].strip() if column in place else ""
        for column in ("Source File", "Module")
    )
    known = [None if text in ("", _UNKNOWN) else text for text in (file, module)]
    return Frame("native", name, known[0], None, known[1])


def _read_ns(text: str) -> int | None:
    """A time as VTune writes it, in seconds where it has no unit."""
    found = _TIME.match(text.strip())
    return round(Decimal(found[1].replace(",", "")) * _NS[found[2]]) if found else None


def _read_decimal(text: str) -> Decimal | None:
    found = _NUMBER.match(text.strip())
    try:
        return Decimal(found[1].replace(",", "")) if found else None
    except InvalidOperation:
        return None


def _count_odd(table: _Table) -> int:
    """How many rows have a cell that is not a number in a column of numbers."""
    rows = [row for row in table.rows if row[0].strip() not in ("", _NO_TASK)]
    odd = set()
    if _COUNT in table.columns:  # each task with a time ran some time
        odd |= {n for n, row in enumerate(rows) if not row[table.columns.index(_COUNT)].strip()}
    for number in range(1, len(table.columns)):
        texts = [row[number].strip() for row in rows]
        bad = [n for n, text in enumerate(texts) if text and not _is_number(text)]
        odd |= {n for n, text in enumerate(texts) if text.lower() in _NO_VALUES}
        if table.columns[number] in _SIZES:
            continue
        odd |= {n for n in bad if _BROKEN.fullmatch(texts[n])}
        if 2 * len(bad) <= sum(map(bool, texts)):
            odd |= {*bad}
    return len(odd)


def _is_number(text: str) -> bool:
    return _read_decimal(text) is not None or _read_ns(text) is not None or text in _NO_NUMBER


def _list_kernels(table: _Table) -> dict[str, pl.DataFrame]:
    """Tables `profiled_kernels`, a row for each of the table's, and `kernel_metrics`."""
    place = {name: number for number, name in reversed(list(enumerate(table.columns)))}
    kernels: list[dict[str, Any]] = []
    metrics: list[tuple[int, str, float, str | None]] = []
    seen = Counter[str]()
    for row in table.rows:
        name = row[0].strip()
        if not name or name == _NO_TASK:
            continue
        kernel = len(kernels)
        known = {name: row[number] for name, number in place.items()}
        kernels.append(
            {
                "kernel_id": kernel,
                "kind": "kernel",
                "name": name,
                "occurrence": seen[name],
                "device_id": 0,
                "duration_ns": _read_ns(known.get(_TASK_TIME, "")),
                **_list_shape(*(known.get(column, "") for column in _SIZES)),
            }
        )
        seen[name] += 1
        for column in table.columns[1:]:
            if column in (_TASK_TIME, *_SIZES) or (value := _read_decimal(known[column])) is None:
                continue
            is_share = "%" in column or known[column].strip().endswith("%")
            metrics.append((kernel, column, float(value), "%" if is_share else None))
    schema = {
        "kernel_id": pl.Int64, "metric": pl.String, "value": pl.Float64, "unit": pl.String,
    }  # fmt: skip
    frame = pl.DataFrame(metrics, schema=schema, orient="row")
    is_whole = (pl.col("value") == pl.col("value").round()) & (pl.col("value").abs() < 2.0**53)
    return {
        "profiled_kernels": make_frame("profiled_kernels", kernels),
        "kernel_metrics": frame.with_columns(
            value_int=pl.when(is_whole).then("value").cast(pl.Int64, strict=False)
        ),
        "devices": pl.DataFrame({"device_id": [0], "vendor": ["intel"]}),
    }


def _list_shape(whole: str, local: str) -> dict[str, int]:
    """grid_x … block_z of a global and a local size, `1024 x 64`; none where they do not fit."""
    sizes = [
        [int(n.replace(",", "")) for n in re.findall(r"[\d,]*\d", text[:100])]
        for text in (whole, local)
    ]
    if not sizes[0] or len(sizes[0]) != len(sizes[1]) or len(sizes[0]) > 3:
        return {}
    if any(n == 0 or n % k for n, k in zip(sizes[0], sizes[1], strict=True) if k) or 0 in sizes[1]:
        return {}
    if max(max(size) for size in sizes) >= 2**31:
        return {}
    pairs = zip("xyz", (sizes[0] + [1, 1])[:3], (sizes[1] + [1, 1])[:3], strict=True)
    shape: dict[str, int] = {}
    for axis, n, k in pairs:
        shape |= {f"grid_{axis}": n // k, f"block_{axis}": k}
    return shape
