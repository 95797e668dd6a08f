"""Files of `sightline probe`, written here: what their words mean, losses, damage."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import sightline
from sightline.core.model.block_file import read_blocks
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.probe_file import CALLS, NESTED, RECORD, ProbeWriter
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.own import sightline_probe
from sightline.formats.own.sightline_probe import tables
from support.damage import survive_damage

FUNCTIONS = [
    ["cudaLaunchKernel", "runtime", "launch"], ["cuLaunchKernel", "driver", "launch"],
    ["cudaMemcpy", "runtime", "copy"], ["cudaMalloc", "runtime", "allocate"],
    ["cudaStreamSynchronize", "runtime", "wait"], ["ncclAllGather", "library", "collective"],
    ["cudaDeviceSynchronize", "runtime", "wait"], ["cudaGraphLaunch", "runtime", "graph"],
]  # fmt: skip
OFFSET = 1_700_000_000_000_000_000
BLOCK = 32 | 4 << 16 | 2 << 32
CALLS_MADE: list[tuple[Any, ...]] = [
    # function, start, end, flags, stack, result, words
    (0, 100, 190, 0, 3, 0, (0x55, 7 | 5 << 32, 3 | 2048 << 32, BLOCK, 9)),
    (1, 120, 180, NESTED, -1, 0, (0x66, 7 | 5 << 32, 3 | 2048 << 32, BLOCK, 9)),
    (2, 200, 260, 0, -1, 0, (0x1000, 0x2000, 4096, 2, 0)),
    (2, 300, 310, 0, -1, 1, (0x1000, 0x2000, 64, 4, 0)),
    (3, 320, 330, 0, -1, 0, (0xFFFF800000000000, 512, 0, 0, 0)),
    (4, 400, 900, 0, -1, 0, (9, 0, 0, 0, 9)),
    (5, 910, 920, 0, -1, 0, (1000, 6, 0, 0xC0, 9)),
    (6, 930, 990, 0, -1, 0, (0, 0, 0, 0, 0)),
    (7, 1000, 1010, 0, -1, 0, (0x77, 0, 0, 0, 9)),
]


def make_records(calls: list[tuple[Any, ...]] = CALLS_MADE) -> np.ndarray[Any, Any]:
    records = np.zeros(len(calls), RECORD)
    for row, (function, start, end, flags, stack, result, words) in enumerate(calls):
        records[row] = (start, end, 42, 43, function, flags, stack, result, 0xABC, words)
    return records


def write(path: Path, **more: Any) -> Path:
    path.unlink(missing_ok=True)
    writer = ProbeWriter(path, 50)
    writer.write_facts(
        {
            "sightline": "1",
            "pid": 42,
            "process": "train",
            "rank": 3,
            "clock": [[50, OFFSET + 50]],
            "stacks": True,
            "call_cost_ns": 800,
        }
    )
    writer.write_calls(make_records())
    writer.write_facts(
        {
            "functions": FUNCTIONS,
            "kernels": {"0x55": "_Z5saxpyifPfS_"},
            "call_stacks": {"3:abc": [["prog", "once"], ["", "py::step:/home/me/train.py"]]},
            "totals": {n[0]: {"entered": 1, "returned": 1, "lost": 0} for n in FUNCTIONS},
            "span_ns": [50, 2000],
            "clock": [[50, OFFSET + 50], [2000, OFFSET + 2030]],
            "finished": "stopped",
            **more,
        }
    )  # fmt: skip
    writer.close()
    return path


def read(path: Path) -> Imported:
    return sightline_probe.read(Source(path, path.name), ImportOptions())


def test_what_words_mean(tmp_path: Path) -> None:
    found = read(write(tmp_path / "rank3-0123abcd-42.probe"))
    host, asked = found.tables["host_ops"], found.tables["requests"]
    assert host.get_column("start_ns").to_list()[0] == OFFSET + 100
    inner = host.filter(pl.col("name") == "cuLaunchKernel").row(0, named=True)
    assert (inner["parent_id"], inner["depth"]) == (0, 1)
    kinds = ["kernel", "memcpy", "memcpy", "alloc", "collective", "graph"]
    assert asked.get_column("kind").to_list() == kinds  # the driver's launch is not a second one
    launch, copy, failed, memory, gather, graph = asked.to_dicts()
    assert [launch[f"{w}_{d}"] for w in ("grid", "block") for d in "xyz"] == [7, 5, 3, 32, 4, 2]
    assert launch["dynamic_shared_bytes"] == 2048 and launch["handle"] == 0x55
    assert launch["name"] == "saxpy(int, float, float*, float*)"
    assert (copy["copy_kind"], copy["bytes"], copy["address"]) == ("DtoH", 4096, 0x1000)
    assert (failed["copy_kind"], failed["return_value"]) == (None, 1)
    assert memory["address"] == 0xFFFF800000000000 - (1 << 64)  # the same 64 bits
    assert (gather["op"], gather["dtype"], gather["bytes"]) == ("allgather", "float16", 2000)
    assert graph["handle"] == 0x77
    waits = found.tables["syncs"].select("kind", "start_ns", "end_ns").rows()
    assert waits == [("stream", OFFSET + 400, OFFSET + 900),
                     ("context", OFFSET + 930, OFFSET + 990)]  # fmt: skip
    frames = found.tables["frames"].select("layer", "function", "file").rows()
    assert ("python", "step", "/home/me/train.py") in frames
    recording = found.recording
    assert (recording.rank, recording.clock_offset_ns, recording.clock_uncertainty_ns) == (
        3, OFFSET, 30,
    )  # fmt: skip
    assert (recording.start_ns, recording.end_ns) == (OFFSET + 50, OFFSET + 2000)
    kinds = [note.kind for note in found.quality]
    assert kinds == ["no_device_times", "overhead"]


def test_losses_are_said(tmp_path: Path) -> None:
    totals = {"cudaMemcpy": {"entered": 12, "returned": 10, "lost": 8}}
    found = read(write(tmp_path / "x.probe", totals=totals, misses={"kernels": 4, "samples": 6},
                       kernels={}, refused=[["lib", "cudaFree", "why"]]))  # fmt: skip
    notes = {note.kind: note for note in found.quality}
    assert notes["calls_lost"].count == 6 or "cudaMemcpy" in notes["calls_lost"].text
    lost = [note.count for note in found.quality if note.kind == "calls_lost"]
    assert sorted(filter(None, lost)) == [6, 8]
    assert notes["probe_tables_full"].count == 4
    assert notes["not_probed"].count == 1 and "cudaFree" in notes["not_probed"].text
    assert "calls_open" not in notes  # with gaps nobody knows which calls are open
    found = read(write(tmp_path / "x.probe", totals=totals))
    (still,) = [note for note in found.quality if note.kind == "calls_open"]
    assert still.count == 2 and "cudaMemcpy" in still.text


def test_a_file_that_was_not_finished(tmp_path: Path) -> None:
    whole = write(tmp_path / "x.probe").read_bytes()
    with io.BytesIO(whole[32:]) as stream:
        sizes = [len(block.content) + 16 for block in read_blocks(stream)]
    cut = tmp_path / "cut.probe"
    # In the middle of the calls: whole ones are kept; their functions are not known then.
    cut.write_bytes(whole[: 32 + sizes[0] + 16 + 3 * RECORD.itemsize + 5])
    found = read(cut)
    kinds = [note.kind for note in found.quality]
    assert "truncated" in kinds and "damaged_events" in kinds
    # Facts that come early make the rest readable.
    writer = ProbeWriter(tmp_path / "early.probe", 50)
    writer.write_facts({"functions": FUNCTIONS, "clock": [[50, 50]]})
    writer.write_calls(make_records())
    writer.close()
    content = (tmp_path / "early.probe").read_bytes()
    (tmp_path / "early.probe").write_bytes(content[:-100])
    found = read(tmp_path / "early.probe")
    assert found.tables["host_ops"].height == len(CALLS_MADE) - 2
    assert {"truncated"} < {note.kind for note in found.quality} | {"x"}


def test_calls_beyond_the_most_are_counted(tmp_path: Path) -> None:
    found = tables.read_probe(Source(write(tmp_path / "x.probe"), "x.probe"), most_calls=4)
    assert found.tables["host_ops"].height == 4
    (note,) = [note for note in found.quality if note.kind == "calls_left_out"]
    assert note.count == len(CALLS_MADE) - 4
    assert note.text.startswith("only the first 4 calls are read")


def test_no_header(tmp_path: Path) -> None:
    (tmp_path / "x.probe").write_bytes(b"SIGHTLINE-PROBE\n\x01")
    with pytest.raises(DamagedError, match="ends inside its header"):
        read(tmp_path / "x.probe")
    (tmp_path / "x.probe").write_bytes(b"SIGHTLINE-PROBE\n" + b"\x09" + bytes(15))
    with pytest.raises(DamagedError, match="version 9"):
        read(tmp_path / "x.probe")


def test_damage(tmp_path: Path) -> None:
    survive_damage(
        sightline_probe.read, tmp_path / "x.probe", write(tmp_path / "y.probe").read_bytes()
    )


def test_facts_of_strangers(tmp_path: Path) -> None:
    """Any JSON in the place of each fact."""
    names = ("functions", "kernels", "call_stacks", "totals", "span_ns", "clock", "refused",
             "misses", "call_cost_ns", "stacks", "rank", "process", "local_rank")  # fmt: skip
    odd: tuple[Any, ...] = (None, [], {}, [[]], {"a": 1}, {"a": {}}, "x", -1, 2**70, [None], [1, 2],
                            [["a", "b", "c"]], [2**70, "x"], {"0x" + "f" * 99: "x"}, {"3:abc": 7},
                            {"3:abc": [[1, 2], ["m", 3]]}, 1e308)  # fmt: skip
    for name in names:
        for value in odd:
            assert isinstance(read(write(tmp_path / "x.probe", **{name: value})), Imported)


def test_answers(tmp_path: Path) -> None:
    """What the analyses make of it, counted by hand."""
    run = sightline.open(str(write(tmp_path / "x.probe")))
    calls = {row["name"]: row for row in run.ask("api_calls").to_dicts()}
    # 890 ns from the first call to the last one's end are 910: 1010 - 100.
    wait = calls["cudaStreamSynchronize"]
    assert (wait["purpose"], wait["own_ns"]) == ("wait", 500)
    assert wait["window_pct"] == pytest.approx(100 * 500 / 910)
    assert wait["calls_per_s"] == pytest.approx(1e9 / 910)
    launch = calls["cudaLaunchKernel"]
    assert (launch["total_ns"], launch["own_ns"], launch["purpose"]) == (90, 30, "launch")
    assert (calls["cudaMemcpy"]["calls"], calls["cudaMemcpy"]["failed"]) == (2, 1)
    assert calls["ncclAllGather"]["purpose"] == "communicate"
    assert calls["cudaMalloc"]["purpose"] == "allocate"
    assert calls["cudaGraphLaunch"]["purpose"] == "launch"
    (kernel,) = run.ask("requested_kernels").to_dicts()
    assert (kernel["launches"], kernel["call_ns"], kernel["grid_y"]) == (1, 90, 5)
    copies = run.ask("requested_copies").select("copy_kind", "copies", "failed", "bytes").rows()
    assert copies == [("DtoH", 1, 0, 4096), (None, 0, 1, 0)]


def test_the_screen_says_what_was_asked(tmp_path: Path) -> None:
    from sightline.answer.summary import answer_run
    from sightline.views.terminal.screen import render_screen

    run = sightline.open(str(write(tmp_path / "x.probe")))
    screen = render_screen(answer_run(run)).plain
    lines = [" ".join(line.split()) for line in screen.splitlines()]
    assert "waiting for the GPU 61.5 % 560 ns 2 2,197,802" in lines
    assert "saxpy 1 1,098,901 7×5×3 32×4×2" in lines
    assert "DtoH, waits 1 4.096 kB 60 ns" in lines
    assert any(line.startswith("· calls were seen where the CPU makes them") for line in lines)


def test_blocks_that_are_longer_than_the_file_take_no_memory(tmp_path: Path) -> None:
    import struct

    content = struct.pack("<IIQ", CALLS, 0, 1 << 62) + b"x" * 100
    (block,) = read_blocks(io.BytesIO(content))
    assert (len(block.content), block.missing) == (100, (1 << 62) - 100)
