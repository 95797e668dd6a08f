"""What NCCL's RAS answers (ncclras, or the port 28028): how far each rank of a job has come.

JSON since NCCL 2.28, with every rank; text before that, which names the ranks that differ, and of
the others says how many they are. The format of the text: src/ras/client_support.cc of NCCL. It is
a moment: ranks that differ by one operation may just be between two.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import polars as pl

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality, Recording
from sightline.core.model.source import Source
from sightline.core.model.tables import load_table
from sightline.core.text import replace_surrogates
from sightline.core.units import INT64_MAX
from sightline.errors import DamagedError
from sightline.formats._asked_names import AskedNames
from sightline.formats._samples import read_time
from sightline.formats._stacks import read_text

IMPORTER = Importer(
    name="nccl_ras",
    label="NCCL RAS status",
    strong=(
        rb"Job summary\s*\n\s*=+\s*\n\s*Nodes\s+Processes",
        rb'\A(?:OK\s+)*\{\s*"nccl_version"\s*:(?s:.{0,400}?)"communicators_count"\s*:',
    ),
    weak=(),
    looks_like="'Job summary' and 'Communicators', or JSON with 'communicators_count'",
    suffixes=(".txt", ".log", ".json"),
    version=5,
    source="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",
)

_COLUMNS = ("group", "group_size", "member", "state", "device_id", "pid", "op", "launched")
# Of a job of 10,000 GPUs each communicator is written once; more rows than this are damage.
_MOST_RANKS = 1 << 20
_IN_PROGRESS = 7  # ncclInProgress

_N = r"\d{1,18}"
_GROUP = re.compile(rf"^\s*({_N})\s+{_N}\s+\S+\s+\S+\s+({_N})\s+{_N}\s+([A-Z]\S*)\s+[A-Z]\S*\s*$")
_COMMUNICATOR = re.compile(rf"^\s*#({_N})-{_N} \((\w+)\)\s+[A-Z]+")
_DIFFERENT = re.compile(r"different (?:collective|(\w+)) operation counts")
_COUNT = rf"(?:launched up to operation ({_N})|not launched any)"
_SEVERAL = re.compile(rf"^\s*{_N} ranks have {_COUNT}")
_ONE = re.compile(rf"^\s*Rank {_N} has {_COUNT}")
_NAMED = re.compile(rf"^\s*Rank ({_N})\b")
_PROCESS = re.compile(rf"GPU ({_N}) managed by process ({_N})")
_MISSING = re.compile(r"missing ranks?: ([\d, -]+)")
_STATUS = re.compile(rf"^\s*(?:{_N} ranks? ha(?:s|ve)|Rank {_N} has) status (\w+)")
_VERSION = re.compile(r"NCCL version (\S+)")
# A comma that NCCL 2.28.9 leaves out between the members of a missing rank.
_NO_COMMA = re.compile(r'(["\d]|true|false)([ \t\r]{0,8}\n[ \t]{0,256}")(?=[^"\n]{0,256}"\s?:)')
_STATES = {"RUNNING": "running", "INIT": "initializing", "FINALIZE": "finalizing"}
_STATES |= {"ABORT": "aborting", "DESTROY": "finalizing"}


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all communicators. Raises DamagedError where there is none."""
    quality: list[Quality] = []
    text = read_text(source, quality)
    if text.lstrip().removeprefix("OK").lstrip().startswith(("{", "OK")):
        version, asked, rows = _read_json(text, source, quality)
    else:
        found = _VERSION.search(text)
        version, asked = found[1] if found else None, None
        rows = list(_read_text_rows(text, quality))
    if not rows:
        raise DamagedError(
            f"cannot read {source.given}",
            why="it names no single rank: the ranks of each communicator are all alike, or it "
            "ends too early",
            hint="Ask for every rank:  ncclras -f json   (NCCL 2.28), else  ncclras -v",
        )
    schema = {c.name: c.dtype for c in load_table("communicator_ranks").stored}
    kept = {name: schema[name] for name in _COLUMNS}
    frame = pl.DataFrame(rows, schema=kept, orient="row").with_columns(
        time_ns=pl.lit(asked, pl.Int64)
    )
    text = "a snapshot of a running job: ranks one operation apart may be between two operations"
    remedy = "Ask again after some seconds, and compare."
    quality.append(Quality("one_moment", "info", text, None, remedy))
    recording = Recording("NCCL RAS", version, clock_offset_ns=0, start_ns=asked, end_ns=asked)
    return Imported({"communicator_ranks": frame}, recording, quality)


_Rows = list[dict[str, Any]]


def _read_json(
    text: str, source: Source, quality: list[Quality]
) -> tuple[str | None, int | None, _Rows]:
    begin = max(text.find("{"), 0)
    mended = _NO_COMMA.sub(r"\1,\2", text[begin:])
    found: Any = None
    asked = AskedNames()
    for candidate in (text[begin:], mended):
        try:
            found = json.loads(candidate, object_pairs_hook=asked.hook)
            break
        except (ValueError, RecursionError) as error:
            reason = error
    if not isinstance(found, dict):
        raise DamagedError(f"cannot read {source.given}", why=f"it is not complete JSON ({reason})")
    rows: _Rows = []
    bad = 0
    for communicator in _list(found.get("communicators")):
        try:
            rows += _read_communicator(communicator)
        except (KeyError, TypeError, ValueError, AttributeError):
            bad += 1
        if len(rows) > _MOST_RANKS:
            raise DamagedError(f"cannot read {source.given}", why="it has too many ranks")
    if bad:
        quality.append(
            Quality("damaged_communicators", "warning", "communicators could not be read", bad)
        )
    told = found.get("timestamp")
    moment = read_time(told, "%Y-%m-%d %H:%M:%S") if isinstance(told, str) else None
    version = found.get("nccl_version")
    asked.note(quality)
    return (replace_surrogates(version) if isinstance(version, str) else None), moment, rows


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _read_communicator(told: dict[str, Any]) -> _Rows:
    """All of its ranks, those that are missing too."""
    shared = {
        "group": replace_surrogates(str(told["hash"])).removeprefix("0x"),
        "group_size": _take_number(told, "size"),
    }
    rows: _Rows = []
    for member in _list(told.get("ranks")):
        row = shared | _read_place(member) | {"state": _name_state(member.get("status") or {})}
        counts = member.get("collective_counts") or {}
        for op in sorted(counts):
            launched = _take_number(counts, op)
            rows.append(row | {"op": replace_surrogates(op), "launched": launched})
        if not counts:
            rows.append(row | {"op": None, "launched": None})
    for member in _list(told.get("missing_ranks")):
        status = member.get("status") or {}
        state = "dead" if status.get("considered_dead") else "missing"
        if state == "missing" and status.get("unresponsive"):
            state = "unresponsive"
        rows.append(shared | _read_place(member) | {"state": state, "op": None, "launched": None})
    return rows


