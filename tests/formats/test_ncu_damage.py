"""Damaged reports and tables: a clear error or a quality row, never a traceback or a hang."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.nvidia import ncu_csv, ncu_rep
from sightline.formats.nvidia.ncu_rep.metrics import read_metric
from support.campaigns import sample
from support.ncu_corpus import REPORTS
from support.processor_time import takes_at_most
from support.profiled import with_code
from synth_ncu import Kernel, report
from synth_ncu.report import rule
from synth_ncu.wire import message

GOLDEN = with_code()
SEVERAL = report(
    [
        Kernel(
            metrics={"gpu__time_duration.sum": 5.0, "many": (3, {n: n for n in range(40)})},
            nvtx=("a",),
            stack=("f",),
            rules=(rule("R", "r", "S", "text", speedup=1.0),),
        )
    ]
    * 3
    + [Kernel(kind="graph"), Kernel(kind="range")]
)
TABLE = (
    '"ID","Process ID","Process Name","Kernel Name","Block Size","Grid Size","Device","CC",'
    '"Metric Name","Metric Unit","Metric Value"\n'
    + '"0","1","a","k","(1, 1, 1)","(1, 1, 1)","0","8.6","Duration","us","1.5"\n'
    * 3
).encode()


def read(module, data: bytes, folder: Path):
    """What the importer makes of it: kernels, or a word on quality why there are none; or None.

    None stands for DamagedError, which says why.
    """
    path = folder / "x"
    path.write_bytes(data)
    try:
        found = module.read(Source(path, "x"), ImportOptions())
    except DamagedError as error:
        assert error.why
        return None
    assert found.tables["profiled_kernels"].height or found.quality
    return found


@pytest.mark.parametrize("golden", [GOLDEN, SEVERAL], ids=["code", "several"])
def test_every_truncation(golden, tmp_path):
    whole = read(ncu_rep, golden, tmp_path).tables["profiled_kernels"].height
    for cut in sample(range(0, len(golden), 1 if len(golden) < 3000 else 5), 4):
        found = read(ncu_rep, golden[:cut], tmp_path)
        if found is not None:
            kernels = found.tables["profiled_kernels"].height
            kinds = {q.kind for q in found.quality}
            assert kernels < whole or "damaged" in kinds
            assert kinds & {"damaged", "damaged_parts", "no_kernels"}


def count_kernels(found) -> int:
    """Those that were read; none of what is refused."""
    return found.tables["profiled_kernels"].height if found else 0


@given(at=st.integers(0, len(GOLDEN) - 1), byte=st.integers(0, 255))
def test_any_byte_changed(at, byte, tmp_path):
    found = read(ncu_rep, GOLDEN[:at] + bytes([byte]) + GOLDEN[at + 1 :], tmp_path)
    assert count_kernels(found) <= 1
    assert count_kernels(found) == 1 or byte != GOLDEN[at], "unchanged, it has a kernel"


@given(flips=st.lists(st.tuples(st.integers(0, len(SEVERAL) - 1), st.integers(0, 7)), max_size=30))
def test_many_bits_flipped(flips, tmp_path):
    data = bytearray(SEVERAL)
    for at, bit in flips:
        data[at] ^= 1 << bit
    kernels = count_kernels(read(ncu_rep, bytes(data), tmp_path))
    assert kernels <= 5
    assert kernels == 5 or data != SEVERAL, "unchanged, it has them all"


@given(at=st.integers(4, len(GOLDEN) - 4), length=st.sampled_from([0, 2**31 - 1, 2**32 - 1]))
def test_hostile_lengths(at, length, tmp_path):
    found = read(ncu_rep, GOLDEN[:at] + struct.pack("<I", length) + GOLDEN[at + 4 :], tmp_path)
    assert count_kernels(found) <= 1


@given(data=st.binary(max_size=300))
def test_anything_behind_the_magic(data, tmp_path):
    assert count_kernels(read(ncu_rep, b"NVR\0" + data, tmp_path)) == 0


def test_attributes_of_the_wrong_type_are_left_out(tmp_path):
    odd = {
        "display_name": 5,
        "multiprocessor_count": "many",
        "total_memory": 2**63,
        "warp_size": 32,
    }
    data = report(
        [Kernel(metrics={"gpu__time_duration.sum": 5.0})], device=odd | {"fb_bus_width": 2**62}
    )
    row = read(ncu_rep, data, tmp_path).tables["devices"].to_dicts()[0]
    assert (row["sm_count"], row["memory_bytes"], row["warp_size"]) == (None, None, 32)


def test_a_count_of_four_billion_results_costs_nothing(tmp_path):
    block = b"\x10\xff\xff\xff\xff\x0f\x08\xff\xff\xff\xff\x0f\x28\x00"
    data = b"NVR\0" + struct.pack("<I", 2) + b"\x08\x07" + struct.pack("<I", len(block)) + block
    with takes_at_most(2):
        assert read(ncu_rep, data, tmp_path) is None


def test_memory_is_bounded_by_the_file(tmp_path):
    """Of the densest message there is: rows, not an explosion."""
    data = report([Kernel(metrics={"dense": (0, {n % 128: 1 for n in range(128)})})] * 200)
    tracemalloc.start()
    read(ncu_rep, data, tmp_path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 * len(data)


@given(at=st.integers(0, len(TABLE)), patch=st.binary(max_size=4))
def test_a_csv_cut_and_patched(at, patch, tmp_path):
    """What breaks neither a line nor a quotation leaves the other lines."""
    found = read(ncu_csv, TABLE[:at] + patch + TABLE[at + 1 :], tmp_path)
    rows = found.tables["kernel_metrics"].height if found else 0
    breaks = b'"\r\n\0'
    is_inside = at > TABLE.index(b"\n") and not set(patch + TABLE[at : at + 1]) & set(breaks)
    assert rows >= is_inside  # of lines that say the same there is one row
    assert rows <= 3 + patch.count(b"\n") + patch.count(b"\r")


def test_every_truncation_of_a_csv(tmp_path):
    rows = 0
    for cut in range(len(TABLE)):
        found = read(ncu_csv, TABLE[:cut], tmp_path)
        if found is not None:
            assert found.tables["kernel_metrics"].height >= rows  # more of the file, no fewer rows
            rows = found.tables["kernel_metrics"].height
    assert rows


@given(
    key=st.integers(0, 2**64 - 1),
    value=st.integers(0, 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    field=st.sampled_from([4, 5]),
)
def test_a_metric_is_read_as_written(key, value, field):
    number = {int: field, float: 3, str: 1}[type(value)]
    instance = message((1, message((field, key))), (2, message((number, value))))
    data = message((1, 7), (2, message((number, value))), (3, instance), (3, message((99, 1))))
    assert read_metric(data) == (7, value, [(key, value), (None, None)])
    assert read_metric(b"") == (None, None, [])


@pytest.mark.corpus
@pytest.mark.parametrize("name", ["CuVectorAddDrv", "cutlassTiles", "manual_nvtx", "prof1"])
def test_truncations_of_real_reports(name, corpus, tmp_path):
    data = (corpus / REPORTS[name]).read_bytes()
    for part in range(50):
        found = read(ncu_rep, data[: len(data) * part // 50], tmp_path)
        assert found is None or any(
            q.kind in ("damaged", "damaged_parts", "no_kernels") for q in found.quality
        )
