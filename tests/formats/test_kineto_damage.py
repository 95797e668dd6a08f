"""Damaged recordings: a clear error or a quality row, through the command line, never a traceback.

Exit code 0 is a table of what is left, 2 an error for the user; 3 would be a bug of ours.
"""

from __future__ import annotations

import contextlib
import copy as copying
import gzip
import json
import os
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sightline
from sightline.core import registry
from sightline.core.model.declare import ImportOptions
from sightline.core.model.source import Source
from sightline.errors import SightlineError
from sightline.formats.pytorch import kineto
from support import traces as t
from support.campaigns import examples, sample
from support.command import Outcome
from support.command import sightline as command
from support.processor_time import takes_at_most
from support.simulated import files_of

SECONDS = 20  # far more than any of these files needs on a busy machine

# One event of each kind, in 3 kB, so that every byte can be tried.
TINY: list[Any] = [
    t.step(1, 0, 100),
    t.op("record_param_comms", 1, 20, **{"Collective name": "allreduce", "In msg nelems": 8,
                                       "dtype": "Float", "Process Group Ranks": "[0, 1]"}),
    t.launch(2, 3, 7),
    t.kernel("ncclDevKernel_AllReduce", 10, "5.125", 7, grid=[1, 2, 3], block=[32, 1, 1]),
    t.copy("Memcpy HtoD (Pinned -> Device)", 20, 5, 4096),
    t.flow("s", 7, (t.PID, t.TID), 2), t.flow("f", 7, (0, 7), 10),
    t.event("cuda_sync", "Event Sync", 30, 1, pid=0, tid=7, cuda_sync_kind="Event Sync",
            wait_on_stream=7, stream=7, correlation=9, device=0),
    t.event("gpu_user_annotation", "step", 0, 100, pid=0, tid=7),
    {"ph": "i", "name": "[memory]", "pid": 1, "tid": 1, "ts": 5, "s": "t",
     "args": {"Bytes": 512, "Addr": 9, "Device Type": 1, "Device Id": 0}},
    {"ph": "C", "name": "util", "pid": 0, "ts": 6, "args": {"sm": 5}},
    {"ph": "M", "name": "process_name", "pid": t.PID, "tid": 0, "args": {"name": "python"}},
    {"ph": "B", "name": "outer", "pid": 1, "tid": 1, "ts": 50}, {"ph": "E", "pid": 1, "tid": 1,
                                                               "ts": 60},
]  # fmt: skip
HEADER: dict[str, Any] = {
    "deviceProperties": [{"id": 0, "name": "NVIDIA H100", "numSms": 132}],
    "distributedInfo": {"rank": 0, "world_size": 2},
    "baseTimeNanoseconds": 1_000_000,
}


def asked(path: Path) -> Outcome:
    """The breakdown of a file, checked for what every answer must have."""
    with takes_at_most(SECONDS):
        outcome = command("stats", "breakdown", path, "--format", "json")
    assert outcome.code in (0, 2), outcome.err
    assert "Traceback" not in outcome.err
    if outcome.code == 0:
        for row in json.loads(outcome.out):
            parts = ("compute_ns", "exposed_comm_ns", "exposed_copy_ns", "idle_ns")
            assert sum(row[part] for part in parts) == row["window_ns"]
    else:
        assert outcome.out == ""
        assert outcome.err.startswith("sightline: ")
    return outcome