def _read_place(member: dict[str, Any]) -> dict[str, Any]:
    number = _take_number(member, "rank")
    if number is None:
        raise ValueError("a rank without its number")
    return {
        "member": number,
        "device_id": _take_number(member, "cuda_dev"),
        "pid": _take_number(member, "pid"),
    }


def _take_number(told: dict[str, Any], name: str) -> int | None:
    value = told.get(name)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= INT64_MAX else None


def _name_state(status: dict[str, Any]) -> str:
    if status.get("abort_flag"):
        return "aborting"
    if status.get("async_error") not in (None, 0, _IN_PROGRESS):
        return "error"
    if status.get("init_state") == _IN_PROGRESS:
        return "initializing"
    if status.get("init_state") not in (None, 0):
        return "error"
    return "finalizing" if status.get("finalize_called") else "running"


def _read_text_rows(text: str, quality: list[Quality]) -> Iterator[dict[str, Any]]:
    """Ranks of the communicators that the text tells more of than their number."""
    sizes: dict[str, int] = {}
    states: dict[str, str] = {}
    for line in text.splitlines():
        if found := _GROUP.match(line):
            sizes[found[1]] = int(found[2])
            states[found[1]] = _STATES.get(found[3], "running")
    is_dead = re.search(r"^[ \t]*DEAD\b", text, re.MULTILINE) is not None
    total = 0
    for head, body in _split_communicators(text):
        size = sizes.get(head[1])
        if size is None or size > _MOST_RANKS or total > _MOST_RANKS:
            text_ = "communicators whose size is not told are left out"
            quality.append(Quality("damaged_communicators", "warning", text_, 1))
            continue
        rows = list(_read_block(head, body, size, states[head[1]], dead=is_dead))
        total += len(rows)
        yield from rows


def _split_communicators(text: str) -> Iterator[tuple[re.Match[str], list[str]]]:
    head: re.Match[str] | None = None
    body: list[str] = []
    for line in text.splitlines():
        found = _COMMUNICATOR.match(line)
        if found or not line.strip():
            if head is not None:
                yield head, body
            head, body = found, []
        elif head is not None:
            body.append(line)
    if head is not None:
        yield head, body


def _read_block(
    head: re.Match[str], body: list[str], size: int, state: str, *, dead: bool
) -> Iterator[dict[str, Any]]:
    """The ranks of one communicator: those that are named, and all others as the most are."""
    places: dict[int, tuple[int | None, int | None]] = {}
    named: dict[str | None, dict[int, int]] = {}
    crowds: dict[str | None, list[int]] = {}  # what those launched of whom nobody is named
    status: dict[int, str] = {}
    missing: list[int] = []
    op, launched, said = None, None, None
    for line in body:
        if found := _DIFFERENT.search(line):
            op, launched, said = found[1], None, None
            named.setdefault(op, {})
        elif found := _SEVERAL.match(line):
            launched, said = int(found[1] or 0), None
            crowds.setdefault(op, []).append(launched)
        elif found := _MISSING.search(line):
            missing += _read_numbers(found[1], size)
        elif found := _STATUS.match(line):
            said, launched = found[1], None
        if found := _NAMED.match(line):
            member = int(found[1])
            single = _ONE.match(line)
            count = int(single[1] or 0) if single else launched
            if member >= size:
                continue
            if count is not None:
                named.setdefault(op, {})[member] = count
                if not single and count in crowds.get(op, ()):
                    crowds[op].remove(count)
            elif said is not None:
                status[member] = _STATES.get(said, "finalizing")
            process = _PROCESS.search(line)
            places[member] = (int(process[1]), int(process[2])) if process else (None, None)
    gone = dict.fromkeys(missing, "dead" if dead else "missing")
    for kind in named or {None: {}}:
        for member in range(size):
            count = named.get(kind, {}).get(member)
            # Of two crowds nobody knows who is in which.
            if count is None and len(crowds.get(kind, ())) == 1 and member not in gone:
                count = crowds[kind][0]
            device, pid = places.get(member, (None, None))
            yield {
                "group": head[2],
                "group_size": size,
                "member": member,
                "state": gone.get(member, status.get(member, state)),
                "device_id": device,
                "pid": pid,
                "op": kind,
                "launched": count,
            }


def _read_numbers(text: str, size: int) -> list[int]:
    """Ranks of a list such as '1, 4-6'."""
    found: list[int] = []
    for first, last in re.findall(r"(\d{1,9})(?:-(\d{1,9}))?", text):
        found += range(int(first), min(int(last or first), size - 1) + 1)
    return [number for number in found if number < size]
