"""The other lines: marks and activities of roctracer, fields of rocprofv2; ranges by marks."""

from __future__ import annotations

import re
from typing import Any

from sightline.formats import _rocm
from sightline.formats.amd.rocprof_legacy.spans import COPY, DIRECTIONS, Part

_NUMBER = r"(\d{1,19})"
# Copies as HSA's profiler sees them: without a device, and with a number of their own.
_ASYNC = re.compile(rf"^{_NUMBER}:{_NUMBER} (async-copy):\d{{1,19}}:(\d{{1,9}})$")
_MARK = re.compile(rf'^{_NUMBER} (\d{{1,9}}):(\d{{1,9}}) ([0-4]):{_NUMBER}:"(.*)"$')
_ACTIVITY = re.compile(
    rf"^\s*:(\w+)\s*: correlation_id\({_NUMBER}\) time_ns\({_NUMBER}:{_NUMBER}\)"
)
_FIELD = re.compile(r'(\w+)\((?:"(.*?)"|(.*?))\)(?:, |,?\s*$)')
# Of a record, though it is damaged or cut off: its times, or a field.
_LOOKS = re.compile(
    r"^\s*\d{9,}:\S|^[^<\t]*\d{9,}:\d{9,}|^\s*:\w+\s*: correlation|_Timestamp\(|\w+-copy:\d"
    r"|^[^<\t ]*:\d{9,} \d+:\d+ |^\d{9,} \d+:\d+ |^\d+ \d+:\d{9,} \d+:\d+ |^\d{9,}:$"
)
Row = dict[str, Any]


class Lines:
    """What was read so far."""

    def __init__(self) -> None:
        self.kernels: list[Row] = []  # the fields of a kernel, as rocprofv2 names them
        self._dispatches: list[Row] = []
        self._copies: list[Row] = []
        self._regions: list[Row] = []
        self.bad = 0
        self._open: dict[tuple[int | None, int | None], list[Row]] = {}
        self._started: dict[tuple[int | None, int], list[Row]] = {}
        self._last = 0

    def add(self, line: str) -> None:
        """A line of a text; what is not a record is the program's own output."""
        if line.startswith(("Domain(", "Dispatch_ID(", "Record(")):
            self._add_fields(line)
        elif line[:1].isdigit() and (found := _ASYNC.match(line)):
            times = {"start_ns": _whole(found[1]), "end_ns": _whole(found[2])}
            self._copies.append({**times, "name": found[3], "pid": int(found[4])})
        elif line[:1].isdigit() and (found := _MARK.match(line)):
            when, pid, tid, kind, number = (_whole(found[i]) for i in range(1, 6))
            self._mark(when, pid, tid, kind or 0, number, found[6])
        elif found := _ACTIVITY.match(line):
            times = {"start_ns": _whole(found[3]), "end_ns": _whole(found[4])}
            self._add_work(found[1], {**times, "correlation_id": _whole(found[2])})
        else:
            self.bad += bool(_LOOKS.search(line))

    def _add_work(self, name: str, known: Row) -> None:
        """A kernel, a copy or a call of the host: activities do not say on which device."""
        if re.search(COPY, name) and "(" not in name:
            self._copies.append({**known, "name": DIRECTIONS.get(name, name)})
        elif name.startswith(("hip", "hsa_", "__hip")):
            self._regions.append({**known, "category": _domain(name), "name": name})
        else:
            self._dispatches.append({**known, "name": name})

    def _add_fields(self, line: str) -> None:
        """A line of rocprofv2: fields with their values in brackets."""
        fields = {name: quoted or plain for name, quoted, plain in _FIELD.findall(line)}
        domain = fields.get("Domain", "")
        times = {
            "start_ns": _whole(fields.get("Start_Timestamp", "")),
            "end_ns": _whole(fields.get("End_Timestamp", "")),
            "correlation_id": _whole(fields.get("Correlation_ID", "")),
        }
        if "Dispatch_ID" in fields and "Begin_Timestamp" in fields:
            self.kernels.append(fields)
        elif domain == "ROCTX_DOMAIN":
            self._mark_v2(fields)
        elif "Function" in fields:
            self._regions.append({**times, "category": domain, "name": fields["Function"]})
        elif "Kernel_Name" in fields:
            self._dispatches.append({**times, "agent": 0, "name": fields["Kernel_Name"]})
        elif "Operation_Name" in fields:
            self._add_work(fields["Operation_Name"], times)
        else:
            self.bad += 1

    def _mark_v2(self, fields: dict[str, str]) -> None:
        """rocprofv2 writes no kinds: marks and ranges begin their messages so."""
        message, number = fields.get("ROCTX_Message"), _whole(fields.get("ROCTX_ID", ""))
        when = _whole(fields.get("Timestamp", ""))
        if message is None:
            kind = 4 if number else 2
        else:
            kind = 0 if message.startswith("ROCTX-MARK") else (3 if number else 1)
        plain = re.sub(r"^ROCTX-(?:MARK|RANGE): ", "", message or "")
        self._mark(when, None, None, kind, number, plain)

    def _mark(
        self,
        when: int | None,
        pid: int | None,
        tid: int | None,
        kind: int,
        number: int | None,
        message: str,
    ) -> None:
        """A roctx record: 0 mark, 1 push, 2 pop, 3 start and 4 stop of a numbered range."""
        if when is None:
            self.bad += 1
            return
        self._last = max(self._last, when)
        place = {"pid": pid, "tid": tid, "category": "ROCTX", "message": message, "start_ns": when}
        stack = self._open.setdefault((pid, tid), [])
        if kind == 0:
            self._regions.append({**place, "end_ns": when})
        elif kind == 1:
            stack.append(place)
        elif kind == 3:
            self._started.setdefault((pid, number or 0), []).append(place)
        else:
            # Older roctracers write 0 where a range starts, and its number where it stops.
            started = self._started.get((pid, number or 0)) or self._started.get((pid, 0))
            waiting = stack if kind == 2 else started
            opened = waiting.pop() if waiting else None
            if opened is None:
                self.bad += 1
            else:
                self._regions.append({**opened, "end_ns": when})

    def _close_ranges(self) -> None:
        """Ranges that nothing ended end with the last mark."""
        left = [place for stack in self._open.values() for place in stack]
        started = [place for places in self._started.values() for place in places]
        for place in (*left, *started):
            self._regions.append({**place, "end_ns": max(self._last, place["start_ns"])})

    def finish(self) -> Part:
        """All of it as the records that AMD's importers share; open ranges end with the last."""
        self._close_ranges()
        names = ("category", "name", "message")
        return Part(
            dispatches=_rocm.make_frame(self._dispatches, _rocm.DISPATCH, "name", "mangled_name"),
            copies=_rocm.make_frame(self._copies, _rocm.COPY, "name"),
            regions=_rocm.make_frame(self._regions, _rocm.REGION, *names),
            bad=self.bad,
        )


def _domain(call: str) -> str:
    return "HSA" if call.startswith("hsa_") else "HIP"


def _whole(text: Any) -> int | None:
    """A whole number that fits 64 bits."""
    if isinstance(text, int):
        return text if -(2**63) <= text < 2**63 else None
    plain = str(text).strip()
    return int(plain) if plain.isascii() and plain.isdecimal() and len(plain) < 19 else None