def count_everything(path: Path) -> int | None:
    """The rows of all tables of a file; None where our own error says why it has none."""
    try:
        run = sightline.open(str(path))
    except SightlineError as error:
        assert error.why
        return None
    return sum(run.table(name).height for name in registry.list_names("tables"))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A recording of the simulator, as text."""
    return files_of("two_threads", 0, "2025")[0].read_bytes()


@pytest.mark.parametrize("part", sample(range(50), 3))
def test_truncation_at_every_fiftieth(tmp_path: Path, real: bytes, part: int) -> None:
    path = t.write_text(tmp_path, real[: len(real) * part // 50])
    outcome = asked(path)
    if part == 0:
        assert outcome.code == 2
        assert "it is empty" in outcome.err
    elif outcome.code == 0:
        assert "truncated" in t.limits(sightline.open(str(path)))


@pytest.mark.parametrize("part", range(0, 50, 7))
def test_truncated_gzip(tmp_path: Path, real: bytes, part: int) -> None:
    packed = gzip.compress(real, mtime=0)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(packed[: len(packed) * part // 50])
    if asked(path).code == 0:
        assert "truncated" in t.limits(sightline.open(str(path)))


def test_truncated_trace_keeps_the_events_before_the_end(tmp_path: Path) -> None:
    events = [t.kernel(f"k{i}", 10 * i, 5) for i in range(100)]
    text = t.text_of(events)
    path = t.write_text(tmp_path, text[: text.index('"k60"')])
    run = sightline.open(str(path))
    assert run.rows("device_ops") == 60
    assert "truncated" in t.limits(run)


def test_truncation_at_every_eleventh_byte(tmp_path: Path) -> None:
    """The importer alone, without the store, so that there is time for many cuts."""
    data = t.text_of(TINY, **HEADER).encode()
    for size in range(0, len(data), 11):
        path = t.write_text(tmp_path, data[:size])
        with contextlib.suppress(SightlineError):
            imported = kineto.read(Source(path, "trace.json"), ImportOptions())
            assert imported.tables["device_ops"].height <= 2
            assert "truncated" in {q.kind for q in imported.quality}


@pytest.mark.parametrize("seed", sample(range(20), 2))
def test_flipped_bits(tmp_path: Path, real: bytes, seed: int) -> None:
    rng, data = Random(seed), bytearray(real)
    for _ in range(rng.choice((1, 5, 50))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    outcome = asked(t.write_text(tmp_path, bytes(data)))
    assert outcome.code == 0, "at most fifty bits of thousands of events"


@pytest.mark.parametrize("seed", range(10))
def test_flipped_bits_in_gzip(tmp_path: Path, real: bytes, seed: int) -> None:
    rng, data = Random(seed), bytearray(gzip.compress(real, mtime=0))
    data[rng.randrange(10 if seed < 3 else 0, len(data))] ^= 1 << rng.randrange(8)
    path = tmp_path / "trace.json.gz"
    path.write_bytes(bytes(data))
    if asked(path).code == 0:
        assert sightline.open(str(path)).rows("device_ops") > 0


# -- any field of any event by any value --------------------------------------------------------


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something can be replaced: every key and index, at every depth."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, item in inner:
        found.append((*path, key))
        if isinstance(item, (dict, list)):
            found += places(item, (*path, key))
    return found


DOCUMENT: dict[str, Any] = {"schemaVersion": 1, **HEADER, "traceEvents": TINY}
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(2**62, 2**66),
    st.floats(),
    st.text(),
    st.sampled_from(["", "-1", "stream 7", "0x10", "١٢", "1e400", "\ud800", "999999999999999999"]),
    st.lists(st.integers(), max_size=4),
    st.just({}),
    st.just([[]]),
    st.just({"a": {"b": 1}}),
)


@given(st.lists(st.tuples(st.sampled_from(places(DOCUMENT)), values), min_size=1, max_size=3))
@settings(max_examples=examples(40))
def test_any_value_in_any_field(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[tuple[Any, ...], Any]]
) -> None:
    document = copying.deepcopy(DOCUMENT)
    for (*way, last), value in changes:
        target: Any = document
        try:
            for key in way:
                target = target[key]
            target[last] = value
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change has removed the place
    folder = tmp_path_factory.mktemp("swap")
    path = t.write_text(folder, json.dumps(document))
    rows = count_everything(path)
    assert rows != 0  # what was lost is a row, too
    # A file that cannot be opened is refused by the command, too.
    assert asked(path).code == 2 or rows is not None


FIELDS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "bp"]
VALUES = [None, True, -1, 2**63, 2**70, "x", [], {}]


@pytest.mark.parametrize(("field", "value"), sample(list(product(FIELDS, VALUES)), 3), ids=repr)
def test_each_field_of_all_events_at_once(tmp_path: Path, field: str, value: Any) -> None:
    path = t.write(tmp_path, [{**event, field: value} for event in TINY], **HEADER)
    rows = count_everything(path)
    assert rows != 0
    outcome = asked(path)
    # What these fields hold is not needed to know when something ran on a device.
    assert outcome.code == 0 or field in ("ph", "cat", "name", "pid", "ts", "dur", "args"), outcome


# -- files that are no recordings ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("   \n", ""),
        ("hello world", "no known format"),
        ("{}", "holds nothing"),
        ('{"a": 1, "b": [1, 2]}', "not a trace"),
        ("[1, 2, 3]", "no known format"),
        ('["a", "b"]', "no known format"),
        ("{", ""),
        ('{"traceEvents": 5}', "not a trace"),
        ('{"traceEvents": null}', "not a trace"),
        ("\x00" * 100, ""),
        ("<html></html>", ""),
        ('{"traceEvents": {"a": 1}}', "not a trace"),
        ("null", ""),
        ("12", ""),
        ('"text"', ""),
    ],
)
def test_file_that_is_no_trace(tmp_path: Path, text: str, words: str) -> None:
    outcome = asked(t.write_text(tmp_path, text))
    assert outcome.code == 2
    assert "trace.json" in outcome.err
    assert words in " ".join(outcome.err.split())


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_trace_without_events_is_a_clear_error(tmp_path: Path, name: str) -> None:
    outcome = asked(t.write(tmp_path, [], name))
    assert outcome.code == 2
    assert "no device_ops" in outcome.err


def test_binary_rubbish(tmp_path: Path) -> None:
    assert asked(t.write_text(tmp_path, bytes(range(256)) * 40)).code == 2


def test_gzip_of_nothing(tmp_path: Path) -> None:
    assert asked(t.write_text(tmp_path, "", "trace.json.gz")).code == 2


def test_file_that_is_not_there(tmp_path: Path) -> None:
    outcome = asked(tmp_path / "nothing.json")
    assert outcome.code == 2
    assert "no such file" in outcome.err


@pytest.mark.parametrize("inside", [[], ["readme.txt"], ["a/b/notes.md"]], ids=str)
def test_folder_without_recordings(tmp_path: Path, inside: list[str]) -> None:
    for name in inside:
        t.write_text(tmp_path, "text", name)
    outcome = asked(tmp_path)
    assert outcome.code == 2
    assert "no recordings" in outcome.err


def test_glob_without_a_match(tmp_path: Path) -> None:
    outcome = asked(tmp_path / "*.json")
    assert outcome.code == 2
    assert "no file matches" in outcome.err


def test_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = t.write(tmp_path, TINY)
    path.chmod(0)
    if os.access(path, os.R_OK):  # root reads everything: let the system call say no

        def refuse(self: Path, *args: Any, **kwargs: Any) -> Any:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "open", refuse)
    outcome = asked(path)
    assert outcome.code == 2
    assert "permission denied" in outcome.err


def test_named_pipe_into_which_nobody_writes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading one would wait for ever."""
    monkeypatch.setattr("sightline.doors.cli._streams.WAIT_S", 0.05)
    path = tmp_path / "pipe.json"
    os.mkfifo(path)
    outcome = asked(path)
    assert outcome.code == 2
    assert "nothing has been written into this pipe" in outcome.err


