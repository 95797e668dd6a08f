"""Probes without BPF: samples of perf_event_open, one at each entry and return of a function.

Needs nothing but the kernel (perf_event_open(2), type /sys/bus/event_source/devices/uprobe). The
arguments are in the sample's registers, and in a piece of the stack; entries are paired with their
returns here. What BPF does better: a sample takes twice as long, what is behind a pointer is not
seen unless it lies in that piece of the stack, and whoever runs the probed code on a processor is
sampled, so that other programs that use the same file pay for it, too.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from sightline.core.model.probe_file import KINDS, NESTED, RECORD
from sightline.errors import RequestError
from sightline.record.probe import perf_event as e
from sightline.record.probe.backend import (
    BLOCK_SIZE,
    COPY_SIZE,
    GRID_SIZE,
    SUM,
    TOTALS,
    Name,
    Sites,
    Size,
)
from sightline.record.probe.functions import (
    CONFIG_DRIVER,
    CONFIG_RUNTIME,
    CONSTANT,
    GRID_BY_NUMBER,
    GRID_BY_VALUE,
    NO_FACTOR,
    NO_WORD,
    RETURNS_NOTHING,
    RETURNS_POINTER,
    Function,
)  # fmt: skip
from sightline.record.probe.processors import Processor, find_processor
from sightline.record.probe.targets import Site

Array = np.ndarray[Any, Any]

_UPROBES = Path("/sys/bus/event_source/devices/uprobe")
_LOST, _SAMPLE = 2, 9  # include/uapi/linux/perf_event.h: types of records
_RECORD_HEAD, _LOST_BODY = struct.Struct("<IHH"), struct.Struct("<QQ")
_RETURN_BIT = 0  # /sys/bus/event_source/devices/uprobe/format/retprobe: config:0
_STACK_BYTES = 40  # the return address, or what the caller left there, and four arguments
_CONFIG_STACK_BYTES = 1024  # a launch's configuration lies in its caller's frame, as a rule
_RING_BYTES = 16 << 20  # of each processor: 100,000 samples
_SMALL_RING_BYTES = 1 << 20


def _describe_sample(processor: Processor) -> np.dtype[Any]:
    """A sample up to its piece of the stack."""
    return np.dtype(
        [("type", "<u4"), ("misc", "<u2"), ("size", "<u2"), ("id", "<u8"), ("pid", "<u4"),
         ("tid", "<u4"), ("time", "<u8"), ("abi", "<u8"),
         ("registers", "<u8", (len(processor.sampled),)), ("stack_size", "<u8")]
    )  # fmt: skip


# What a sample says, entry or return.
_SEEN = np.dtype(
    [("pid", "<u4"), ("tid", "<u4"), ("function", "<u2"), ("is_return", "?"), ("time", "<u8"),
     ("result", "<i8"), ("words", "<u8", (5,)), ("text", "<u8")]
)  # fmt: skip


class Samples:
    """Sampling probes: a Backend."""

    name = "perf_event"

    def __init__(
        self, *, stacks: bool = False, sizes: bool = False, events: Path = _UPROBES
    ) -> None:
        """Prepare, where the folder `events` has what the kernel says of its probes.

        Raises RequestError where the kernel has no such probes.
        """
        processor = find_processor()
        if processor is None or not (events / "type").is_file():
            raise RequestError(
                "probes cannot be placed",
                why="this kernel has no perf events for uprobes, or is neither for x86-64 nor for "
                "AArch64",
                hint="It needs CONFIG_UPROBE_EVENTS and CONFIG_PERF_EVENTS (Linux 4.17 or newer).",
            )
        if stacks:
            raise RequestError(
                "perf_event probes take no call stacks",
                hint="With eBPF:  sightline probe --backend bpf --stacks",
            )
        self._processor = processor
        self._type = int((events / "type").read_text())
        self._counts_sizes = sizes
        self._functions: dict[int, Function] = {}
        self._placed: dict[tuple[tuple[str, int], int], int] = {}
        self._rings: dict[tuple[int, int], _Ring] = {}  # by processor and bytes of stack
        self._events: list[int] = []
        self._ids: dict[int, tuple[int, bool]] = {}  # the function, and whether it is its return
        self._pids: set[int] = set()
        self._waiting = np.zeros(0, _SEEN)  # entries whose return is to come, and what is too new
        self._totals: dict[tuple[int, int], Array] = {}
        self._kernels: dict[tuple[int, int], int] = {}
        self._sizes: dict[tuple[int, int, int], int] = {}
        self._names: list[Name] = []
        self._unpaired = 0
        self._counted: set[int] = set()
        self._sampled = 0  # samples that were read, of whatever process
        self._hits = 0  # what the events that are gone had counted
        e.raise_open_files()  # an event for each function, its return, and each processor

    # -- placing ---------------------------------------------------------------------------------

    def tell_function(self, number: int, function: Function) -> None:
        """Note what a function is."""
        self._functions[number] = function

    def attach(self, path: str, sites: Sites, pid: int) -> list[tuple[Site, OSError]]:
        """Sample entries and returns, of this process and whoever else calls the functions."""
        refused = []
        for site, number in sites:
            try:
                self._attach(path, site, number, pid)
            except OSError as error:
                refused.append((site, error))
        return refused

    def _attach(self, path: str, site: Site, number: int, pid: int) -> None:
        if site.function.kind == "name" and not site.function.flags & RETURNS_NOTHING:
            return  # what it returns lies behind a pointer
        self._pids.add(pid)
        key = (site.file, site.offset)
        if key in self._placed:
            return  # all processes that have the file are sampled, and others are left out later
        self._placed[key] = number
        stack = _STACK_BYTES
        if site.function.shape in (CONFIG_RUNTIME, CONFIG_DRIVER):
            stack = _CONFIG_STACK_BYTES
        for is_return in (True, False):
            for cpu in e.list_processors():
                event = self._open_event(path, site.offset, is_return, cpu, stack)
                self._events.append(event)
                self._ids[e.read_id(event)] = (number, is_return)
                ring = self._rings.get((cpu, stack))
                if ring is None:
                    size = _RING_BYTES if stack == _STACK_BYTES else _SMALL_RING_BYTES
                    self._rings[cpu, stack] = _Ring(event, size, stack, self._processor)
                else:
                    fcntl.ioctl(event, e.SET_OUTPUT, ring.event)
                fcntl.ioctl(event, e.ENABLE, 0)

    def _open_event(self, path: str, offset: int, is_return: bool, cpu: int, stack: int) -> int:
        text = ctypes.create_string_buffer(os.fsencode(path))
        attributes = e.Attributes(
            type=self._type,
            config=int(is_return) << _RETURN_BIT,
            period=1,
            sample_type=e.IDENTIFIER | e.TID | e.TIME | e.REGISTERS | e.STACK,
            flags=e.DISABLED | e.WATERMARK | e.USE_CLOCK,
            wakeup=_RING_BYTES,  # nobody sleeps until it is full: it is looked at all the time
            path=ctypes.addressof(text),
            offset=offset,
            registers=sum(1 << bit for bit in self._processor.sampled),
            stack=stack,
            clock=e.CLOCK_MONOTONIC,
        )
        return e.open_event(attributes, -1, cpu, path)

    # -- reading ---------------------------------------------------------------------------------

    def read_calls(self) -> Array:
        """The calls that returned since the last time, as RECORD."""
        until = time.monotonic_ns()  # what is newer may have its other half in a ring read before
        parts = [self._waiting]
        for ring in self._rings.values():
            parts += [self._decode(ring, samples) for samples in ring.take()]
        seen = np.concatenate(parts)
        is_new = seen["time"] >= until
        new, seen = seen[is_new], seen[~is_new]
        calls, still_open = self._pair(seen)
        self._waiting = np.concatenate([still_open, new])
        self._count(calls)
        return calls

    def _decode(self, ring: _Ring, samples: Array) -> Array:
        """Samples of the probed processes as _SEEN."""
        self._sampled += len(samples)
        samples = samples[np.isin(samples["head"]["pid"], list(self._pids))]
        found = np.zeros(len(samples), _SEEN)
        head = samples["head"]
        for name in ("pid", "tid", "time"):
            found[name] = head[name]
        for number in np.unique(head["id"]).tolist():
            function, is_return = self._ids[number]
            rows = head["id"] == number
            found["function"][rows], found["is_return"][rows] = function, is_return
            registers = head["registers"][rows]
            if is_return:
                # An enumeration: the upper half of the register may hold anything.
                result = registers[:, self._processor.result]
                found["result"][rows] = result.astype(np.uint32).view(np.int32)
            else:
                words, text = list_words(
                    self._functions[function], registers, samples["stack"][rows], self._processor
                )
                found["words"][rows], found["text"][rows] = words, text
            self._add(head["pid"][rows], function, "returned" if is_return else "entered")
        return found

    def _add(self, pids: Array, function: int, what: str, amounts: Array | None = None) -> None:
        for pid in np.unique(pids).tolist():
            sums = self._totals.setdefault((pid, function), np.zeros(len(TOTALS), np.int64))
            mine = pids == pid
            sums[TOTALS.index(what)] += mine.sum() if amounts is None else amounts[mine].sum()

    def _pair(self, seen: Array) -> tuple[Array, Array]:
        """Calls as RECORD, and entries without a return so far."""
        if not len(seen):
            return np.zeros(0, RECORD), seen
        order = np.lexsort((seen["time"], seen["function"], seen["tid"], seen["pid"]))
        seen = seen[order]
        same = np.ones(len(seen) - 1, bool)
        for name in ("pid", "tid", "function"):
            same &= seen[name][1:] == seen[name][:-1]
        # An entry and the return that is next on its thread; no such function calls itself.
        first = np.flatnonzero(same & ~seen["is_return"][:-1] & seen["is_return"][1:])
        last = np.ones(len(seen), bool)
        last[:-1] = ~same
        still_open = seen[last & ~seen["is_return"]]
        self._unpaired += len(seen) - 2 * len(first) - len(still_open)
        entries, returns = seen[first], seen[first + 1]
        calls = np.zeros(len(first), RECORD)
        for name in ("pid", "tid", "function", "words"):
            calls[name] = entries[name]
        calls["start"], calls["end"] = entries["time"], returns["time"]
        calls["result"], calls["stack"] = returns["result"], -1
        calls["flags"] = self._find_nested(calls, still_open)
        calls = calls[np.argsort(calls["end"], kind="stable")]
        self._take_names(entries)
        kinds = self._kinds()[calls["function"]]
        return calls[kinds != KINDS.index("name")], still_open

    def _kinds(self) -> Array:
        kinds = np.zeros(max(self._functions) + 1, np.int64)
        for number, function in self._functions.items():
            kinds[number] = function.kind_number
        return kinds

    def _find_nested(self, calls: Array, still_open: Array) -> Array:
        """NESTED for calls in one of their kind on the same thread, which may be open still."""
        starts = np.concatenate([calls["start"], still_open["time"]])
        ends = np.concatenate([calls["end"], np.full(len(still_open), 1 << 63, "<u8")])
        kinds = self._kinds()
        groups = [
            np.concatenate([calls[name], still_open[name]]) for name in ("pid", "tid", "function")
        ]
        groups[2] = kinds[groups[2]]
        order = np.lexsort((starts, groups[2], groups[1], groups[0]))
        begins = np.ones(len(order), bool)
        if len(order):
            keys = np.stack(groups)[:, order]
            begins[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        nested = np.zeros(len(order), np.uint16)
        reach = 0
        # Only where calls of a group overlap: elsewhere each starts after the one before has ended.
        overlaps = np.flatnonzero(~begins[1:] & (starts[order][1:] < ends[order][:-1])) + 1
        for place in overlaps.tolist():
            before, row = order[place - 1], order[place]
            if nested[before] and starts[row] >= ends[before]:
                continue
            nested[row] = NESTED
            reach = max(reach, int(ends[before]))
        return nested[: len(calls)]

    def _take_names(self, entries: Array) -> None:
        """Kernels that the program registered: the names are read from its memory."""
        for number, function in self._functions.items():
            if function.kind != "name":
                continue
            for row in entries[entries["function"] == number]:
                pid, other, text = int(row["pid"]), int(row["words"][1]), int(row["text"])
                self._names.append(Name(pid, number, 0, other, text, "", False))

    def _count(self, calls: Array) -> None:
        """What the eBPF programs count in the kernel."""
        outer = (calls["flags"] & NESTED) == 0
        for number in np.unique(calls["function"]).tolist():
            function = self._functions[number]
            mine = calls["function"] == number
            rows = calls[mine]
            if not function.flags & RETURNS_NOTHING:
                self._add(rows["pid"][rows["result"] != 0], number, "failed")
            self._add(rows["pid"], number, "duration_ns", rows["end"] - rows["start"])
            asked = rows[outer[mine]]
            place = {"copy": 2, "fill": 2, "allocate": 1}.get(function.kind)
            if place is not None:
                done = asked[asked["result"] == 0]
                self._add(done["pid"], number, "bytes", done["words"][:, place])
            if function.kind == "launch":
                self._count_launches(asked)
            if function.kind == "copy" and self._counts_sizes:
                for direction in np.unique(asked["words"][:, 3] & 7).tolist():
                    some = asked[asked["words"][:, 3] & 7 == direction]
                    self._count_sizes(some["pid"], COPY_SIZE + direction, some["words"][:, 2])

    def _count_launches(self, rows: Array) -> None:
        keys, counts = np.unique(
            np.stack([rows["pid"].astype("<u8"), rows["words"][:, 0]]), axis=1, return_counts=True
        )
        for (pid, handle), count in zip(keys.T.tolist(), counts.tolist(), strict=True):
            self._kernels[pid, handle] = self._kernels.get((pid, handle), 0) + count
        if self._counts_sizes:
            words, low = rows["words"], np.uint64(0xFFFFFFFF)
            grid = (words[:, 1] & low) * (words[:, 1] >> 32) * (words[:, 2] & low)
            block = (words[:, 3] & 0xFFFF) * (words[:, 3] >> 16 & 0xFFFF) * (words[:, 3] >> 32)
            self._count_sizes(rows["pid"], GRID_SIZE, grid)
            self._count_sizes(rows["pid"], BLOCK_SIZE, block)

    def _count_sizes(self, pids: Array, what: int, values: Array) -> None:
        # The exponent of value - 1: how many bits it has.
        buckets = np.frexp(np.maximum(values, 1).astype(np.float64) - 1)[1]
        for pid in np.unique(pids).tolist():
            mine = pids == pid
            for bucket, count in zip(*np.unique(buckets[mine], return_counts=True), strict=True):
                key = (pid, what, int(bucket))
                self._sizes[key] = self._sizes.get(key, 0) + int(count)
            key = (pid, what, SUM)
            self._sizes[key] = self._sizes.get(key, 0) + int(values[mine].sum())

    def read_names(self) -> Iterator[Name]:
        """Names of registered kernels; read_calls finds them."""
        names, self._names = self._names, []
        return iter(names)

    def read_totals(self) -> dict[tuple[int, int], dict[str, int]]:
        """By process and function, the sums of TOTALS; what was lost is in `read_misses`."""
        return {
            key: dict(zip(TOTALS, sums.tolist(), strict=True)) for key, sums in self._totals.items()
        }

    def read_kernels(self) -> dict[tuple[int, int], int]:
        """How often each kernel was launched, by process and function or handle."""
        return dict(self._kernels)

    def read_sizes(self) -> list[Size]:
        """Histograms of grids, blocks and copies."""
        return [Size(*key, count) for key, count in self._sizes.items()]

    def read_misses(self) -> dict[str, int]:
        """Samples that found no room in a ring, and those that lack their other half."""
        # The kernel tells of a loss when there is room again, so never of the last one. An event
        # counts its hits without a ring, and when it is gone its count is compared.
        lost = sum(ring.lost for ring in self._rings.values())
        if not self._placed:
            lost = self._hits - self._sampled
        found = {"samples": lost, "halves": self._unpaired}
        return {what: count for what, count in found.items() if count}

    def read_stack(self, number: int) -> list[int]:
        """No stacks are taken."""
        return []

    @property
    def attached(self) -> int:
        """How many probes are in place: entries and returns, each counted once."""
        return 2 * len(self._placed)

    def detach(self) -> None:
        """Take all probes away; what is in the rings can still be read."""
        for event in self._events:
            fcntl.ioctl(event, e.DISABLE, 0)
            if event not in self._counted:
                self._hits += int.from_bytes(os.read(event, 8), "little")
                self._counted.add(event)
        kept = {ring.event for ring in self._rings.values()}
        for event in self._events:
            if event not in kept:
                os.close(event)
                self._counted.discard(event)  # another one may get its number
        self._events = [event for event in self._events if event in kept]
        self._placed.clear()

    def close(self) -> None:
        """Close the rings, too."""
        self._rings.clear()
        for event in self._events:
            os.close(event)
        self._events.clear()


def list_words(
    function: Function, registers: Array, stack: Array, processor: Processor
) -> tuple[Array, Array]:
    """The words of calls (n × 5), and the addresses of the names that they were given.

    registers: n × those that are sampled; stack: n × words from the stack pointer on.
    """
    count, inside = len(registers), len(processor.arguments)
    arguments = np.zeros((count, 10), "<u8")
    arguments[:, :inside] = registers[:, processor.arguments]
    first = processor.call_bytes // 8
    arguments[:, inside:] = stack[:, first : first + 10 - inside]
    words = np.zeros((count, 5), "<u8")
    low = np.uint64(0xFFFFFFFF)
    if function.shape == GRID_BY_VALUE:
        words[:, 0], words[:, 1] = arguments[:, 0], arguments[:, 1]
        words[:, 2] = arguments[:, 2] & low | arguments[:, 6] << 32
        x, y, z = arguments[:, 3], arguments[:, 3] >> 32, arguments[:, 4]
        words[:, 3], words[:, 4] = _pack_block(x, y, z), arguments[:, 7]
    elif function.shape == GRID_BY_NUMBER:
        words[:, 0] = arguments[:, 0]
        words[:, 1] = arguments[:, 1] & low | arguments[:, 2] << 32
        words[:, 2] = arguments[:, 3] & low | arguments[:, 7] << 32
        words[:, 3] = _pack_block(arguments[:, 4], arguments[:, 5], arguments[:, 6])
        words[:, 4] = arguments[:, 8]
    elif function.shape in (CONFIG_RUNTIME, CONFIG_DRIVER):
        words[:, 0] = arguments[:, 1]
        _take_config(words, arguments[:, 0], registers[:, processor.stack], stack)
    else:
        for place, which in enumerate(function.words):
            if which >= CONSTANT:
                words[:, place] = which - CONSTANT
            elif which != NO_WORD:
                words[:, place] = arguments[:, which]
        if function.factor != NO_FACTOR:
            words[:, 2] *= arguments[:, function.factor]
        words[:, 2] <<= np.uint64(function.shift)
        if function.flags & RETURNS_POINTER:
            words[:, 0] = 0  # what was allocated is behind it, and comes later
    text = arguments[:, function.text] if function.text < 6 else np.zeros(count, "<u8")
    return words, text


def _pack_block(x: Array, y: Array, z: Array) -> Array:
    mask = np.uint64(0xFFFF)
    return x & mask | (y & mask) << 16 | (z & mask) << 32


def _take_config(words: Array, address: Array, sp: Array, stack: Array) -> None:
    """A launch's configuration where it lies in the piece of the stack that was taken."""
    place = (address - sp).astype(np.int64)
    data = np.ascontiguousarray(stack).view("<u4")
    inside = (place >= 0) & (place % 4 == 0) & (place + 40 <= data.shape[1] * 4)
    rows = np.flatnonzero(inside)
    config = data[rows[:, None], place[rows, None] // 4 + np.arange(10)].astype("<u8")
    words[rows, 1] = config[:, 0] | config[:, 1] << 32
    words[rows, 2] = config[:, 2] | config[:, 6] << 32
    words[rows, 3] = _pack_block(config[:, 3], config[:, 4], config[:, 5])
    words[rows, 4] = config[:, 8] | config[:, 9] << 32


class _Ring(e.Ring):
    """The ring of one processor that events write samples of one size to."""

    def __init__(self, event: int, size: int, stack: int, processor: Processor) -> None:
        super().__init__(event, size)
        self.lost = 0
        head = _describe_sample(processor)
        self._sample = np.dtype(
            [("head", head), ("stack", "<u8", (stack // 8,)), ("dynamic_size", "<u8")]
        )

    def take(self) -> Iterator[Array]:
        """All samples, copied; what was lost is counted."""
        content = self.take_bytes()
        count = len(content)
        at, step = 0, self._sample.itemsize
        while at + 8 <= count:
            rows = np.frombuffer(content, self._sample, (count - at) // step, at)
            good = (rows["head"]["type"] == _SAMPLE) & (rows["head"]["size"] == step)
            whole = int(np.argmin(good)) if not good.all() else len(rows)
            if whole:
                yield rows[:whole]
                at += whole * step
                continue
            kind, _, size = _RECORD_HEAD.unpack_from(content.data, at)
            if kind == _LOST:
                self.lost += _LOST_BODY.unpack_from(content.data, at + 8)[1]
            at += max(size, 8)
