"""The eBPF programs of native/probe/calls.bpf.c: loaded, attached, read.

The system's libbpf is called through ctypes; nothing is linked. Its structs are those of libbpf 1.0
and newer (bpf/libbpf.h), what is in the maps and in the ring those of calls.bpf.c. The ring's
records are taken from memory that it shares with the kernel (Documentation/bpf/ringbuf.rst): a
hundred thousand at once, and no call for each.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import struct
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from sightline.core.model.probe_file import RECORD
from sightline.errors import RequestError
from sightline.record.probe.backend import TOTALS, Name, Sites, Size
from sightline.record.probe.functions import Function
from sightline.record.probe.perf_event import keep_order
from sightline.record.probe.processors import find_processor
from sightline.record.probe.targets import Site, parse_release

OBJECT = "calls.bpf.o"
_ROOM = 1 << 26  # bytes of calls that were not read yet, as in native/probe/calls.bpf.c
_PAGE = mmap.PAGESIZE
_BUSY, _DISCARDED = 1 << 31, 1 << 30  # bits of a record's length in the ring
_RING_HEAD = 8
_NAME = struct.Struct("<QQQQIHH")
_FUNCTION = struct.Struct("<BBBB5sBBx")
_TOTAL_KEY, _TOTAL = struct.Struct("<II"), np.dtype("<u8")
_KERNEL_KEY, _SIZE_KEY = struct.Struct("<QII"), struct.Struct("<IHH")
_COUNT = struct.Struct("<Q")
MISSES = ("functions", "kernels", "stacks", "nested calls", "names", "threads", "sizes")
STACK_FRAMES = 64


# bpf(2), include/uapi/linux/bpf.h: BPF_LINK_CREATE, BPF_TRACE_UPROBE_MULTI.
_LINK_CREATE, _UPROBE_MULTI = 28, 48
_MULTI_SINCE = (6, 6)


class _MultiLink(ctypes.Structure):
    """bpf_attr's link_create with uprobe_multi. libbpf has it since 1.3, Debian 12 has 1.1."""

    _fields_ = [
        ("program", ctypes.c_uint32), ("target", ctypes.c_uint32), ("type", ctypes.c_uint32),
        ("flags", ctypes.c_uint32), ("path", ctypes.c_uint64), ("offsets", ctypes.c_uint64),
        ("ref_ctr_offsets", ctypes.c_uint64), ("cookies", ctypes.c_uint64),
        ("count", ctypes.c_uint32), ("multi_flags", ctypes.c_uint32), ("pid", ctypes.c_uint32),
    ]  # fmt: skip


class _UprobeOptions(ctypes.Structure):
    _fields_ = [
        ("size", ctypes.c_size_t),
        ("ref_ctr_offset", ctypes.c_size_t),
        ("cookie", ctypes.c_uint64),
        ("is_return", ctypes.c_bool),
        ("function", ctypes.c_char_p),
    ]


def load_libbpf() -> ctypes.CDLL:
    """The system's libbpf. Raises RequestError."""
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError as error:
        raise RequestError(
            "eBPF cannot be used",
            why="libbpf.so.1 is not installed",
            hint="On Debian or Ubuntu:  sudo apt-get install libbpf1\n"
            "Without it:  sightline probe --backend perf",
        ) from error
    for name in ("bpf_object__open_file", "bpf_object__find_program_by_name",
                 "bpf_object__find_map_by_name", "bpf_program__attach_uprobe_opts"):  # fmt: skip
        getattr(library, name).restype = ctypes.c_void_p
    for name in ("bpf_object__load", "bpf_object__close", "bpf_link__destroy"):
        getattr(library, name).argtypes = [ctypes.c_void_p]
    return library


def find_object() -> Path | None:
    """The built programs; None where sightline was built without clang."""
    found = find_spec("sightline")  # not its __path__: what imports sightline itself is above
    folders = found.submodule_search_locations if found is not None else None
    places = (Path(folder) / "probe" / OBJECT for folder in folders or ())
    return next((path for path in places if path.is_file()), None)


