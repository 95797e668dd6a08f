"""Records of the kernel's rings, address spaces and maps of compiled code, written here."""

from __future__ import annotations

import os
import struct
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.record.probe.compiled import CompiledFunctions, place_map
from sightline.record.probe.processes import Mapping
from sightline.record.sampling.naming import make_compiled_frame
from sightline.record.sampling.records import (
    Ended,
    Forked,
    Mapped,
    Missed,
    Named,
    Sample,
    list_records,
)
from sightline.record.sampling.spaces import AddressSpace

TRAILER = struct.pack("<IIQII", 42, 43, 777, 1, 0)
KERNEL, USER = 2**64 - 128, 2**64 - 512


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def read_one(kind: int, body: bytes, misc: int = 0) -> object:
    (found,) = list_records(memoryview(record(kind, body, misc)))
    return found


def test_records_of_threads() -> None:
    fork = struct.pack("<IIIIQ", 50, 42, 51, 43, 900)
    assert read_one(7, fork + TRAILER) == Forked(900, 50, 42, 51)
    assert read_one(4, fork + TRAILER) == Ended(900, 50, 51)
    comm = struct.pack("<II", 42, 43) + b"train\0\0\0"
    assert read_one(3, comm + TRAILER) == Named(777, 42, 43, "train", False)
    assert read_one(3, comm + TRAILER, misc=1 << 13) == Named(777, 42, 43, "train", True)


def test_records_of_code_and_of_data() -> None:
    def mapped(rights: int) -> bytes:
        head = struct.pack("<IIQQQIIQQII", 42, 43, 0x4000, 0x1000, 0x200, 8, 1, 99, 0, rights, 2)
        return head + b"/lib/a.so\0".ljust(16, b"\0") + TRAILER

    part = Mapping(0x4000, 0x5000, 0x200, "08:01", 99, "/lib/a.so", True)
    assert read_one(10, mapped(5)) == Mapped(777, 42, part)
    assert not list(list_records(memoryview(record(10, mapped(1)))))


def test_records_of_losses() -> None:
    assert read_one(2, struct.pack("<QQ", 5, 12) + TRAILER) == Missed(777, 12, False)
    assert read_one(13, struct.pack("<Q", 3) + TRAILER) == Missed(777, 3, False)
    throttle = struct.pack("<QQQ", 777, 1, 1)
    assert read_one(5, throttle + TRAILER) == Missed(777, 0, True)
    assert not list(list_records(memoryview(record(6, throttle + TRAILER))))  # sampling goes on


@pytest.mark.parametrize("copied", [0, 16, 32])
def test_samples(copied: int) -> None:
    chain = struct.pack("<5Q", KERNEL, 0xFF01, USER, 0x10, 0x20)
    body = struct.pack("<IIQIIQ", 42, 43, 777, 1, 0, 5) + chain
    registers, stack = bytes(range(136)), bytes(range(32))
    body += struct.pack("<Q", 2) + registers
    body += struct.pack("<Q", 32) + stack + struct.pack("<Q", copied)
    user = struct.pack("<2Q", 0x10, 0x20)
    expected = Sample(777, 42, 43, 1, struct.pack("<Q", 0xFF01), user, registers, stack[:copied])
    assert read_one(9, body) == expected


def test_samples_of_threads_without_registers() -> None:
    body = struct.pack("<IIQIIQ", 42, 43, 777, 1, 0, 0) + struct.pack("<QQ", 0, 0)
    assert read_one(9, body) == Sample(777, 42, 43, 1, b"", b"", b"", b"")


@given(st.binary(max_size=300))
def test_what_is_cut_off_is_no_record(tail: bytes) -> None:
    """Sizes that make no sense end the reading; nothing is read beyond the end."""
    whole = record(2, struct.pack("<QQ", 5, 12) + TRAILER)
    short = struct.pack("<IHH", 9, 0, 9 + len(tail)) + tail
    assert list(list_records(memoryview(whole + short)))[:1] == [Missed(777, 12, False)]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 25)), max_size=12))