# -- ways to name recordings --------------------------------------------------------------------


@pytest.fixture
def several(tmp_path: Path) -> Path:
    for rank in range(3):
        name = f"rank{rank}.json" + (".gz" if rank == 1 else "")
        t.write(tmp_path, [t.kernel("k", rank, 5)], name)
    t.write_text(tmp_path, "no recording", "notes.txt")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["."],
        ["*.json*"],
        ["rank0.json", "rank1.json.gz", "rank2.json"],
        ["rank2.json", "."],
        ["rank[02].json", "rank1.json.gz"],
    ],
    ids=str,
)
def test_folders_globs_and_lists_give_the_same_run(several: Path, words: list[str]) -> None:
    outcome = command("stats", "breakdown", *(several / w for w in words), "--json")
    rows = json.loads(outcome.out)
    assert [(r["rank"], r["window_ns"]) for r in rows] == [(0, 5000), (1, 5000), (2, 5000)]


def test_plain_and_compressed_give_the_same(tmp_path: Path) -> None:
    plain = t.write(tmp_path, TINY, "a.json", **HEADER)
    packed = t.write(tmp_path, TINY, "b.json.gz", **HEADER)
    for table in ("device_ops", "host_ops", "collectives", "syncs", "counters"):
        first, second = (sightline.open(str(p)).table(table) for p in (plain, packed))
        assert first.equals(second)


def test_part_10_follows_part_9(tmp_path: Path) -> None:
    for number in (10, 9, 1):
        t.write(tmp_path, [t.kernel("k", number, 5)], f"part{number}.json")
    run = sightline.open(str(tmp_path), same_job=True)
    assert run.table("device_ops").sort("rank")["start_ns"].to_list() == [1_000, 9_000, 10_000]


def test_a_trace_without_an_event_is_one(tmp_path: Path) -> None:
    """As the front end of an inference server writes it."""
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": []}')
    assert sightline.open(str(path)).rows("host_ops") == 0


@pytest.mark.parametrize("text", ["[", "[]", " [ ] ", "[{"])
def test_a_list_without_an_event_is_no_trace(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t.json"
    path.write_text(text)
    with pytest.raises(SightlineError):
        sightline.open(str(path))