class Programs:
    """Loaded programs, and the probes that are attached to them: a Backend."""

    name = "eBPF"

    def __init__(
        self,
        *,
        calls: bool = True,
        stacks: bool = False,
        sizes: bool = False,
        together: bool | None = None,
    ) -> None:
        """Load them. Raises RequestError with the reason where that is not possible.

        calls: send a record of each call; sizes: histograms, too; together: one link for all
        functions of a file, where the kernel has that (None).
        """
        self._library = load_libbpf()
        processor, path = find_processor(), find_object()
        if path is None or processor is None:
            raise RequestError(
                "eBPF cannot be used",
                why="clang was missing when sightline was installed, and builds its programs",
                hint="sudo apt-get install clang libbpf-dev, and install sightline again.\n"
                "Without them:  sightline probe --backend perf",
            )
        self._processor = processor
        self._said: list[str] = []
        self._print = _Print(self._hear)  # held: libbpf keeps the pointer
        self._library.libbpf_set_print(self._print)
        self._object = self._library.bpf_object__open_file(os.fsencode(path), None)
        self._libc = ctypes.CDLL(None, use_errno=True)
        has_multi = parse_release(platform.release()) >= _MULTI_SINCE
        self._are_together = has_multi if together is None else together
        self._links: list[int] = []  # libbpf's
        self._descriptors: list[int] = []  # the kernel's
        self._placed = 0
        if not self._object:
            raise self._refuse("its programs cannot be read", -ctypes.get_errno())
        try:
            self._set_constants(calls, stacks, sizes)
            room = _ROOM if calls else _PAGE
            if not calls:  # the kernel's memory, which nobody would use
                ring = ctypes.c_void_p(self._find("map", b"calls"))
                self._library.bpf_map__set_max_entries(ring, ctypes.c_uint32(room))
            self._programs = [self._find("program", n) for n in (b"enter_call", b"leave_call")]
            for program in self._programs if self._are_together else ():
                self._library.bpf_program__set_expected_attach_type(
                    ctypes.c_void_p(program), _UPROBE_MULTI
                )
            code = self._library.bpf_object__load(self._object)
            if code:
                raise self._refuse("the kernel rejects its programs", code)
            self._cpus = int(self._library.libbpf_num_possible_cpus())
            if self._cpus < 1:  # a code: it reads /sys/devices/system/cpu/possible
                raise self._refuse("the number of possible processors is unknown", self._cpus)
            self._calls = _Ring(self._map_fd("calls"), room)
            self._names = _Ring(self._map_fd("names"), 1 << 20)
        except BaseException:
            self._library.bpf_object__close(self._object)
            raise

    def _hear(self, level: int, form: bytes, arguments: int) -> int:
        self._said.append(form.decode(errors="replace").strip())  # arguments: a va_list
        return 0

    def _refuse(self, why: str, code: int) -> RequestError:
        reason = os.strerror(-code) if code < 0 else ""
        return RequestError(
            "eBPF cannot be used",
            why=f"{why}{f' ({reason})' if reason else ''}",
            hint="Without it:  sightline probe --backend perf",
        )

    def _find(self, what: str, name: bytes) -> int:
        found = getattr(self._library, f"bpf_object__find_{what}_by_name")(
            ctypes.c_void_p(self._object), name
        )
        assert found, f"{what} {name!r} is not in {OBJECT}"
        return int(found)

    def _set_constants(self, *values: bool) -> None:
        content = bytes(values)
        code = self._library.bpf_map__set_initial_value(
            ctypes.c_void_p(self._find("map", b".rodata")), content, ctypes.c_size_t(len(content))
        )
        assert code == 0, "calls.bpf.c has other constants"

    def _map_fd(self, name: str) -> int:
        found = ctypes.c_void_p(self._find("map", name.encode()))
        return int(self._library.bpf_map__fd(found))

    def tell_function(self, number: int, function: Function) -> None:
        """Say what a function is before it is probed."""
        value = _FUNCTION.pack(
            function.kind_number, function.shape, function.flags, function.text,
            bytes(function.words), function.factor, function.shift,
        )  # fmt: skip
        key = struct.pack("<I", number)
        code = self._library.bpf_map_update_elem(self._map_fd("functions"), key, value, 0)
        assert code == 0, f"function {number} is too much"

    def attach(self, path: str, sites: Sites, pid: int) -> list[tuple[Site, OSError]]:
        """Probe the entries and returns of functions in a process; those that were refused.

        The returns go first: a call is seen from its entry to its return, or not at all.
        """
        if self._are_together:
            try:
                self._attach_together(path, sites, pid)
                return []
            except OSError as error:
                if len(sites) == 1:
                    return [(sites[0][0], error)]
            # One of them is refused: each alone tells which.
            return [bad for site in sites for bad in self.attach(path, [site], pid)]
        refused = []
        for site, number in sites:
            try:
                self._attach_alone(path, site, number, pid)
            except OSError as error:
                refused.append((site, error))
        return refused

    def _attach_together(self, path: str, sites: Sites, pid: int) -> None:
        """One link for all functions of a file (Linux 6.6): taken away at once, not one by one."""
        offsets = (ctypes.c_uint64 * len(sites))(*(site.offset for site, _ in sites))
        cookies = (ctypes.c_uint64 * len(sites))(*(number for _, number in sites))
        name = ctypes.create_string_buffer(os.fsencode(path))
        links: list[int] = []
        for program, is_return in zip(reversed(self._programs), (1, 0), strict=True):
            create = _MultiLink(
                self._library.bpf_program__fd(ctypes.c_void_p(program)), 0, _UPROBE_MULTI, 0,
                ctypes.addressof(name), ctypes.addressof(offsets), 0, ctypes.addressof(cookies),
                len(sites), is_return, pid,
            )  # fmt: skip
            link = self._libc.syscall(
                self._processor.bpf, _LINK_CREATE, ctypes.byref(create), ctypes.sizeof(create)
            )
            if link < 0:
                code = ctypes.get_errno()
                for placed in links:
                    os.close(placed)
                raise OSError(code, os.strerror(code), path)
            links.append(link)
        self._descriptors += links
        self._placed += 2 * len(sites)

    def _attach_alone(self, path: str, site: Site, number: int, pid: int) -> None:
        links: list[int] = []
        for program, is_return in zip(reversed(self._programs), (True, False), strict=True):
            options = _UprobeOptions(ctypes.sizeof(_UprobeOptions), 0, number, is_return, None)
            link = self._library.bpf_program__attach_uprobe_opts(
                ctypes.c_void_p(program), ctypes.c_int(pid), os.fsencode(path),
                ctypes.c_size_t(site.offset), ctypes.byref(options),
            )  # fmt: skip
            if not link:
                code = ctypes.get_errno()
                for placed in links:
                    self._library.bpf_link__destroy(placed)
                raise OSError(code, os.strerror(code), path)
            links.append(link)
        self._links += links
        self._placed += 2

    def read_calls(self) -> np.ndarray[Any, Any]:
        """The calls that returned since the last time, as RECORD; room is made for new ones."""
        return self._calls.take(RECORD)

    def read_names(self) -> Iterator[Name]:
        """The names of kernels that the program was told since the last time."""
        size = _NAME.size + 512
        for row in self._names.take(np.dtype((np.void, size))):
            data = bytes(row)
            _, handle, other, address, pid, function, length = _NAME.unpack_from(data)
            text = data[_NAME.size : _NAME.size + length].decode(errors="replace")
            yield Name(pid, function, handle, other, address, text, 0 < length < 511)

    def read_totals(self) -> dict[tuple[int, int], dict[str, int]]:
        """By process and function, how many calls there were, and what they add up to."""
        found = {}
        size = len(TOTALS) * 8 * self._cpus
        for key, value in self._entries("totals", _TOTAL_KEY.size, size):
            per_cpu = np.frombuffer(value, _TOTAL).reshape(self._cpus, len(TOTALS))
            sums = per_cpu.sum(axis=0).tolist()
            found[_TOTAL_KEY.unpack(key)] = dict(zip(TOTALS, sums, strict=True))
        return found

    def read_kernels(self) -> dict[tuple[int, int], int]:
        """How often each kernel was launched, by process and function or handle."""
        found = {}
        for key, value in self._entries("kernels", _KERNEL_KEY.size, _COUNT.size):
            handle, pid, _ = _KERNEL_KEY.unpack(key)
            found[pid, handle] = _COUNT.unpack(value)[0]
        return found

    def read_sizes(self) -> list[Size]:
        """Histograms of grids, blocks and copies."""
        found = []
        for key, value in self._entries("sizes", _SIZE_KEY.size, _COUNT.size):
            pid, what, bucket = _SIZE_KEY.unpack(key)
            found.append(Size(pid, what, bucket, _COUNT.unpack(value)[0]))
        return found

    def read_misses(self) -> dict[str, int]:
        """What found no room in a map of bounded size."""
        entries = self._entries("misses", 4, 8)
        counts = {struct.unpack("<I", k)[0]: _COUNT.unpack(v)[0] for k, v in entries}
        return {name: counts[i] for i, name in enumerate(MISSES) if counts.get(i)}

    def read_stack(self, number: int) -> list[int]:
        """The return addresses of a stack, the innermost first."""
        value = ctypes.create_string_buffer(STACK_FRAMES * 8)
        key = struct.pack("<I", number)
        if self._library.bpf_map_lookup_elem(self._map_fd("stacks"), key, value):
            return []
        addresses = np.frombuffer(value.raw, "<u8")
        return [int(address) for address in addresses if address]

    def _entries(self, name: str, key_size: int, value_size: int) -> Iterator[tuple[bytes, bytes]]:
        fd = self._map_fd(name)
        key, after = None, ctypes.create_string_buffer(key_size)
        value = ctypes.create_string_buffer(value_size)
        while self._library.bpf_map_get_next_key(fd, key, after) == 0:
            key = after.raw
            if self._library.bpf_map_lookup_elem(fd, key, value) == 0:
                yield key, value.raw

    @property
    def attached(self) -> int:
        """How many probes are in place."""
        return self._placed

    def detach(self) -> None:
        """Take all probes away; what was counted can still be read.

        Each link waits until no processor can be in its probes any more (0.13 s here).
        """
        while self._descriptors:
            os.close(self._descriptors.pop())
        while self._links:
            self._library.bpf_link__destroy(self._links.pop())
        self._placed = 0

    def close(self) -> None:
        """Unload everything."""
        self.detach()
        del self._calls, self._names  # their memory goes with them
        self._library.bpf_object__close(self._object)


