"""Rings whose position the kernel reads while it is written: each write must be one instruction.

`struct` clears what it writes to, and then writes it: now and then the kernel saw what lay between,
took the ring for full, and 3 calls in 100,000 were lost. The processor's own watchpoint counts the
writes.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from collections.abc import Callable

import numpy as np
import pytest

from sightline.record.probe import bpf
from sightline.record.probe import perf_event as e

ROUNDS = 50
RECORD = np.dtype([("a", "<u8"), ("b", "<u8")])
# include/uapi/linux/perf_event.h, hw_breakpoint.h
_BREAKPOINT, _WRITES = 5, 2


class Shared:
    """Memory in place of the kernel's."""

    def __init__(self, size: int) -> None:
        self.fd = os.memfd_create("ring")
        os.ftruncate(self.fd, size)
        self.map = mmap.mmap(self.fd, size)
        self.words = np.frombuffer(self.map, np.uint64)


def count_writes(address: int, change: Callable[[], None]) -> int:
    """How many instructions wrote to the 8 bytes at an address."""
    attributes = e.Attributes(
        type=_BREAKPOINT, bp_type=_WRITES, path=address, offset=8, flags=e.DISABLED | e.EXCLUDE_HV
    )
    try:
        event = e.open_event(attributes, 0, -1)
    except OSError as error:
        pytest.skip(f"this machine has no watchpoints for us: {error.strerror}")
    try:
        fcntl.ioctl(event, e.ENABLE, 0)
        change()
        return int.from_bytes(os.read(event, 8), "little")
    finally:
        os.close(event)


def address_of(words: np.ndarray) -> int:
    return int(words.__array_interface__["data"][0])


def test_positions_of_bpf_rings_are_written_whole() -> None:
    size = 1 << 16
    shared = Shared(2 * mmap.PAGESIZE + 2 * size)
    ring = bpf._Ring(shared.fd, size)
    step = bpf._RING_HEAD + RECORD.itemsize

    def take_many() -> None:
        for number in range(1, ROUNDS + 1):
            shared.words[mmap.PAGESIZE // 8] = number * step
            assert len(ring.take(RECORD)) == 1

    assert count_writes(address_of(ring._consumed), take_many) == ROUNDS
    assert shared.words[0] == ROUNDS * step


def test_positions_of_perf_rings_are_written_whole() -> None:
    size = 1 << 16
    shared = Shared(mmap.PAGESIZE + size)
    ring = e.Ring(shared.fd, size)

    def take_many() -> None:
        for number in range(1, ROUNDS + 1):
            shared.words[1024 // 8] = 24 * number
            assert len(ring.take_bytes()) == 24

    assert count_writes(address_of(ring._ends) + 8, take_many) == ROUNDS
    assert shared.words[1024 // 8 + 1] == 24 * ROUNDS


def test_a_position_in_pieces_is_told_apart() -> None:
    """What `struct` does takes more than one: else the tests above could not fail."""
    shared = Shared(mmap.PAGESIZE)
    pack: Callable[..., None] = struct.pack_into
    address = ctypes.addressof(ctypes.c_char.from_buffer(shared.map))
    assert count_writes(address, lambda: pack("<Q", shared.map, 0, 77)) > 1
