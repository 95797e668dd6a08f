"""CTF 2: written, read back by our reader, and its streams by babeltrace2."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from sightline.core.model.tables import load_table
from sightline.views.exports import ctf2
from support import traces
from support.kernel_traces import RUNNABLE, SLEEPS, KernelTrace
from support.simulated import simulated

TABLES = [name for name in ctf2._TABLES if name != "threads"]


def compare(one: Run, two: Run, tables: list[str], *without: str) -> int:
    """All rows of these tables, in all columns that are not ids and no other moments."""
    rows = 0
    for name in tables:
        kept = [
            c.name
            for c in load_table(name).stored
            if c.name not in without
            and not (c.is_id or c.joins)
            and not (c.moment and c.name not in ctf2._TABLES[name])
        ]
        frames = [run.table(name).select("rank", *kept) for run in (one, two)]
        first, second = (f.select(pl.all().cast(pl.String)).sort(pl.all()) for f in frames)
        assert first.equals(second), name
        rows += first.height
    return rows


@pytest.mark.parametrize("scenario", ["random_program", "exposed_communication", "healthy"])
def test_reads_back_as_the_same_run(scenario: str, tmp_path: Path) -> None:
    run = simulated(scenario).run
    ctf2.write(run, tmp_path / "out")
    again = sightline.open(str(tmp_path / "out"))
    assert compare(run, again, TABLES) > 100
    calls = [
        r.table("device_ops")
        .join(r.table("host_ops").select(launch_id="host_op_id", at="start_ns"), on="launch_id")
        .select("rank", "start_ns", "name", "at")
        .sort(pl.all())
        for r in (run, again)
    ]
    assert calls[0].equals(calls[1])
    assert calls[0].height > 10


def test_a_kernel_s_trace_and_texts_of_any_kind(tmp_path: Path) -> None:
    trace = KernelTrace().switch(0, 0, 0, RUNNABLE, 7).wake(30, 0, 8).interrupt(40, 45, 0, 3, "x")
    trace.request(50, 60, 0, 8).read(61, 70, 0, -5).switch(80, 0, 7, SLEEPS, 0)
    run = sightline.open(str(trace.write(tmp_path / "kernel", offset=0)))
    ctf2.write(run, tmp_path / "out")
    again = sightline.open(str(tmp_path / "out"))
    compare(run, again, TABLES, "pid")
    names = traces.opened(tmp_path / "t", [traces.op('é"\\{}', 5, 6), traces.op("", 20, 6)])
    ctf2.write(names, tmp_path / "names")
    compare(names, sightline.open(str(tmp_path / "names")), ["host_ops"])


def test_each_rank_is_a_recording(tmp_path: Path) -> None:
    run = traces.opened_ranks(
        tmp_path, *([traces.launched(1, traces.kernel("k", 5 + rank, 3))] for rank in range(3))
    )
    ctf2.write(run, tmp_path / "out")
    again = sightline.open(str(tmp_path / "out"))
    assert again.table("recordings").get_column("rank").to_list() == [0, 1, 2]
    compare(run, again, TABLES)


@pytest.mark.corpus
@pytest.mark.parametrize(
    "path",
    [
        "ctf/efficios__babeltrace/ctf-traces/succeed/lttng-tracefile-rotation",
        "nsys/hpcgroup__pipit/pipit/tests/data/saxpy-mpi-cuda_nsys_perlmutter0.sqlite",
    ],
)
def test_a_real_recording_reads_back(corpus: Path, path: str, tmp_path: Path) -> None:
    run = sightline.open(str(corpus / path))
    ctf2.write(run, tmp_path / "out")
    # A thread whose process was not recorded reads back as a process of its own.
    unknown = run.table("host_ops").get_column("pid").null_count() > 0
    without = ["pid"] if unknown else []
    assert compare(run, sightline.open(str(tmp_path / "out")), TABLES, *without) > 3000


# -- the same streams, declared in the older language, as babeltrace2 reads them ------------------

OLD = {"fixed-length-signed-integer": "i64", "fixed-length-floating-point-number": "f64"}


def declare_in_tsdl(metadata: str) -> str:
    """CTF 1.8's metadata of the same layout: a variant stands for what may be missing."""
    lines = [
        "/* CTF 1.8 */ typealias integer { size = 64; align = 8; signed = false; } := u64;",
        "typealias integer { size = 64; align = 8; signed = true; } := i64;",
        "typealias integer { size = 32; align = 8; signed = false; } := u32;",
        "typealias integer { size = 8; align = 8; signed = false; } := u8;",
        "typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;",
        "trace { major = 1; minor = 8; byte_order = le; "
        "packet.header := struct { u32 magic; u64 stream_id; }; };",
    ]
    for text in metadata.split("\x1e")[1:]:
        fragment = json.loads(text)
        if fragment["type"] == "clock-class":
            offset = fragment["offset-from-origin"]
            lines.append(
                f"clock {{ name = c; freq = 1000000000; offset_s = {offset['seconds']}; "
                f"offset = {offset['cycles']}; }}; typealias integer "
                "{ size = 64; align = 8; signed = false; map = clock.c.value; } := t64;"
            )
        elif fragment["type"] == "data-stream-class":
            lines.append(
                f"stream {{ id = {fragment['id']}; packet.context := struct {{ u64 packet_size; "
                "u64 content_size; t64 timestamp_begin; t64 timestamp_end; }; "
                "event.header := struct { t64 timestamp; }; };"
            )
        elif fragment["type"] == "event-record-class":
            fields = []
            for member in fragment["payload-field-class"]["member-classes"]:
                kind, name = member["field-class"], member["name"]
                if kind["type"] == "fixed-length-boolean":
                    fields.append(f"enum : u8 {{ none = 0, some = 1 }} _{name};")
                elif kind["type"] == "optional":
                    inner = OLD.get(kind["field-class"]["type"], "string")
                    fields.append(
                        f"variant <_has_{name}> {{ struct {{ }} none; {inner} some; }} _{name};"
                    )
                else:
                    fields.append(f"{OLD.get(kind['type'], 'string')} _{name};")
            lines.append(
                f'event {{ name = "{fragment["name"]}"; '
                f"stream_id = {fragment['data-stream-class-id']}; "
                f"fields := struct {{ {' '.join(fields)} }}; }};"
            )
    return "\n".join(lines)


@pytest.mark.skipif(shutil.which("babeltrace2") is None, reason="babeltrace2 is not installed")
def test_babeltrace2_reads_the_streams(tmp_path: Path) -> None:
    run = simulated("exposed_communication").run
    for path in ctf2.write(run, tmp_path / "out"):
        if path.name == "metadata":
            path.write_text(declare_in_tsdl(path.read_text()))
    done = subprocess.run(
        ["babeltrace2", "--clock-seconds", "--names=all", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=True,
    )
    event = re.compile(
        r'timestamp = (\d+)\.(\d{9}), .*name = sightline:device_ops, .* name = "(.*?)"'
    )
    theirs = sorted(
        (int(found[1]) * 10**9 + int(found[2]), found[3])
        for found in map(event.search, done.stdout.splitlines())
        if found
    )
    ours = run.table("device_ops").select("start_ns", pl.col("name").cast(pl.String)).rows()
    assert theirs == sorted(ours)
    lines = done.stdout.count("name = sightline:host_ops")
    assert lines == run.rows("host_ops")
