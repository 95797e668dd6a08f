"""PyTorch's memory snapshots: what is read, whoever wrote them, and that nothing of them is run."""

from __future__ import annotations

import os
import pickle
import pickletools
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline as sl
from sightline._native import Pickle
from sightline.core.algebra.arrow import unpack_columns
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.errors import DamagedError
from sightline.formats.pytorch import torch_snapshot
from support.campaigns import sample
from support.corpus import list_recordings, name_recording
from support.plain_pickle import load_plain
from support.snapshots import alloc, entry, frames, free, opened, segment, snapshot

PLACE = frames("c.cpp:9:at::empty", "model.py:3:forward", "train.py:7:<module>")
SMALL = snapshot(
    [
        entry("segment_alloc", 4096, 2048, 5, PLACE),
        alloc(4096, 1000, 6, PLACE),
        alloc(5120, 500, 7, PLACE[1:]),
        *free(4096, 1000, 8),
        entry("free_requested", 9000, 64, 9),  # allocated before the history begins
    ],
    [
        segment(4096, (1024, "inactive"), (512, "active_allocated", PLACE[1:]), (512, "inactive")),
        segment(9000, (64, "active_awaiting_free")),
    ],
)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_events_and_their_sums(tmp_path: Path, protocol: int) -> None:
    run = opened(tmp_path, SMALL, protocol)
    names = ("time_ns", "action", "address", "bytes")
    sums = ("allocated_bytes", "active_bytes", "reserved_bytes")
    # The segments' blocks ask for 512 bytes where the event asked for 500: what is held at the end
    # decides, so that 12 bytes stand before the first event, and 64 of the block from before.
    assert run.table("memory_events").select(*names, *sums).rows() == [
        (5_000, "segment_alloc", 4096, 2048, 76, 76, 2112),
        (6_000, "alloc", 4096, 1000, 1076, 1076, 2112),
        (7_000, "alloc", 5120, 500, 1576, 1576, 2112),
        (8_000, "free_requested", 4096, 1000, 576, 1576, 2112),
        (8_000, "free", 4096, 1000, 576, 576, 2112),
        (9_000, "free_requested", 9000, 64, 512, 576, 2112),
    ]
    kinds = run.table("quality").get_column("kind").to_list()
    assert kinds == ["history_starts_late"]


def test_segments_and_blocks(tmp_path: Path) -> None:
    run = opened(tmp_path, SMALL)
    segments = run.table("memory_segments").select("address", "bytes", "allocated_bytes", "pool")
    assert segments.rows() == [(4096, 2048, 512, "[0, 0]"), (9000, 64, 0, "[0, 0]")]
    blocks = run.table("memory_blocks").select("segment_id", "address", "bytes", "state")
    assert blocks.rows() == [
        (0, 4096, 1024, "inactive"),
        (0, 5120, 512, "active_allocated"),
        (0, 5632, 512, "inactive"),
        (1, 9000, 64, "active_awaiting_free"),
    ]
    settings = run.table("memory_settings").select("name", "value").rows()
    assert settings == [("expandable_segments", "false"), ("garbage_collection_threshold", "0.5")]


def test_stacks_are_a_trie_from_the_outermost_frame(tmp_path: Path) -> None:
    run = opened(tmp_path, SMALL)
    nodes = run.table("stacks").join(run.table("frames"), on="frame_id").sort("stack_id")
    assert nodes.select("parent_id", "layer", "function", "file", "line", "depth").rows() == [
        (None, "python", "<module>", "train.py", 7, 0),
        (0, "python", "forward", "model.py", 3, 1),
        (1, "native", "at::empty", "c.cpp", 9, 2),
    ]
    stacks = run.table("memory_events").get_column("stack_id").to_list()
    assert stacks == [2, 2, 1, None, None, None]


