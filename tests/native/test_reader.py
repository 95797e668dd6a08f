"""The compiled reader by itself: numbers, boundaries, compressed input, bounds, progress."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sightline
from sightline import _native
from sightline.core.algebra.arrow import unpack_columns
from sightline.core.model import parts
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.core.units import microseconds_to_ns
from sightline.errors import DamagedError
from sightline.formats.pytorch import kineto
from support import traces as t
from support.campaigns import sample
from support.command import sightline as command
from support.same import differences

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd


def read(path: Path) -> dict[str, int]:
    imported = kineto.read(Source(path, path.name), ImportOptions())
    return {name: frame.height for name, frame in imported.tables.items()}


numbers = st.builds(
    lambda sign, whole, fraction, exponent: f"{sign}{whole}{fraction}{exponent}",
    st.sampled_from(["", "-"]),
    st.integers(0, 2**64).map(str) | st.sampled_from(["0", "9223372036854775", "9223372036854776"]),
    st.just("")
    | st.integers(0, 10**9).map(lambda n: f".{n}")
    | st.sampled_from([".0005", ".0015", ".00050000001", ".807", ".8070000001", ".808"]),
    st.just("") | st.integers(-30, 30).map(lambda n: f"e{n}") | st.sampled_from(["E+3", "e-0"]),
)


@given(numbers)
@example("9223372036854775.807")
@example("9223372036854775.8075")
@example("-9223372036854775.807")
@example("0.00000000000000000000000000000000001")
def test_times_are_those_of_the_exact_decimal(text: str) -> None:
    assert _native.microseconds_to_ns(text) == microseconds_to_ns(text)


strings = st.text(alphabet='ab"\\{}[],:\n\u00e9', max_size=70)


@given(
    st.recursive(
        strings,
        lambda s: st.lists(s, max_size=3) | st.dictionaries(strings, s, max_size=3),
        max_leaves=12,
    ),
    strings,
)
def test_item_ends_are_found_behind_strings_and_escapes(inner: object, rest: str) -> None:
    for ascii_ in (False, True):
        item = json.dumps({"a": inner, "b": [inner]}, ensure_ascii=ascii_).encode()
        assert _native.item_end(item + rest.encode()) == len(item)
        assert _native.item_end(item[:-1]) == 0


# -- compressed ---------------------------------------------------------------------------------

EVENTS = [t.op(f"op{i}", i, 1) for i in range(5000)]
DATA = t.text_of(EVENTS).encode()


def test_gzip_of_several_members_and_padding(tmp_path: Path) -> None:
    parts = [DATA[i : i + 50_000] for i in range(0, len(DATA), 50_000)]
    packed = b"".join(gzip.compress(p) + b"\x00" * (i * 300) for i, p in enumerate(parts))
    path = tmp_path / "t.json.gz"
    path.write_bytes(packed)
    assert read(path)["host_ops"] == len(EVENTS)


@pytest.mark.parametrize("damage", ["cut", "sum", "follows", "middle"])
def test_damaged_gzip_keeps_what_came_before(tmp_path: Path, damage: str) -> None:
    packed = bytearray(gzip.compress(DATA, mtime=0))
    if damage == "cut":
        del packed[-20:]
    elif damage == "sum":
        packed[-6] ^= 1
    elif damage == "follows":
        packed += b"rubbish"
    else:
        packed[len(packed) // 2] ^= 0x55
    path = tmp_path / "t.json.gz"
    path.write_bytes(bytes(packed))
    imported = kineto.read(Source(path, "t"), ImportOptions())
    assert "truncated" in {q.kind for q in imported.quality} or damage == "middle"
    assert imported.quality
    assert imported.tables["host_ops"].height >= (4_900 if damage != "middle" else 1)


@pytest.mark.campaign
def test_decompression_bomb_of_events_is_stopped(tmp_path: Path) -> None:
    """Two gigabytes of one event from two megabytes: read up to the limit, with a note."""
    packer = zlib.compressobj(9, wbits=31)
    event = json.dumps(t.op("bomb", 1, 1)).encode() + b",\n"
    block = event * ((1 << 20) // len(event))
    path = tmp_path / "bomb.json.gz"
    with path.open("wb") as out:
        out.write(packer.compress(b'{"traceEvents": ['))
        for _ in range(40):
            out.write(packer.compress(block))
        # Then blanks only, which nothing else would stop at.
        blanks = b" " * (1 << 20)
        for _ in range(1500):
            out.write(packer.compress(blanks))
        out.write(packer.flush())
    imported = kineto.read(Source(path, "bomb"), ImportOptions())
    assert any("decompression bomb" in q.text for q in imported.quality)


@pytest.mark.campaign
@pytest.mark.parametrize("place", sample(["event", "header", "alone"], 3))
def test_string_of_a_gigabyte_is_a_clear_error(tmp_path: Path, place: str) -> None:
    """In a process of its own, so that its memory can be measured. The file has holes."""
    path = tmp_path / "huge.json"
    before = {
        "event": b'{"traceEvents": [{"ph": "X", "name": "',
        "header": b'{"x": "',
        "alone": b'[{"ph": "X", "name": "',
    }[place]
    with path.open("wb") as out:
        out.write(before)
        out.seek(2 << 30)
        out.write(b'"}]}')
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from sightline.errors import DamagedError\n"
        "from sightline.formats.pytorch import kineto\n"
        "from sightline.core.model.declare import ImportOptions\n"
        "from sightline.core.model.source import Source\n"
        "try:\n"
        "    kineto.read(Source(Path(sys.argv[1]), 'huge.json'), ImportOptions())\n"
        "except DamagedError as error:\n"
        "    print(error)\n"
        "print([int(line.split()[1]) // 1024 for line in open('/proc/self/status')\n"
        "       if line.startswith('VmHWM')][0])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ},
    )
    assert ran.returncode == 0, ran.stderr
    message, megabytes = ran.stdout.strip().split("\n")
    assert message.startswith("cannot read huge.json: ")
    assert "64 MiB" in message
    assert int(megabytes) < 500


def test_value_beyond_the_limit_is_named(tmp_path: Path) -> None:
    path = tmp_path / "huge.json"
    path.write_bytes(b'[{"ph": "X", "name": "' + b"x" * (70 << 20) + b'"}]')
    with pytest.raises(DamagedError, match="64 MiB"):
        read(path)


@pytest.mark.skipif(not _native.reads_zstd(), reason="built without zstd")
def test_zstd_of_several_frames_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.json.zst"
    path.write_bytes(zstd.compress(DATA[:70_000]) + zstd.compress(DATA[70_000:]))
    assert read(path)["host_ops"] == len(EVENTS)
    assert differences(path) == []


@pytest.mark.skipif(not _native.reads_zstd(), reason="built without zstd")
def test_cut_zstd_keeps_what_came_before(tmp_path: Path) -> None:
    # Frames are small, as a damaged one may be lost as a whole.
    parts = [zstd.compress(DATA[i : i + 20_000]) for i in range(0, len(DATA), 20_000)]
    path = tmp_path / "t.json.zst"
    path.write_bytes(b"".join(parts)[:-20])
    imported = kineto.read(Source(path, "t"), ImportOptions())
    assert "truncated" in {q.kind for q in imported.quality}
    assert imported.tables["host_ops"].height >= 4_800


def test_zstd_goes_through_the_whole_product(tmp_path: Path) -> None:
    path = tmp_path / "t.json.zst"
    path.write_bytes(zstd.compress(DATA))
    if _native.reads_zstd():
        assert command("stats", "ops", path).code == 0
    path.write_bytes(b"\x28\xb5\x2f\xfd" + b"\x00" * 40)
    outcome = command("stats", "breakdown", path)
    assert outcome.code == 2
    assert "cannot read" in outcome.err


# -- bounds and progress ------------------------------------------------------------------------


def test_progress_reaches_the_size_of_the_file(tmp_path: Path) -> None:
    path = t.write(tmp_path, EVENTS)
    told: list[int] = []
    kineto.read(Source(path, "t", told.append), ImportOptions())
    assert sum(told) == path.stat().st_size


def test_large_tables_come_in_parts_and_are_stored_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sightline.open(str(t.write(tmp_path, EVENTS, "a.json"))).table("host_ops")
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 700)
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "other"))
    run = sightline.open(str(t.write(tmp_path, EVENTS, "b.json")))
    assert run.rows("host_ops") == len(EVENTS)
    assert run.table("host_ops").equals(whole)


def test_columns_that_outgrow_memory_leave_nothing_behind(tmp_path: Path) -> None:
    """Four million rows: columns of more than 24 MB go to files that have no name."""
    folder = tmp_path / "spill"
    folder.mkdir()
    path = tmp_path / "many.json"
    event = b'{"ph":"X","cat":"cpu_op","name":"op","pid":1,"tid":1,"ts":%d,"dur":1},'
    with path.open("wb") as out:
        out.write(b"[")
        for start in range(0, 4_000_000, 10_000):
            out.write(b"".join(event % i for i in range(start, start + 10_000)))
        out.write(b"]")
    trace = _native.Trace(str(path), str(folder), 2)
    assert trace.window(1) == b"["
    trace.advance(1)
    while trace.events(1 << 26) == 0:
        assert list(folder.iterdir()) == []
    trace.finish(7, [], [])
    trace.write({})
    assert trace.facts()["host_rows"] == 4_000_000
    series = unpack_columns(trace.take("host_ops", 3_999_990, 100))
    assert series.height == 10
    assert series["start_ns"].to_list() == [i * 1000 + 7 for i in range(3_999_990, 4_000_000)]
    assert list(folder.iterdir()) == []
