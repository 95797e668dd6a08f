"""Reports that are cut off, damaged or hostile: what is whole is read, and the loss is said."""

from __future__ import annotations

import struct
from pathlib import Path
from random import Random

import polars as pl
import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.nvidia import nsys_rep
from support.campaigns import sample
from support.reports import DATA, MAGIC, PROCESS, THREAD, Report, delimited, message, pack, varint

PER_BLOCK = 10


def write_whole(count: int = 40) -> Report:
    """Kernels and their calls, ten events a block; ranges with texts of their own; a chain."""
    report = Report(per_block=PER_BLOCK)
    for i in range(count):
        report.call("cudaLaunchKernel", start=100 * i, end=100 * i + 10, correlation=i)
        report.kernel(f"k{i % 3}", start=100 * i + 20, end=100 * i + 80, correlation=i)
    report.range("whole", start=0, end=100 * count)
    report.call("read", start=5, end=6, kind=27, frames=[("read", "libc"), ("main", "app")])
    report.thread_names = [{2: report.text("main"), 3: 20, 4: THREAD}]
    return report


def read(content: bytes, folder: Path) -> Imported:
    path = folder / "run.nsys-rep"
    path.write_bytes(content)
    imported: Imported = nsys_rep.read(Source(path, path.name), ImportOptions())
    return imported


def kinds(imported: Imported) -> dict[str, int | None]:
    return {q.kind: q.count for q in imported.quality}


def kernels(imported: Imported) -> int:
    return imported.tables["device_ops"].height


def blocks_of(report: Report) -> list[bytes]:
    """The packed blocks of a report's events."""
    starts = range(0, len(report.events), report.per_block)
    return [
        pack(delimited(message({1: report.events[at : at + report.per_block]}))) for at in starts
    ]


def test_cut_after_every_block(tmp_path: Path) -> None:
    """All events before the cut are there; names, which come after the events, are numbers."""
    report = write_whole()
    content, blocks = report.content(), blocks_of(report)
    at = content.index(blocks[0])
    for number, block in enumerate(blocks):
        for cut in (at, at + 1, at + len(block) - 1):
            if number == 0:
                continue
            found = read(content[:cut], tmp_path)
            assert kernels(found) == sum(
                1 for event in report.events[: number * PER_BLOCK] if event[:2] == b"\x08\x4f"
            )
            assert kinds(found)["cut_off"] is None
            names = found.tables["device_ops"].get_column("name").to_list()
            assert names == [f"name {1 + i % 3} (lost)" for i in range(kernels(found))]
        at += len(block)


def test_cut_behind_the_strings_keeps_the_names(tmp_path: Path) -> None:
    report = write_whole()
    content = report.content()
    names = delimited(message({1: report.thread_names}))
    found = read(content[: content.index(names)], tmp_path)
    assert kernels(found) == 40
    assert set(found.tables["device_ops"].get_column("name").to_list()) == {"k0", "k1", "k2"}
    assert "damaged_table" in kinds(found)  # the threads' names


def test_cut_anywhere(tmp_path: Path) -> None:
    """No cut ends in anything but a report's rows or a clear error."""
    content = write_whole(8).content()
    outcomes = set()
    for cut in sample(range(len(MAGIC), len(content)), 150):
        try:
            read(content[:cut], tmp_path)
            outcomes.add("rows")
        except sightline.DamagedError as error:
            assert "before its first event" in str(error)
            outcomes.add("error")
    assert outcomes == {"rows", "error"}


def test_bytes_changed_anywhere(tmp_path: Path) -> None:
    content = write_whole(8).content()
    random = Random(22)
    for _ in sample(range(2000), 150):
        damaged = bytearray(content)
        for _ in range(random.choice((1, 1, 2, 8))):
            damaged[random.randrange(len(MAGIC), len(damaged))] = random.randrange(256)
        try:
            read(bytes(damaged), tmp_path)
        except sightline.SightlineError as error:
            assert "Traceback" not in str(error)


def test_a_damaged_block_costs_its_events_only(tmp_path: Path) -> None:
    report = write_whole()
    blocks = blocks_of(report)
    size = len(blocks[1])
    blocks[1] = blocks[1][:4] + bytes(size - 4)
    found = read(report.assemble(blocks), tmp_path)
    assert kernels(found) == 40 - PER_BLOCK // 2
    assert kinds(found)["damaged_blocks"] == 1
    assert "cut_off" not in kinds(found)


def test_a_damaged_event_costs_itself_only(tmp_path: Path) -> None:
    report = write_whole()
    report.events[1] = report.events[1][:-1]
    report.events[3] = message({1: 79, 107: {101: 5, 1: "a text where a time should be"}})
    found = read(report.content(), tmp_path)
    assert kernels(found) == 38
    assert kinds(found)["damaged_events"] == 2


def test_unknown_events_are_skipped_and_said_in_one_row(tmp_path: Path) -> None:
    report = write_whole()
    for kind in (58, 113, 113):
        report.event(kind, 250, {1: 5})
    report.event(48, 108, {1: 5, 6: 9999})  # a host call of an unknown class
    report.event(79, 107, {1: 5, 999: {1: 1}})  # a GPU activity of an unknown form
    found = read(report.content(), tmp_path)
    assert kernels(found) == 40
    assert kinds(found)["unknown_events"] == 5
    (text,) = [q.text for q in found.quality if q.kind == "unknown_events"]
    assert text == "events of unknown types were skipped (types 48, 58, 79, 113)"