def test_keys_that_nobody_knows_are_kept(tmp_path: Path) -> None:
    new = alloc(4096, 8, 1, pool_id=(1, 0), internal_metadata="m", user_metadata="step 1", odd=[2])
    document = snapshot([new], [segment(4096, (8, "active_allocated"), new_key=None)], extra={})
    run = opened(tmp_path, document)
    row = run.table("memory_events").row(0, named=True)
    assert (row["pool"], row["user_metadata"]) == ("[1, 0]", "step 1")
    assert row["other"] == '{"internal_metadata": "m", "odd": [2]}'
    assert run.table("memory_segments").item(0, "other") == '{"new_key": null}'
    assert ("extra", "{}") in run.table("memory_settings").select("name", "value").rows()


def test_pinned_host_memory_and_annotations(tmp_path: Path) -> None:
    marks = [
        {"stage": stage, "name": "step", "device": 0, "time_us": at}
        for stage, at in (("START", 1), ("END", 4))
    ]
    document = snapshot(
        [],
        [],
        host_traces=[[alloc(64, 32, 2)]],
        host_segments=[segment(64, (32, "active_allocated"))],
        external_annotations=marks,
    )
    events = opened(tmp_path, document).table("memory_events")
    assert events.select("time_ns", "device_id", "action", "memory_kind", "name").rows() == [
        (2_000, None, "alloc", "pinned", None),
        (1_000, 0, "range_start", None, "step"),
        (4_000, 0, "range_end", None, "step"),
    ]


def test_blocks_of_torch_2_0_have_a_history_and_no_address(tmp_path: Path) -> None:
    past = [{"addr": 4096, "real_size": 90, "frames": PLACE[1:]}]
    blocks = [
        {"size": 512, "requested_size": 90, "state": "active_allocated", "history": past},
        {"size": 512, "requested_size": 80, "state": "inactive", "history": past},
    ]
    document = {"segments": [segment(4096) | {"total_size": 1024, "blocks": blocks}]}
    run = opened(tmp_path, document)
    rows = run.table("memory_blocks").select("address", "state", "stack_id").rows()
    assert rows == [(4096, "active_allocated", 1), (4608, "inactive", None)]


def test_an_object_that_holds_itself(tmp_path: Path) -> None:
    """What torch never writes, and pickle can: it is written as JSON as deep as that goes."""
    whole: dict[str, Any] = {"segments": [segment(1, (64, "inactive"))], "device_traces": [[]]}
    whole["allocator_settings"] = {"a": whole, "b": [whole]}
    path = tmp_path / "self.pickle"
    path.write_bytes(pickle.dumps(whole))
    assert sl.open(str(path)).rows("memory_segments") == 1


def test_segments_alone(tmp_path: Path) -> None:
    run = opened(tmp_path, [segment(4096, (512, "inactive"))])
    assert run.table("memory_segments").get_column("bytes").to_list() == [512]


def test_events_without_time_keep_their_order(tmp_path: Path) -> None:
    events = [alloc(1, 8, 0), alloc(2, 8, 0)]
    for event in events:
        del event["time_us"]
    run = opened(tmp_path, snapshot(events, []))
    assert run.table("memory_events").get_column("time_ns").to_list() == [0, 1]
    assert "events_without_time" in run.table("quality").get_column("kind").to_list()


class Call:
    """What a pickle of it does when it is loaded: it calls os.system."""

    def __reduce__(self) -> Any:
        return os.system, ("touch CALLED",)


