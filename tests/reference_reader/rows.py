"""Sorts events into plain rows, one list per kind. All that is done per event is done here."""

from __future__ import annotations

import json
import re
import zlib
from collections import Counter
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Any

INT64_MAX = 2**63 - 1
_DECIMAL = re.compile(r"-?[0-9]{1,18}")

# Category names of Kineto's ActivityType (libkineto/src/ActivityType.cpp) and of the 2021 releases.
DEVICE_KINDS = {
    "kernel": "kernel",
    "concurrent_kernel": "kernel",
    "gpu_memcpy": "memcpy",
    "memcpy": "memcpy",
    "gpu_memset": "memset",
    "memset": "memset",
    "mtia_ccp_events": "kernel",
    "hpu_op": "kernel",
}
HOST_LAYERS = {
    "cpu_op": "op",
    "operator": "op",
    "collective_comm": "op",
    "user_annotation": "annotation",
    "python_function": "python",
    "cuda_runtime": "runtime",
    "runtime": "runtime",
    "mtia_runtime": "runtime",
    "xpu_runtime": "runtime",
    "glow_runtime": "runtime",
    "privateuse1_runtime": "runtime",
    "cuda_driver": "driver",
    "xpu_driver": "driver",
    "privateuse1_driver": "driver",
    "overhead": "overhead",
}


def _is_known_work(name: object) -> bool:
    """MTIA's waits, and its merges, of which nobody says what they do."""
    return isinstance(name, str) and not re.search(r"wait|merge", name, re.IGNORECASE)


# The releases of 2021 write steps as operators.
_STEP = {
    "annotation": re.compile(r"(?:ProfilerStep|Iteration)[#\s]*\d+"),
    "op": re.compile(r"ProfilerStep#\d+"),
}

HOST_COLUMNS = (
    "pid", "tid", "layer", "name", "start_ns", "end_ns", "correlation_id", "sequence_id",
    "forward_tid", "input_shapes", "input_types", "input_strides", "input_values", "stack",
    "python_id", "python_parent_id", "module_id", "external_id",
)  # fmt: skip
DEVICE_COLUMNS = (
    "pid", "tid", "device_id", "context_id", "stream_id", "kind", "name", "start_ns", "end_ns",
    "correlation_id", "external_id", "grid_x", "grid_y", "grid_z", "block_x", "block_y",
    "block_z", "registers_per_thread", "shared_bytes", "bytes", "copy_kind", "src_kind",
    "dst_kind", "graph_id", "graph_node_id",
)  # fmt: skip
RANGE_COLUMNS = ("device_id", "stream_id", "name", "start_ns", "end_ns")
SYNC_COLUMNS = (
    "kind",
    "device_id",
    "stream_id",
    "event_id",
    "wait_on_stream_id",
    "correlation_id",
    "recorded_by_correlation_id",
    "start_ns",
    "end_ns",
)
COLLECTIVE_COLUMNS = (
    "row",
    "op",
    "group",
    "group_description",
    "group_size",
    "group_ranks",
    "sequence",
    "dtype",
    "elements_in",
    "elements_out",
    "peer",
)
MEMORY_COLUMNS = (
    "time_ns",
    "device_id",
    "action",
    "address",
    "bytes",
    "allocated_bytes",
    "reserved_bytes",
    "pid",
    "tid",
)
COUNTER_COLUMNS = ("metric", "device_id", "time_ns", "value")
FLOW_COLUMNS = ("kind", "flow_id", "pid", "tid", "time_ns", "is_start")

_COPY_NAME = re.compile(r"(HtoD|DtoH|DtoD|HtoH|PtoP|AtoH|HtoA|AtoD|DtoA)", re.IGNORECASE)
_COPY_WORDS = re.compile(r"(Host|Device)To(Host|Device)")
_MEMORY_KINDS = re.compile(r"\((\w+) -> (\w+)\)")