def test_another_codec(tmp_path: Path) -> None:
    report = write_whole()
    report.codec = "zstd"
    with pytest.raises(sightline.DamagedError, match="packed with zstd, which is not known"):
        read(report.content(), tmp_path)


@pytest.mark.parametrize("claim", [0, 1, 2**31 - 1, 2**32, 2**63, 2**64 - 1])
@pytest.mark.parametrize("of", ["packed", "unpacked"])
def test_sizes_that_lie(tmp_path: Path, claim: int, of: str) -> None:
    report = write_whole()
    blocks = blocks_of(report)
    packed = blocks[1]
    sizes = (varint(claim), b"\x7f") if of == "packed" else (b"\x7f", varint(claim))
    blocks[1] = b"".join(sizes) + packed[4:]
    found = read(report.assemble(blocks), tmp_path)
    assert kernels(found) < 40
    assert kinds(found).keys() & {"cut_off", "damaged_blocks"}


def test_a_bomb(tmp_path: Path) -> None:
    """LZ4 packs zeros 255 to 1: a block may not unpack to far more than files hold."""
    report = write_whole()
    blocks = blocks_of(report)
    bomb = pack(bytes(200 << 20))
    assert len(bomb) < 1 << 20
    found = read(report.assemble([blocks[0], bomb, *blocks[1:]]), tmp_path)
    assert kernels(found) == PER_BLOCK // 2
    assert "cut_off" in kinds(found)


def test_more_events_than_the_file_can_hold(tmp_path: Path) -> None:
    """Events of a few bytes pack very well: rows are bounded by the file's size."""
    report = write_whole()
    event = message({1: message({1: 41, 106: {1: 5}})})
    crowd = pack(delimited(event * 2_000_000))
    assert len(crowd) < 1 << 17
    found = read(report.assemble([*blocks_of(report), crowd]), tmp_path)
    assert kernels(found) == 40
    assert "too_many_events" in kinds(found)
    rows = found.large["sched_events"].select(pl.len()).collect().item()
    assert PER_BLOCK < rows <= 1 << 20


def test_a_string_that_is_not_there(tmp_path: Path) -> None:
    report = write_whole()
    report.kernel("last", start=10**6, end=10**6 + 5, correlation=77)
    fields = {1: 10**6, 2: 10**6 + 5, 6: 0, 7: 2**40, 13: THREAD, 15: [{1: 2**63, 2: -1}]}
    report.event(48, 108, fields)
    del report.strings[b"last"]
    found = read(report.content(), tmp_path)
    assert "unnamed kernel 8" in found.tables["device_ops"].get_column("name").to_list()
    assert "unknown call" in found.tables["host_ops"].get_column("name").to_list()


def test_texts_that_are_no_utf8(tmp_path: Path) -> None:
    report = write_whole()
    report.range(b"caf\xe9 \x1b[31m", start=5, end=6)
    report.kernel(
        "k\udcff".encode("utf-8", "surrogatepass").decode("latin1"), start=1, end=2, correlation=0
    )
    report.strings[b"\xff\xfe"] = len(report.strings)
    found = read(report.content(), tmp_path)
    assert "caf\ufffd \x1b[31m" in found.tables["host_ops"].get_column("name").to_list()


def test_a_table_of_sections_that_lies(tmp_path: Path) -> None:
    """Without a table that can be believed, the events are looked for, as in a cut report."""
    report = write_whole()
    content = report.content()
    for offset in (0, 7, len(content), 2**63, 2**64 - 1):
        lied = content[:-16] + struct.pack("<Q", offset) + content[-8:]
        assert kernels(read(lied, tmp_path)) == 40
    place = content.index(b"Raw Sampling Data")
    lied = content[:place] + b"Raw Sampling Date" + content[place + 17 :]
    assert kernels(read(lied, tmp_path)) == 40


def test_nothing_but_a_head(tmp_path: Path) -> None:
    for content in (MAGIC, MAGIC + b"1.", MAGIC + b"1." + DATA, MAGIC + DATA + b"\xff" * 40):
        with pytest.raises(sightline.DamagedError, match="before its first event"):
            read(content, tmp_path)


def test_numbers_of_all_64_bits_everywhere(tmp_path: Path) -> None:
    """Unsigned numbers and differences beyond what a signed one holds wrap, as in SQLite."""
    most = 2**64 - 1
    report = write_whole()
    report.span = (2**63 - 1, -(2**63))
    report.thread_names = [{2: most, 3: most, 4: most}]
    report.hardware = {
        1: [{1: most, 2: {7: [{1: most, 11: most}], 9: [{1: most, 2: most, 3: most}]}}],
        14: [dict.fromkeys(range(1, 9), most)],
        15: [dict.fromkeys(range(1, 8), most)],
    }
    entries = [{1: 18, 2: 48, 3: most, 7: "Requests"}, {1: 10, 2: most, 3: most, 7: "Source"}]
    team = {1: 1, 5: "NsysMpiTeam", 4: [{1: 18, 7: n} for n in ("Size", "GroupRootUniqueId")]}
    record = {1: -1, 3: 1, 4: b"\xff" * 8}
    report.payload_schemas = {3: [{1: PROCESS, 2: [{1: most, 4: entries}, team], 3: [record]}]}
    for kind in (75, 59):
        report.event(
            59, 102, {1: kind, 2: 1, 7: "MPI", 9: THREAD, 10: 2, 13: 1, 8: {9: {1: most, 2: b"x"}}}
        )
    report.event(79, 107, dict.fromkeys((1, 2, 3, 4, 5, 6, 8, 9), most) | {101: {1: most}})
    assert kernels(read(report.content(), tmp_path)) >= 40