PLAIN = pickle.dumps(SMALL, 4)
HEAD = b"\x80\x04}\x94(\x8c\x08segments"
HOSTILE = {
    "reduce": pickle.dumps({"segments": Call()}, 4),
    "reduce of protocol 2": pickle.dumps({"segments": Call()}, 2),
    "global": HEAD + b"cos\nsystem\n.",
    "stack global": HEAD + b"\x8c\x02os\x8c\x06system\x93.",
    "inst": HEAD + b"(\x8c\x04trueios\nsystem\n.",
    "persistent id": HEAD + b"\x8c\x01xQ.",
    "extension": HEAD + b"\x82\x01.",
    "buffer": HEAD + b"\x97.",
    "deep nesting": HEAD + b"(" * 1_000_000,
    "a stack of nothing": HEAD + b"N" * 20_000_000,
    "objects for two bytes": HEAD + b"]\x94" * 4_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_plain_data_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(DamagedError, match="nothing of it was run"):
        sl.open(str(path))


AUDITED = """
import sys
from pathlib import Path
import sightline as sl
from sightline._native import Pickle
from sightline.core.algebra.arrow import unpack_columns
from sightline.errors import SightlineError

def read(path):
    try:
        sl.open(str(path)).rows("memory_events")
    except SightlineError:
        pass

plain, cut, *others = sorted(Path(sys.argv[1]).iterdir())
read(plain)  # what sightline itself imports and calls
read(cut)
seen = []
watched = ("import", "exec", "compile", "pickle.find_class", "os.system", "subprocess.Popen",
           "os.exec", "os.posix_spawn", "ctypes.dlopen")
sys.addaudithook(lambda event, args: event in watched and seen.append((event, str(args[0]))))
for path in others:
    read(path)
print(len(others), seen)
"""


def test_nothing_is_imported_or_called(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "0.pickle").write_bytes(PLAIN)
    (folder / "1.pickle").write_bytes(PLAIN[:40])
    for i, data in enumerate(HOSTILE.values(), 10):
        (folder / f"{i}.pickle").write_bytes(data)
    found = subprocess.run(
        [sys.executable, "-c", AUDITED, str(folder)], cwd=tmp_path, capture_output=True, text=True
    )
    assert found.stdout == f"{len(HOSTILE)} []\n", found.stderr
    assert not (tmp_path / "CALLED").exists()


def test_a_truncation_keeps_what_is_before_it(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"

    def read(data: bytes) -> tuple[list[tuple[Any, ...]], list[str]]:
        path.write_bytes(data)
        try:
            found = torch_snapshot.read(Source(path, path.name), ImportOptions())
        except DamagedError:
            return [], ["truncated"]
        events = found.tables["memory_events"]
        known = "address" in events.columns  # there are events, not only annotations
        rows = events.select("action", "address", "bytes").rows() if known else []
        return rows, [note.kind for note in found.quality]

    whole, _ = read(PLAIN)
    heights = []
    ends = [at for _, _, at in pickletools.genops(PLAIN)]
    for at in [*sample(ends, 16), ends[-1]]:
        rows, notes = read(PLAIN[:at])
        assert "truncated" in notes
        assert rows[:-1] == whole[: max(len(rows) - 1, 0)]  # of the last one, keys may be missing
        heights.append(len(rows))
    assert heights == sorted(heights)
    assert heights[-1] == len(whole)


def test_the_machine_keeps_what_is_before_every_opcode(tmp_path: Path) -> None:
    """As above, at every opcode, and without the tables that are made of it, which take long."""
    path = tmp_path / "snapshot.pickle"

    def read(data: bytes) -> tuple[list[tuple[int | None, ...]], str]:
        path.write_bytes(data)
        pickle_ = Pickle(str(path))
        while pickle_.read(1 << 20):
            pass
        rows = pickle_.rows(["device_traces"])
        found = unpack_columns(
            pickle_.take(rows, [("addr", "number"), ("size", "number")], 0, rows.rows)
        )
        return found.select("addr", "size").rows(), pickle_.damage

    whole, _ = read(PLAIN)
    expected = [(event["addr"], event["size"]) for event in SMALL["device_traces"][0]]
    assert whole == expected
    heights = []
    for _, _, at in pickletools.genops(PLAIN):
        rows, damage = read(PLAIN[:at])
        assert damage
        assert rows[:-1] == expected[: max(len(rows) - 1, 0)]
        heights.append(len(rows))
    assert heights == sorted(heights)
    assert heights[-1] == len(expected)


def test_a_list_that_is_listed_again_and_again_is_not_multiplied(tmp_path: Path) -> None:
    once = [alloc(i, 8, i) for i in range(2_000)]
    path = tmp_path / "snapshot.pickle"
    data = pickle.dumps({"device_traces": [once] * 20_000}, 4)
    path.write_bytes(data)
    run = sl.open(str(path))
    assert run.rows("memory_events") <= len(data)
    assert "events_left_out" in run.table("quality").get_column("kind").to_list()


def test_a_list_that_holds_itself_ends(tmp_path: Path) -> None:
    knot: list[Any] = []
    knot.append(knot)
    document = snapshot([alloc(1, 8, 1, odd=knot)], [])
    assert opened(tmp_path, document).rows("memory_events") == 1


def test_a_text_of_any_length_takes_little(tmp_path: Path) -> None:
    document = snapshot([alloc(1, 8, 1, user_metadata="x" * 30_000_000)], [])
    run = opened(tmp_path, document)
    assert len(run.table("memory_events").item(0, "user_metadata")) == 64 << 10
    assert "texts_shortened" in run.table("quality").get_column("kind").to_list()


def test_without_events_of_segments_what_they_held_is_not_known(tmp_path: Path) -> None:
    """512 bytes at the end, and 4096 before: the segments of those were given back unseen."""
    events = [alloc(1, 4096, 1), *free(1, 4096, 2)]
    run = opened(tmp_path, snapshot(events, [segment(64, (512, "active_allocated"))]))
    assert run.table("memory_events").get_column("reserved_bytes").to_list() == [None] * 3
    assert "segment_events_missing" in run.table("quality").get_column("kind").to_list()


@pytest.mark.corpus
@pytest.mark.parametrize("path", list_recordings("memory_snapshot/**/*.pickle"), ids=name_recording)
def test_every_sum_equals_an_independent_one(path: Path) -> None:
    """After each event the sum of what was asked for; at the end what the segments hold."""
    document = load_plain(path.read_bytes())
    run = sl.open(str(path))
    held: dict[int, tuple[int, int]] = {}
    for part in document["segments"]:
        allocated, reserved = held.get(part["device"], (0, 0))
        asked = [b["requested_size"] for b in part["blocks"] if b["state"] == "active_allocated"]
        held[part["device"]] = (allocated + sum(asked), reserved + part["total_size"])
    events = run.table("memory_events").filter(~pl.col("action").str.starts_with("range_"))
    for device, trace in enumerate(document["device_traces"]):
        rows = events.filter(pl.col("device_id") == device)
        assert rows.height == len(trace)
        allocated, reserved = held.get(device, (0, 0))
        live: set[int] = set()
        waits = {e["addr"] for e in trace if e["action"] == "free_requested"}
        last = "free_requested" if waits else "free_completed"
        signs = {"alloc": 1, last: -1}
        kept = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
        expected = []
        for event in reversed(trace):
            expected.append((event["size"], allocated, reserved))
            allocated -= signs.get(event["action"], 0) * event["size"]
            reserved -= kept.get(event["action"], 0) * event["size"]
        found = rows.select("bytes", "allocated_bytes", "reserved_bytes").rows()
        # More than its segments hold: their events are missing, and only the end is known.
        told = all(have >= given for _, given, have in expected)
        assert found == [(n, given, have if told else None) for n, given, have in expected[::-1]]
        for event in trace:
            if event["action"] == "alloc":
                live.add(event["addr"])
            elif event["action"] == last:
                live.discard(event["addr"])
        final = run.table("memory_blocks").filter(
            (pl.col("device_id") == device) & (pl.col("state") == "active_allocated")
        )
        if last == "free_requested":
            assert live <= set(final.get_column("address"))
    assert run.table("memory_segments").height == len(document["segments"])
