"""What is written for other tools: read back, and compared with the run."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

import sightline as door
from sightline.core import registry
from sightline.core.kernel_labels import label_kernels
from sightline.views.exports import chrome, perfetto
from support import traces
from support.command import sightline
from support.simulated import files_of, simulated

SAME = (
    "device_id", "context_id", "stream_id", "kind", "name", "start_ns", "end_ns", "correlation_id",
    "grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z", "registers_per_thread",
    "shared_bytes", "bytes", "copy_kind", "src_kind", "dst_kind", "rank",
)  # fmt: skip


def operations(run) -> pl.DataFrame:
    calls = run.table("host_ops").select(launch_id="host_op_id", launch="name", at="start_ns")
    ops = run.table("device_ops").join(calls, on="launch_id", how="left")
    return ops.select(*SAME, "launch", "at").sort(pl.all())


@pytest.mark.parametrize("dialect", ["2025", "2021"])
@pytest.mark.parametrize("scenario", ["random_program", "exposed_communication", "healthy"])
def test_chrome_reads_back_as_the_same_device_operations(scenario, dialect, tmp_path):
    run = simulated(scenario, dialect=dialect).run
    written = chrome.write(run, tmp_path / "run.json.gz")
    again = door.open(*map(str, written))
    assert operations(again).equals(operations(run))
    host = ["layer", "name", "start_ns", "end_ns", "depth", "input_shapes", "rank"]
    one, two = (r.table("host_ops").select(host).sort(pl.all()) for r in (run, again))
    assert one.equals(two)


@pytest.mark.corpus
def test_chrome_of_a_real_recording_reads_back(corpus, tmp_path):
    path = corpus / "kineto/AMD-AGI__TraceLens/h100/gaunernst_bert-small-uncased__1016001.json.gz"
    run = door.open(str(path))
    again = door.open(*map(str, chrome.write(run, tmp_path / "run.json")))
    assert operations(again).equals(operations(run))


# -- Perfetto, read by a decoder of its own -------------------------------------------------------


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> list[tuple[int, object]]:
    found: list[tuple[int, object]] = []
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
            found.append((key >> 3, value))
        elif key & 7 == 1:
            found.append((key >> 3, data[at : at + 8]))
            at += 8
        else:
            assert key & 7 == 2
            size, at = varint(data, at)
            found.append((key >> 3, data[at : at + size]))
            at += size
    return found


def one(data: bytes, number: int, otherwise: object = None):
    return next((v for n, v in fields(data) if n == number), otherwise)


def slices(data: bytes) -> tuple[Counter, dict[bytes, tuple[set[int], set[int]]]]:
    """(name, start, end) of all slices, as a reader that drops what crosses would see them."""
    names: dict[int, str] = {}
    stacks: dict[int, list[tuple[int, int]]] = {}
    found: Counter = Counter()
    flows: dict[bytes, tuple[set[int], set[int]]] = {}
    packets = [v for n, v in fields(data) if n == 1]
    for packet in packets:
        for number, interned in fields(one(packet, 12, b"")):
            if number == 2:
                names[one(interned, 1)] = one(interned, 2).decode()
    # A stable sort by time, as trace_processor does.
    events = [p for p in packets if one(p, 11) is not None]
    for packet in sorted(events, key=lambda p: one(p, 8)):
        event = one(packet, 11)
        track, kind, time = one(event, 11), one(event, 9), one(packet, 8)
        if kind == 1:
            stacks.setdefault(track, []).append((one(event, 10), time))
            for number, place in ((47, 0), (48, 1)):
                for n, v in fields(event):
                    if n == number:
                        flows.setdefault(v, (set(), set()))[place].add(time)
        elif kind == 2:
            name, start = stacks[track].pop()
            found[names[name], start, time] += 1
    assert not any(stacks.values())
    return found, flows


@pytest.mark.parametrize("scenario", ["random_program", "exposed_communication", "cpu_only"])
def test_perfetto_holds_every_slice_and_every_launch(scenario, tmp_path):
    run = simulated(scenario).run
    (path,) = perfetto.write(run, tmp_path / "run.perfetto-trace")
    found, flows = slices(path.read_bytes())
    rows = pl.concat(
        run.table(t).select("name", "start_ns", "end_ns")
        for t in ("device_ops", "host_ops", "device_ranges")
    ).rows()
    kernels = run.table("device_ops").filter(pl.col("kind") == "kernel").get_column("name")
    labels = label_kernels(kernels.unique(maintain_order=True))
    assert found == Counter((labels.get(name, name), start, end) for name, start, end in rows)
    launched = run.table("device_ops").drop_nulls("launch_id")
    assert sum(len(ends) for _, ends in flows.values()) <= launched.height
    assert all(starts for starts, _ in flows.values())
    assert {struct.unpack("<Q", f)[0] - 1 for f in flows} == set(launched.get_column("launch_id"))


def test_perfetto_keeps_kernels_that_overlap_on_one_stream(tmp_path):
    run = traces.opened(
        tmp_path,
        [
            traces.kernel("first", 0, 100),
            traces.kernel("second", 50, 100),
            traces.kernel("third", 60, 10),
            traces.op("a", 0, 50),
            traces.op("crossing", 25, 50),
        ],
    )
    (path,) = perfetto.write(run, tmp_path / "t")
    found, _ = slices(path.read_bytes())
    lengths = {name: end - start for name, start, end in found}
    assert lengths == {
        "first": 100_000,
        "second": 100_000,
        "third": 10_000,
        "a": 50_000,
        "crossing": 50_000,
    }


# -- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_tables_are_written_whole(form, tmp_path):
    run = simulated("random_program").run
    written = registry.load("exporters", form).write(run, tmp_path / "out")
    assert {p.stem for p in written} == set(run.present())
    for path in written:
        read = pl.read_parquet(path) if form == "parquet" else pl.read_csv(path)
        assert read.height == run.rows(path.stem)
        if form == "parquet":
            assert read.equals(run.table(path.stem))


# -- the command ----------------------------------------------------------------------------------


# nsys_sqlite is of reports only, clustercockpit of a cluster's jobs: their own tests.
FORMS = sorted({*registry.list_names("exporters")} - {"nsys_sqlite", "clustercockpit"})


@pytest.mark.parametrize("form", FORMS)
def test_the_command_writes_each_format(form, tmp_path):
    target = tmp_path / "out"
    outcome = sightline("export", *files_of("healthy", 0, "2025"), "--to", form, "-o", target)
    assert outcome.code == 0, outcome.err
    assert "written" in outcome.err
    assert any(p.is_file() for p in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["export"], "--to perfetto"),
        (["export", "x.json", "--to", "perfeto"], "did you mean perfetto"),
        (["export", "nowhere.json", "--to", "csv"], "there is no such file"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(words, said):
    outcome = sightline(*words)
    assert outcome.code == 2
    assert said in " ".join(outcome.err.split())


def test_the_list_says_what_each_loses():
    out = sightline("export", "--list").out
    assert out.count("loses: ") == len(registry.list_names("exporters"))


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    trace = traces.write(tmp_path, [traces.kernel("k", 0, 5)])
    outcome = sightline("export", trace, "--to", "csv", "-o", tmp_path / "file" / "x")
    assert outcome.code == 2
    assert "cannot write" in outcome.err
    assert Path(tmp_path / "file").read_text() == ""


@pytest.mark.parametrize("kind", ["HtoD", "DtoH", "DtoD", "PtoP"])
def test_chrome_keeps_the_direction_of_copies_whose_name_has_none(kind, tmp_path):
    copy = {
        **traces.kernel("x", 0, 10, 1), "cat": "gpu_memcpy", "name": f"Memcpy {kind}",
    }  # fmt: skip
    run = traces.opened(tmp_path, [copy])
    ops = run.table("device_ops").with_columns(name=pl.lit("__amd_copy_engine"))
    renamed = type(run)(run.parts, None, {"device_ops": ops})
    (path,) = chrome.write(renamed, tmp_path / "run.json.gz")
    again = door.open(str(path)).table("device_ops")
    assert again.get_column("copy_kind").to_list() == [kind]