@dataclass
class Rows:
    """All rows of a file, with times relative to the file's own base."""

    host: list[tuple[Any, ...] | None] = field(default_factory=list)
    device: list[tuple[Any, ...]] = field(default_factory=list)
    ranges: list[tuple[Any, ...]] = field(default_factory=list)
    syncs: list[tuple[Any, ...]] = field(default_factory=list)
    device_collectives: list[tuple[Any, ...]] = field(default_factory=list)
    host_collectives: list[tuple[Any, ...]] = field(default_factory=list)
    memory: list[tuple[Any, ...]] = field(default_factory=list)
    counters: list[tuple[Any, ...]] = field(default_factory=list)
    flows: list[tuple[Any, ...]] = field(default_factory=list)
    process_names: dict[int, str] = field(default_factory=dict)
    thread_names: dict[tuple[int, int], str] = field(default_factory=dict)
    span: tuple[int, int] | None = None
    events: int = 0
    not_events: int = 0
    negative_durations: int = 0
    unknown_categories: Counter[str] = field(default_factory=Counter)
    unmatched_begins: int = 0
    _open: dict[tuple[int, int], list[tuple[dict[str, Any], int]]] = field(default_factory=dict)

    def add(self, event: Any) -> None:
        """Sort one event in; what is not an event of a trace is counted."""
        if not isinstance(event, dict):
            self.not_events += 1
            return
        phase = event.get("ph")
        self.events += 1
        if phase == "X":
            self._complete(event)
        elif phase in ("s", "f", "t"):
            self._flow(event, phase)
        elif phase == "i" or phase == "I":
            self._instant(event)
        elif phase == "M":
            self._metadata(event)
        elif phase == "C":
            self._counter(event)
        elif phase == "B" or phase == "E":
            self._begin_or_end(event, phase)
        elif not isinstance(phase, str):
            self.events -= 1
            self.not_events += 1

    def _complete(self, event: dict[str, Any]) -> None:
        start = _ns(event.get("ts"))
        length = _ns(event.get("dur", 0))
        if start is None or length is None or start + length > INT64_MAX:
            self.not_events += 1
            return
        if length < 0:
            self.negative_durations += 1
            return
        end = start + length
        category = event.get("cat")
        category = _clean(category.lower()) if isinstance(category, str) else ""
        args = event.get("args")
        if not isinstance(args, dict):
            args = {}
        if category in DEVICE_KINDS:
            kind = DEVICE_KINDS[category]
            if category == "mtia_ccp_events" and not _is_known_work(event.get("name")):
                kind = "other"
            self._device(event, args, kind, start, end)
        elif category in HOST_LAYERS:
            self._host(event, args, HOST_LAYERS[category], start, end)
        elif category == "gpu_user_annotation":
            self.ranges.append(
                (_id(event.get("pid")), _id(event.get("tid")), _text(event.get("name")), start, end)
            )
        elif category == "cuda_sync":
            self._sync(args, start, end)
        elif category == "trace":
            self.span = (start, end)
        else:
            self.unknown_categories[category or "(none)"] += 1
            self._host(event, args, "other", start, end)

    def _device(
        self, event: dict[str, Any], args: dict[str, Any], kind: str, start: int, end: int
    ) -> None:
        pid, tid = _id(event.get("pid")), _id(event.get("tid"))
        name = _text(event.get("name"))
        device = _int(args.get("device"))
        stream = _int(args.get("stream"))
        grid, block = _triple(args.get("grid")), _triple(args.get("block"))
        copy_kind, src, dst = _copy(name, args) if kind == "memcpy" else (None, None, None)
        if "Collective name" in args:
            self.device_collectives.append((len(self.device), *_collective(args)))
        self.device.append(
            (
                pid,
                tid,
                pid if device is None else device,
                _int(args.get("context")),
                tid if stream is None else stream,
                kind,
                name,
                start,
                end,
                _int(args.get("correlation")),
                _int(args.get("External id", args.get("external id"))),
                *grid,
                *block,
                _int(args.get("registers per thread")),
                _int(args.get("shared memory")),
                _int(args.get("bytes")),
                copy_kind,
                src,
                dst,
                _int(args.get("graph id")),
                _int(args.get("graph node id")),
            )
        )

    def _host(
        self,
        event: dict[str, Any],
        args: dict[str, Any],
        layer: str,
        start: int,
        end: int,
        place: int | None = None,
    ) -> None:
        if place is None:
            place = len(self.host)
            self.host.append(None)
        name = _text(event.get("name"))
        if layer in _STEP and _STEP[layer].match(name):
            layer = "step"
        pid, tid = _id(event.get("pid")), _id(event.get("tid"))
        if not args:
            self.host[place] = (pid, tid, layer, name, start, end, *(None,) * 12)
            return
        if "Collective name" in args:
            self.host_collectives.append((place, *_collective(args)))
        self.host[place] = (
            pid,
            tid,
            layer,
            name,
            start,
            end,
            _int(args.get("correlation")),
            _int(args.get("Sequence number")),
            _int(args.get("Fwd thread id")),
            _json(args.get("Input Dims", args.get("Input dims"))),
            _json(args.get("Input type")),
            _json(args.get("Input Strides")),
            _json(args.get("Concrete Inputs")),
            _text_or_none(args.get("Call stack")),
            _int(args.get("Python id")),
            _int(args.get("Python parent id")),
            _text_or_none(args.get("Python module id")),
            _int(args.get("External id", args.get("external id"))),
        )

    def _sync(self, args: dict[str, Any], start: int, end: int) -> None:
        kind = {
            "Stream Sync": "stream",
            "Stream Wait Event": "stream_wait_event",
            "Event Sync": "event",
            "Context Sync": "context",
        }.get(str(args.get("cuda_sync_kind")), "other")
        self.syncs.append(
            (
                kind,
                _int(args.get("device")),
                _int(args.get("stream")),
                _int(args.get("wait_on_cuda_event_id")),
                _int(args.get("wait_on_stream")),
                _int(args.get("correlation")),
                _int(args.get("wait_on_cuda_event_record_corr_id")),
                start,
                end,
            )
        )

    def _instant(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        time = _ns(event.get("ts"))
        if event.get("name") != "[memory]" or not isinstance(args, dict) or time is None:
            return
        change = _int(args.get("Bytes"))
        if change is None:
            return
        # Device Type is c10::DeviceType, where 0 is the CPU.
        on_host = _int(args.get("Device Type")) == 0
        self.memory.append(
            (
                time,
                None if on_host else _int(args.get("Device Id")),
                "free" if change < 0 else "alloc",
                _int(args.get("Addr")),
                abs(change),
                _int(args.get("Total Allocated")),
                _int(args.get("Total Reserved")),
                _id(event.get("pid")),
                _id(event.get("tid")),
            )
        )

    def _counter(self, event: dict[str, Any]) -> None:
        args = event.get("args")
        time = _ns(event.get("ts"))
        if not isinstance(args, dict) or time is None:
            return
        for series, value in args.items():
            number = _float(value)
            if number is not None:
                name = f"{_text(event.get('name'))}: {_clean(series)}"
                self.counters.append((name, _id(event.get("pid")), time, number))

    def _flow(self, event: dict[str, Any], phase: str) -> None:
        flow, time = _id(event.get("id")), _ns(event.get("ts"))
        if flow is not None and time is not None and phase != "t":
            kind = "fwdbwd" if event.get("cat") == "fwdbwd" else "launch"
            self.flows.append(
                (kind, flow, _id(event.get("pid")), _id(event.get("tid")), time, phase == "s")
            )

    def _metadata(self, event: dict[str, Any]) -> None:
        args, pid = event.get("args"), _id(event.get("pid"))
        if not isinstance(args, dict) or pid is None:
            return
        name = args.get("name")
        if event.get("name") == "process_name" and isinstance(name, str):
            self.process_names[pid] = _clean(name)
        elif event.get("name") == "thread_name" and isinstance(name, str):
            tid = _id(event.get("tid"))
            if tid is not None:
                self.thread_names[pid, tid] = _clean(name)

    def _begin_or_end(self, event: dict[str, Any], phase: str) -> None:
        """'B' and 'E' pairs of plain Chrome traces, as one complete event."""
        key = (_id(event.get("pid")) or 0, _id(event.get("tid")) or 0)
        stack = self._open.setdefault(key, [])
        if phase == "B":
            # Ranges are numbered by their begins: of equal ranges the first begun is the outer.
            stack.append((event, len(self.host)))
            self.host.append(None)
            self.unmatched_begins += 1
        elif stack:
            self.unmatched_begins -= 1
            begin, place = stack.pop()
            start, end = _ns(begin.get("ts")), _ns(event.get("ts"))
            if start is not None and end is not None:
                args = begin.get("args")
                category = str(begin.get("cat", "")).lower()
                layer = HOST_LAYERS.get(category, "other")
                if end < start:
                    self.negative_durations += 1
                else:
                    args = args if isinstance(args, dict) else {}
                    self._host(begin, args, layer, start, end, place)
        else:
            self.unmatched_begins += 1


def _ns(value: Any) -> int | None:
    """Microseconds as nanoseconds, rounded half to even; None for what is no such number."""
    if type(value) is not int and not isinstance(value, str):
        return None
    try:
        with localcontext() as context:
            context.prec = len(str(value)) + 10  # nothing is rounded before the one rounding
            ns = int((Decimal(value) * 1000).to_integral_value(ROUND_HALF_EVEN))
    except (ArithmeticError, ValueError):
        return None
    return ns if abs(ns) <= INT64_MAX else None


def _int(value: Any) -> int | None:
    """An integer that fits int64, from an int or a decimal text; else None."""
    if type(value) is int:
        return value if abs(value) <= INT64_MAX else None
    return int(value) if isinstance(value, str) and _DECIMAL.fullmatch(value) else None


def _id(value: Any) -> int | None:
    """A process, thread or stream number; texts such as 'stream 7' give their number.

    A text without a number gets one made from its bytes, so that equal texts stay together.
    """
    number = _int(value)
    if number is not None or not isinstance(value, str):
        return number
    last = value.rsplit(" ", 1)[-1]
    return (
        int(last)
        if last.isdecimal() and len(last) < 19
        else zlib.crc32(value.encode("utf-8", "replace"))
    )


def _float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _text(value: Any) -> str:
    return _clean(value) if isinstance(value, str) else "" if value is None else str(value)


def _text_or_none(value: Any) -> str | None:
    return None if value is None else _text(value)


def _clean(value: str) -> str:
    """The text without lone surrogates, which no UTF-8 column can hold."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return value.encode("utf-8", "replace").decode()
    return value


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(_clean_all(value), separators=(",", ":"))


def _clean_all(value: Any) -> Any:
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {_clean(key): _clean_all(item) for key, item in value.items()}
    return [_clean_all(item) for item in value] if isinstance(value, list) else value


def _triple(value: Any) -> tuple[int | None, int | None, int | None]:
    if isinstance(value, list) and len(value) == 3:
        return _int(value[0]), _int(value[1]), _int(value[2])
    return None, None, None


def _copy(name: str, args: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Direction and memory kinds, from 'Memcpy HtoD (Pageable -> Device)' or AMD's kind text."""
    direction: str | None = None
    found = _COPY_NAME.search(name)
    if found is not None:
        text = found[1]
        direction = f"{text[0].upper()}to{text[-1].upper()}"
    else:
        words = _COPY_WORDS.search(f"{name} {args.get('kind', '')}")
        if words is not None:
            direction = f"{words[1][0]}to{words[2][0]}"
    kinds = _MEMORY_KINDS.search(name)
    if kinds is not None:
        return direction, kinds[1].lower(), kinds[2].lower()
    return direction, None, None


def _collective(args: dict[str, Any]) -> tuple[Any, ...]:
    ranks = args.get("Process Group Ranks")
    if isinstance(ranks, str):
        try:
            ranks = json.loads(ranks)
        except ValueError:
            ranks = None
    ranks = [_int(r) for r in ranks] if isinstance(ranks, list) else None
    op = _text(args.get("Collective name")).lower().strip("_").replace("_", "")
    return (
        op,
        _text_or_none(args.get("Process Group Name", args.get("Process Group ID"))),
        _text_or_none(args.get("Process Group Description")),
        _int(args.get("Group size")),
        ranks,
        _int(args.get("Seq", args.get("Collective seq"))),
        _text_or_none(args.get("dtype")),
        _int(args.get("In msg nelems")),
        _int(args.get("Out msg nelems")),
        _int(args.get("Src Rank", args.get("Dst Rank"))),
    )
