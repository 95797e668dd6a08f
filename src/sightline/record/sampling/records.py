"""What the kernel writes into the rings of sampled threads, as values.

Layouts: Linux, include/uapi/linux/perf_event.h, enum perf_event_type.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from sightline.record.probe import perf_event as e
from sightline.record.probe.processes import Mapping

SAMPLE_TYPE = e.TID | e.TIME | e.CPU | e.CALLCHAIN
# ax, bx, cx, dx, si, di, bp, sp, ip, r8 to r15: PERF_REG_X86_*.
REGISTERS = 0x1FF | 0xFF << 16
_REGISTER_BYTES = 8 * REGISTERS.bit_count()
_LOST, _COMM, _EXIT, _THROTTLE, _FORK, _SAMPLE, _MMAP2, _LOST_SAMPLES = 2, 3, 4, 5, 7, 9, 10, 13
_COMM_EXEC = 1 << 13  # PERF_RECORD_MISC_COMM_EXEC
_EXECUTABLE = 4  # PROT_EXEC
# Markers in a call chain: whose addresses follow. PERF_CONTEXT_MAX is the smallest of them.
_MARKERS = np.uint64(2**64 - 4095)
_KERNEL, _USER = 2**64 - 128, 2**64 - 512

_HEAD = struct.Struct("<IHH")
_TASK = struct.Struct("<IIIIQ")  # pid, parent, tid, parent's tid, time
_SAMPLED = struct.Struct("<IIQIIQ")  # pid, tid, time, cpu, 0, length of the chain
_TRAILER = struct.Struct("<IIQII")  # of all but samples: pid, tid, time, cpu, 0
# pid, tid, address, bytes, offset, the device's two numbers, inode, its generation, rights, flags
_MAPPED = struct.Struct("<IIQQQIIQQII")


class Sample(NamedTuple):
    """A thread's stack at one moment; both chains begin with where it was, as bytes of u64.

    Instead of the program's chain there may be its registers and a copy of its stack's top.
    """

    time: int
    pid: int
    tid: int
    cpu: int
    kernel: bytes
    user: bytes
    registers: bytes
    stack: bytes


class Mapped(NamedTuple):
    """Code that a process mapped."""

    time: int
    pid: int
    part: Mapping


class Named(NamedTuple):
    """A thread's name; `is_exec`: its process became another program."""

    time: int
    pid: int
    tid: int
    name: str
    is_exec: bool


class Forked(NamedTuple):
    """A thread or process that a sampled one started, and that is sampled, too."""

    time: int
    pid: int
    parent: int
    tid: int


class Ended(NamedTuple):
    """A thread that ended."""

    time: int
    pid: int
    tid: int


class Missed(NamedTuple):
    """`lost` samples found no room; or the kernel paused sampling, because it took too long."""

    time: int
    lost: int
    is_throttled: bool


Record = Sample | Mapped | Named | Forked | Ended | Missed


def list_records(content: memoryview) -> Iterator[Record]:
    """The records of a ring's bytes; those that nobody asked for are left out."""
    at = 0
    while at + _HEAD.size <= len(content):
        kind, misc, size = _HEAD.unpack_from(content, at)
        if size < _HEAD.size or at + size > len(content):
            return
        record = _read_record(kind, misc, content[at + _HEAD.size : at + size])
        if record is not None:
            yield record
        at += size


def _read_record(kind: int, misc: int, body: memoryview) -> Record | None:
    if kind == _SAMPLE:
        pid, tid, time, cpu, _, count = _SAMPLED.unpack_from(body)
        end = _SAMPLED.size + 8 * count
        kernel, user = _split_chain(body[_SAMPLED.size : end])
        return Sample(time, pid, tid, cpu, kernel, user, *_read_copy(body[end:]))
    if kind in (_FORK, _EXIT):
        pid, parent, tid, _, time = _TASK.unpack_from(body)
        return Forked(time, pid, parent, tid) if kind == _FORK else Ended(time, pid, tid)
    _, _, time, _, _ = _TRAILER.unpack_from(body, len(body) - _TRAILER.size)
    if kind == _MMAP2:
        return _read_mapping(time, body)
    if kind == _COMM:
        pid, tid = struct.unpack_from("<II", body)
        return Named(time, pid, tid, _read_text(body, 8), bool(misc & _COMM_EXEC))
    if kind == _LOST:
        return Missed(time, struct.unpack_from("<QQ", body)[1], False)
    if kind == _LOST_SAMPLES:
        return Missed(time, struct.unpack_from("<Q", body)[0], False)
    return Missed(time, 0, True) if kind == _THROTTLE else None


def _read_mapping(time: int, body: memoryview) -> Mapped | None:
    pid, _, start, size, offset, major, minor, inode, _, rights, _ = _MAPPED.unpack_from(body)
    if not rights & _EXECUTABLE:
        return None
    device, path = f"{major:02x}:{minor:02x}", _read_text(body, _MAPPED.size)
    return Mapped(time, pid, Mapping(start, start + size, offset, device, inode, path, True))


def _read_copy(body: memoryview) -> tuple[bytes, bytes]:
    """The registers and the copy of the stack; none of a thread that has none, or not asked for."""
    if not len(body) or not int.from_bytes(body[:8], "little"):  # PERF_SAMPLE_REGS_ABI_NONE
        return b"", b""
    end = 8 + _REGISTER_BYTES
    size = int.from_bytes(body[end : end + 8], "little")
    copied = int.from_bytes(body[end + 8 + size : end + 16 + size], "little")
    return bytes(body[8:end]), bytes(body[end + 8 : end + 8 + min(copied, size)])


def _split_chain(chain: memoryview) -> tuple[bytes, bytes]:
    """The addresses in the kernel and those in the program."""
    addresses = np.frombuffer(chain, "<u8")
    parts = {_KERNEL: b"", _USER: b""}
    places = np.flatnonzero(addresses >= _MARKERS).tolist()
    for place, end in pairwise([*places, len(addresses)]):
        parts[int(addresses[place])] = bytes(chain[8 * (place + 1) : 8 * end])
    return parts[_KERNEL], parts[_USER]


def _read_text(body: memoryview, at: int) -> str:
    text = bytes(body[at : len(body) - _TRAILER.size])
    return text[: text.find(b"\0")].decode(errors="surrogateescape")
