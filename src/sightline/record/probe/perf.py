"""Probes without BPF: samples of perf_event_open, one at each entry and return of a function.

Needs nothing but the kernel (perf_event_open(2), and tracefs). An event is for all functions of a
file (trace_events.py); which one was called is told by the address in the sample. The arguments are
in its registers, and in a piece of the stack; entries are paired with their returns here. What BPF
does better: a sample takes twice as long, what is behind a pointer is not seen unless it lies in
that piece of the stack, and whoever runs the probed code on a processor is sampled, so that other
programs that use the same file pay for it, too.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
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
    RETURNS_NOTHING,
    Function,
)  # fmt: skip
from sightline.record.probe.perf_ring import SampleRing
from sightline.record.probe.perf_words import list_words
from sightline.record.probe.processes import read_mappings
from sightline.record.probe.processors import find_processor
from sightline.record.probe.targets import Site
from sightline.record.probe.trace_events import (
    define_event,
    find_tracefs,
    remove_event,
    remove_stale,
)

Array = np.ndarray[Any, Any]

_SOFTWARE, _TRACEPOINT, _DUMMY = 1, 2, 9  # PERF_TYPE_*, PERF_COUNT_SW_DUMMY
_STACK_BYTES = 40  # the return address, or what the caller left there, and four arguments
_CONFIG_STACK_BYTES = 1024  # a launch's configuration lies in its caller's frame, as a rule
# Of each processor; 16 MiB are 87,000 samples. All together are bounded: they cannot be swapped.
_MOST_RING_BYTES, _LEAST_RING_BYTES, _ALL_RING_BYTES = 16 << 20, 1 << 18, 256 << 20
_CONFIG_RING_SHARE = 4  # a sixteenth, as a power of two: few launches have a configuration


# What a sample says, entry or return.
_SEEN = np.dtype(
    [("pid", "<u4"), ("tid", "<u4"), ("function", "<u2"), ("is_return", "?"), ("time", "<u8"),
     ("result", "<i8"), ("words", "<u8", (5,)), ("text", "<u8")]
)  # fmt: skip


class Samples:
    """Sampling probes: a Backend."""

    name = "perf_event"

    def __init__(
        self, *, stacks: bool = False, sizes: bool = False, tracing: Path | None = None
    ) -> None:
        """Prepare, with the kernel's tracing in the folder `tracing` (None: where it is mounted).

        Raises RequestError where the kernel has no such probes.
        """
        processor = find_processor()
        folder = find_tracefs() if tracing is None else tracing
        if processor is None or folder is None or not (folder / "uprobe_events").is_file():
            raise RequestError(
                "probes cannot be placed",
                why="this kernel has no uprobe events, or does not show them here, or runs on "
                "neither x86-64 nor AArch64",
                hint="It needs CONFIG_UPROBE_EVENTS and CONFIG_PERF_EVENTS (Linux 5.4 or newer), "
                "and tracefs:\n  mount -t tracefs nodev /sys/kernel/tracing",
            )
        if stacks:
            raise RequestError(
                "perf_event probes take no call stacks",
                hint="With eBPF:  sightline probe --backend bpf --stacks",
            )
        self._processor = processor
        self._tracing = folder
        self._counts_sizes = sizes
        self._functions: dict[int, Function] = {}
        self._placed: dict[tuple[tuple[str, int], int], int] = {}
        self._places: dict[int, dict[int, int]] = {}  # by process and address, the function
        self._rings: dict[tuple[int, int], SampleRing] = {}  # by processor and bytes of stack
        self._events: list[int] = []
        self._defined: list[str] = []
        self._made = 0  # how many events were named
        self._returns: set[int] = set()  # the numbers of events of returns
        self._pids: set[int] = set()
        self._waiting = np.zeros(0, _SEEN)  # entries whose return is to come, and what is too new
        self._totals: dict[tuple[int, int], Array] = {}
        self._kernels: dict[tuple[int, int], int] = {}
        self._sizes: dict[tuple[int, int, int], int] = {}
        self._names: list[Name] = []
        self._unpaired = 0
        self._sampled = 0  # samples that were read, of whatever process
        self._hits = 0  # what the events that are gone had counted
        e.raise_open_files()  # an event for each file, its returns, and each processor
        remove_stale(folder)

    # -- placing ---------------------------------------------------------------------------------

    def tell_function(self, number: int, function: Function) -> None:
        """Note what a function is."""
        self._functions[number] = function

    def attach(self, path: str, sites: Sites, pid: int) -> list[tuple[Site, OSError]]:
        """Sample entries and returns, of this process and whoever else calls the functions."""
        self._pids.add(pid)
        self._places.setdefault(pid, {}).update(_find_addresses(sites, pid))
        # All processes that have the file are sampled, and others are left out later.
        fresh = [at for at in sites if at[0].place not in self._placed and _is_seen(at[0].function)]
        refused = []
        for stack in (_STACK_BYTES, _CONFIG_STACK_BYTES):
            mine = [(site, n) for site, n in fresh if _count_stack_bytes(site.function) == stack]
            refused += self._attach_together(path, mine, stack)
        return refused

    def _attach_together(self, path: str, sites: Sites, stack: int) -> list[tuple[Site, OSError]]:
        """One event for all; where one of them is refused, halves tell which."""
        if not sites:
            return []
        before = len(self._events), len(self._defined)
        try:
            # The returns go first: a call is seen from its entry to its return, or not at all.
            for is_return in (True, False):
                self._open_events(path, [site.offset for site, _ in sites], is_return, stack)
        except OSError as error:
            self._close_events(*before)
            if len(sites) == 1:
                return [(sites[0][0], error)]
            half = len(sites) // 2
            return [
                bad
                for part in (sites[:half], sites[half:])
                for bad in self._attach_together(path, part, stack)
            ]
        self._placed.update((site.place, number) for site, number in sites)
        return []

    def _open_events(self, path: str, offsets: list[int], is_return: bool, stack: int) -> None:
        self._made += 1
        self._defined.append(f"e{self._made}")
        number = define_event(self._tracing, self._defined[-1], path, offsets, is_return=is_return)
        processors = e.list_processors()
        for cpu in processors:
            event = e.open_event(self._describe_event(number, stack), -1, cpu, path)
            self._events.append(event)
            if is_return:
                self._returns.add(e.read_id(event))
            if (cpu, stack) not in self._rings:
                size = _choose_ring_bytes(len(processors), stack)
                self._rings[cpu, stack] = SampleRing(_open_dummy(cpu), size, stack, self._processor)
            fcntl.ioctl(event, e.SET_OUTPUT, self._rings[cpu, stack].event)
            fcntl.ioctl(event, e.ENABLE, 0)

    def _describe_event(self, number: int, stack: int) -> e.Attributes:
        return e.Attributes(
            type=_TRACEPOINT,
            config=number,
            period=1,
            sample_type=e.IDENTIFIER | e.TID | e.TIME | e.RAW | e.REGISTERS | e.STACK,
            flags=e.DISABLED | e.USE_CLOCK,
            registers=sum(1 << bit for bit in self._processor.sampled),
            stack=stack,
            clock=e.CLOCK_MONOTONIC,
        )

    def _close_events(self, events: int = 0, defined: int = 0) -> None:
        """Close and remove all but the first so many."""
        for event in self._events[events:]:
            with contextlib.suppress(OSError):  # one that was closed halfway is gone, too
                os.close(event)
        for name in self._defined[defined:]:
            remove_event(self._tracing, name)
        del self._events[events:], self._defined[defined:]

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

    def _decode(self, ring: SampleRing, samples: Array) -> Array:
        """Samples of the probed processes as _SEEN."""
        self._sampled += len(samples)
        functions = self._find_functions(samples["head"])
        samples, functions = samples[functions >= 0], functions[functions >= 0]
        found = np.zeros(len(samples), _SEEN)
        head = samples["head"]
        for name in ("pid", "tid", "time"):
            found[name] = head[name]
        found["function"] = functions
        found["is_return"] = is_return = np.isin(head["id"], list(self._returns))
        # An enumeration: the upper half of the register may hold anything.
        results = head["registers"][:, self._processor.result].astype(np.uint32).view(np.int32)
        found["result"][is_return] = results[is_return]
        for number in np.unique(functions).tolist():
            entries = (functions == number) & ~is_return
            words, text = list_words(
                self._functions[number], head["registers"][entries], samples["stack"][entries],
                self._processor,
            )  # fmt: skip
            found["words"][entries], found["text"][entries] = words, text
            self._add(head["pid"][entries], number, "entered")
            self._add(head["pid"][(functions == number) & is_return], number, "returned")
        return found

    def _find_functions(self, head: Array) -> Array:
        """The function of each sample, by its process and address; -1 where it is not probed."""
        found = np.full(len(head), -1, np.int64)
        for pid in np.unique(head["pid"]).tolist():
            known = self._places.get(pid)
            if not known:
                continue
            addresses, numbers = np.array(sorted(known.items()), "<u8").T
            mine = np.flatnonzero(head["pid"] == pid)
            asked = head["address"][mine]
            at = np.minimum(np.searchsorted(addresses, asked), len(addresses) - 1)
            is_known = addresses[at] == asked
            found[mine[is_known]] = numbers[at[is_known]]
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
            self._hits += int.from_bytes(os.read(event, 8), "little")
        self._close_events()
        self._placed.clear()

    def close(self) -> None:
        """Close the rings, too."""
        self._close_events()
        for ring in self._rings.values():
            os.close(ring.event)
        self._rings.clear()


def _is_seen(function: Function) -> bool:
    """Not where all that it tells lies behind a pointer."""
    return function.kind != "name" or bool(function.flags & RETURNS_NOTHING)


def _count_stack_bytes(function: Function) -> int:
    has_config = function.shape in (CONFIG_RUNTIME, CONFIG_DRIVER)
    return _CONFIG_STACK_BYTES if has_config else _STACK_BYTES


def _find_addresses(sites: Sites, pid: int) -> Iterator[tuple[int, int]]:
    """Where each probe is in the process's memory, and its function."""
    for mapping in read_mappings(pid):
        for site, number in sites:
            inside = site.offset - mapping.offset
            if mapping.file == site.file and 0 <= inside < mapping.end - mapping.start:
                yield mapping.start + inside, number


def _choose_ring_bytes(processors: int, stack: int) -> int:
    """The largest power of two that leaves as much for each processor."""
    size = 1 << (_ALL_RING_BYTES // processors).bit_length() - 1
    size = max(min(size, _MOST_RING_BYTES), _LEAST_RING_BYTES)
    return size if stack == _STACK_BYTES else max(size >> _CONFIG_RING_SHARE, _LEAST_RING_BYTES)


def _open_dummy(cpu: int) -> int:
    """An event that counts nothing, whose ring others write to: it stays when they are gone."""
    # Nobody sleeps until the ring is full: it is looked at all the time.
    attributes = e.Attributes(
        type=_SOFTWARE, config=_DUMMY, flags=e.DISABLED | e.WATERMARK | e.USE_CLOCK,
        wakeup=_MOST_RING_BYTES, clock=e.CLOCK_MONOTONIC,
    )  # fmt: skip
    return e.open_event(attributes, -1, cpu, "a ring")