_Print = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class _Ring:
    """A BPF ring buffer with records of one size, shared with the kernel."""

    def __init__(self, fd: int, size: int) -> None:
        self._size = size
        rights = mmap.PROT_READ | mmap.PROT_WRITE
        consumed = mmap.mmap(fd, _PAGE, mmap.MAP_SHARED, rights)
        # The data is mapped twice, one behind the other: no record is cut in two.
        self._shared = mmap.mmap(
            fd, _PAGE + 2 * size, mmap.MAP_SHARED, mmap.PROT_READ, offset=_PAGE
        )
        # Words of an array are read and written at once. `struct` clears them first: the kernel saw
        # positions that were not yet written, took the ring for full, and lost 3 calls in 100,000.
        self._consumed = np.frombuffer(consumed, np.uint64, 1)
        self._produced = np.frombuffer(self._shared, np.uint64, 1)

    def take(self, kind: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """All finished records, copied."""
        step = _RING_HEAD + (kind.itemsize + 7) // 8 * 8
        start, end = int(self._consumed[0]), int(self._produced[0])
        keep_order()
        count = (end - start) // step
        if not count:
            return np.zeros(0, kind)
        at = _PAGE + start % self._size
        rows = np.frombuffer(self._shared, np.uint8, count * step, at).reshape(count, step)
        lengths = np.ascontiguousarray(rows[:, :4]).view("<u4")[:, 0]
        busy = np.flatnonzero(lengths & _BUSY)
        if len(busy):  # a processor is still writing it; what follows must wait
            count = int(busy[0])
        kept = rows[:count, _RING_HEAD : _RING_HEAD + kind.itemsize]
        kept = np.ascontiguousarray(kept[(lengths[:count] & _DISCARDED) == 0])
        keep_order()
        self._consumed[0] = start + count * step
        return kept.reshape(-1).view(kind)