def test_later_mappings_take_the_place_of_earlier_ones(spans: list[tuple[int, int]]) -> None:
    """Against a table of every address."""
    space, truth = AddressSpace(), {}
    for number, (start, size) in enumerate(spans):
        covered = any(start + i in truth for i in range(size))
        part = Mapping(start, start + size, 1000 * number, "08:01", number, "", True)
        assert space.add(part) == covered
        for address in range(start, start + size):
            truth[address] = (number, 1000 * number + address - start)
    for address in range(90):
        found = space.find(address)
        shown = found and (found.inode, found.offset + address - found.start)
        assert (shown or None) == truth.get(address)


def test_maps_of_compiled_code_grow(tmp_path: Path) -> None:
    own = os.getpid()
    (tmp_path / "tmp").mkdir()
    path = tmp_path / place_map(own).lstrip("/")
    functions = CompiledFunctions(str(tmp_path), own)
    assert functions.find(0x1008) is None  # there is no map yet
    path.write_text("1000 10 first\nno line\n20")
    assert functions.find(0x1008) == "first"
    assert functions.find(0x1010) is None
    with path.open("a") as file:
        file.write("00 8 py::step:/a b.py\n1000 20 again\n")
    assert functions.find(0x2007) == "py::step:/a b.py"
    assert functions.find(0x1018) == "again"  # the memory was used anew


def test_what_an_earlier_process_left_in_a_map_is_outdone(tmp_path: Path) -> None:
    """The file is written on (CPython opens it with O_APPEND), and numbers come again."""
    own = os.getpid()
    (tmp_path / "tmp").mkdir()
    path = tmp_path / place_map(own).lstrip("/")
    path.write_text("1000 40 stale\n1020 8 inside\n")
    functions = CompiledFunctions(str(tmp_path), own)
    assert functions.find(0x1021) == "inside"
    with path.open("a") as file:
        file.write("1008 30 fresh\n")
    assert [functions.find(at) for at in (0x1004, 0x1008, 0x1021, 0x1037, 0x1038)] == [
        None, "fresh", "fresh", "fresh", None,
    ]  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=12), st.integers(0, 12))
def test_the_last_line_of_an_address_is_right(spans: list[tuple[int, int]], cut: int) -> None:
    """However the lines came: a function whose memory another took is gone as a whole."""
    covered = [set(range(start, start + size)) for start, size in spans]
    stays = [not any(at & later for later in covered[n + 1 :]) for n, at in enumerate(covered)]
    known = {at: n for n, places in enumerate(covered) if stays[n] for at in places}
    lines = [f"{start:x} {size:x} {n}\n" for n, (start, size) in enumerate(spans)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder + place_map(os.getpid()))
        path.parent.mkdir()
        functions = CompiledFunctions(folder, os.getpid())
        path.write_text("".join(lines[:cut]))
        functions.find(0)
        path.write_text("".join(lines))
        for at in range(80):
            assert functions.find(at) == (str(known[at]) if at in known else None), at


def test_only_a_file_is_taken_for_a_map(tmp_path: Path) -> None:
    own = os.getpid()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "other").write_text("1000 10 first\n")
    path = tmp_path / place_map(own).lstrip("/")
    path.symlink_to(tmp_path / "other")
    assert CompiledFunctions(str(tmp_path), own).find(0x1008) is None
    path.unlink()
    os.mkfifo(path)
    assert CompiledFunctions(str(tmp_path), own).find(0x1008) is None


def test_names_of_compiled_code() -> None:
    assert make_compiled_frame(None) is None
    assert make_compiled_frame("py::Net.forward:/a:b.py") == (
        "python", "Net.forward", "/a:b.py", None, None,
    )  # fmt: skip
    assert make_compiled_frame("LazyCompile:~f") == (
        "native",
        "LazyCompile:~f",
        None,
        "[compiled]",
        None,
    )
