"""perf_event_open(2) by ctypes: events, and the rings that they write to.

Layouts and numbers: Linux, include/uapi/linux/perf_event.h and perf_event_open(2).
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import re
import resource
import threading
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

# arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h
SYSTEM_CALL = {"x86_64": 298, "aarch64": 241}
_CLOEXEC = 8
# Bits of perf_event_attr.
DISABLED, INHERIT, EXCLUDE_KERNEL, EXCLUDE_HV = 1 << 0, 1 << 1, 1 << 5, 1 << 6
MMAP, COMM, ENABLE_ON_EXEC, TASK = 1 << 8, 1 << 9, 1 << 12, 1 << 13
WATERMARK, SAMPLE_ID_ALL = 1 << 14, 1 << 18
EXCLUDE_CALLCHAIN_USER, MMAP2, COMM_EXEC, USE_CLOCK = 1 << 22, 1 << 23, 1 << 24, 1 << 25
# What a sample holds.
TID, TIME, CALLCHAIN, ID, CPU, PERIOD = 1 << 1, 1 << 2, 1 << 5, 1 << 6, 1 << 7, 1 << 8
RAW, REGISTERS, STACK, IDENTIFIER = 1 << 10, 1 << 12, 1 << 13, 1 << 16
ENABLE, DISABLE, SET_OUTPUT, GET_ID = 0x2400, 0x2401, 0x2405, 0x80082407
CLOCK_MONOTONIC = 1
_HEAD = 1024  # data_head and data_tail of perf_event_mmap_page


class Attributes(ctypes.Structure):
    """perf_event_attr up to sample_max_stack: PERF_ATTR_SIZE_VER5."""

    _fields_ = [
        ("type", ctypes.c_uint32), ("size", ctypes.c_uint32), ("config", ctypes.c_uint64),
        ("period", ctypes.c_uint64), ("sample_type", ctypes.c_uint64),
        ("read_format", ctypes.c_uint64), ("flags", ctypes.c_uint64),
        ("wakeup", ctypes.c_uint32), ("bp_type", ctypes.c_uint32), ("path", ctypes.c_uint64),
        ("offset", ctypes.c_uint64), ("branches", ctypes.c_uint64),
        ("registers", ctypes.c_uint64), ("stack", ctypes.c_uint32), ("clock", ctypes.c_int32),
        ("registers_intr", ctypes.c_uint64), ("aux", ctypes.c_uint32),
        ("most_frames", ctypes.c_uint16), ("unused", ctypes.c_uint16),
    ]  # fmt: skip


def open_event(attributes: Attributes, pid: int, cpu: int, what: str = "") -> int:
    """The descriptor of an event of a thread (-1: all) on a processor. Raises OSError."""
    attributes.size = ctypes.sizeof(Attributes)
    event = find_library().syscall(
        SYSTEM_CALL[platform.machine()], ctypes.byref(attributes), pid, cpu, -1, _CLOEXEC
    )
    if event < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), what)
    return int(event)


def find_library() -> ctypes.CDLL:
    """The C library, whose `syscall` leaves errno to be read."""
    return ctypes.CDLL(None, use_errno=True)


def read_id(event: int) -> int:
    """The number by which records name an event."""
    number = bytearray(8)
    fcntl.ioctl(event, GET_ID, number)
    return int.from_bytes(number, "little")


_ORDER = threading.Lock()


def keep_order() -> None:
    """Let nothing that is read or written later happen before, nor what came before later.

    A ring's position is read before its records, and written after them. AArch64 may do either
    the other way round; taking a lock and giving it back lets it not (C11, 7.17.3).
    """
    with _ORDER:
        pass


def list_processors() -> list[int]:
    """The processors that are switched on; where no /sys is mounted, as /proc/stat has them."""
    try:
        text = Path("/sys/devices/system/cpu/online").read_text().strip()
    except OSError:
        lines = Path("/proc/stat").read_text().splitlines()
        return [int(n[1]) for line in lines if (n := re.match(r"cpu(\d+) ", line)) is not None]
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def raise_open_files() -> None:
    """Let this process have as many descriptors as it may: each event takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Ring:
    """What events of one processor write to, and nobody else reads."""

    def __init__(self, event: int, size: int) -> None:
        """Map `size` bytes, a power of two of pages. Raises OSError where it may not."""
        self.event, self.size = event, size
        self._map = mmap.mmap(event, mmap.PAGESIZE + size, mmap.MAP_SHARED)
        # Both ends are read and written whole, by one instruction each.
        self._ends = np.frombuffer(self._map, np.uint64, 2, _HEAD)
        self._data = np.frombuffer(self._map, np.uint8, size, mmap.PAGESIZE)

    def take_bytes(self) -> Array:
        """All whole records since the last time, copied."""
        head, tail = int(self._ends[0]), int(self._ends[1])
        keep_order()
        start, count = tail % self.size, head - tail
        content = self._data[start : start + count]
        if len(content) < count:
            content = np.concatenate([content, self._data[: count - len(content)]])
        else:
            content = content.copy()
        keep_order()
        self._ends[1] = head
        return content
