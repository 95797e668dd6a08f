"""The compiled recorder writes what the plain one writes, and hands over what it does not know."""

from __future__ import annotations

import gc
import itertools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import sightline
import sightline as sl
from sightline.core.model import event_file as f
from sightline.record.inline import compiled, recorder, session, usage
from sightline.record.inline.annotate import PlainRange
from support.recorders import KINDS, use_recorder

if compiled.marks is None:
    pytest.skip("sightline._marks is not built here", allow_module_level=True)


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run that this process itself is recorded into; no profiler of a framework listens."""
    for framework in ("jax", "torch"):  # which another test may have imported
        monkeypatch.delitem(sys.modules, framework, raising=False)
    session.start({"folder": str(tmp_path)})
    yield tmp_path
    session.end()


def read_slots(folder: Path) -> list[tuple[int, ...]]:
    """All slots of the one event file there, as EVENT."""
    (path,) = folder.glob(f"*{f.SUFFIX}")
    data = path.read_bytes()
    found = [tuple(f.EVENT.unpack_from(data, at)) for at in range(64, len(data), f.SLOT)]
    return found[: max((n for n, slot in enumerate(found) if slot[-1]), default=-1) + 1]


def work() -> None:
    """Each kind of range and mark, in threads and nested, with and without a payload."""
    with sl.annotate("outer"), sl.annotate("inner", {"n": 1}), sl.annotate("inner"):
        sl.mark("moment")
        sl.mark("moment", payload=[1])
    same = sl.annotate(name=5)
    for _ in range(3):
        with same:
            pass
    for _ in range(4):
        sl.step()
    with pytest.raises(KeyError), sl.annotate("outer"):
        raise KeyError
    sl.annotate("decorated")(lambda: sl.mark("inside"))()
    thread = threading.Thread(target=lambda: sl.annotate("of a thread").__enter__())
    thread.start()
    thread.join()


def test_both_write_the_same_slots(tmp_path: Path) -> None:
    written = []
    for kind in KINDS:
        folder = tmp_path / kind
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patched:
            use_recorder(kind, patched)
            session.start({"folder": str(folder)})
            work()
            session.end()
        slots = read_slots(folder)
        threads: dict[int, int] = {}
        kinds = (f.OPEN, f.RANGE, f.MARK, f.STEP, f.OPEN_STEP, f.VOID)
        # Times differ, and threads' numbers: they are compared by the order in which they come.
        written.append(
            [
                (name, threads.setdefault(thread, len(threads)), extra, flags, device, kind)
                for first, second, name, thread, extra, flags, device, kind in slots
                if kind in kinds
            ]
        )
        for first, second, *_, kind in slots:
            if kind == f.RANGE:
                assert 0 < first <= second
            elif kind in (f.MARK, f.OPEN):
                assert first > 0
                assert second == 0
    assert written[0] == written[1]
    assert len([slot for slot in written[0] if slot[-1] == f.RANGE]) == 8


def test_the_usual_range_asks_no_python(recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the compiled part could be the plain one all the time, and nothing would show it."""
    sl.annotate("attention").__enter__()
    sl.mark("moment")
    monkeypatch.setattr(usage, "EVERY_NS", 10**12)
    sl.step()
    lines: list[str] = []
    sys.setprofile(lambda frame, event, _: event == "call" and lines.append(frame.f_code.co_name))
    try:
        with sl.annotate("attention"):
            sl.mark("moment")
            sl.step()
    finally:
        sys.setprofile(None)
    assert lines == []


@pytest.mark.parametrize("listener", ["jax", "torch", "nvtx", "torch that is silent"])
def test_where_others_may_listen_python_is_asked(
    recorded: Path, monkeypatch: pytest.MonkeyPatch, listener: str
) -> None:
    with sl.annotate("x"):
        pass
    from sightline.record.inline import annotate

    asked: list[str] = []
    monkeypatch.setattr(annotate, "enter_others", lambda name, labels: asked.append(name) or [])
    if listener == "nvtx":
        monkeypatch.setattr(session.state, "nvtx", True)
    else:
        word, _, silent = listener.partition(" ")
        monkeypatch.setitem(sys.modules, word, type(sys)(word))
        monkeypatch.setattr(session.state, "listens", lambda: not silent)
    with sl.annotate("x"):
        pass
    assert asked == ([] if listener == "torch that is silent" else ["x"])
    session.end()
    assert [s[-1] for s in read_slots(recorded)].count(f.RANGE) == 2


def test_a_full_file_loses_what_has_no_room_and_says_how_much(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "MAX_BYTES", f.CHUNK)
    with sl.annotate("a"):
        pass
    slots = session.state.recorder._free[1]  # type: ignore[union-attr]
    room = f.CHUNK // f.SLOT - slots() // f.SLOT - 1
    for _ in range(room + 10):
        with sl.annotate("a"):
            pass
    assert session.state.recorder is not None
    assert session.state.recorder.lost == 10
    kinds = [s[-1] for s in read_slots(recorded)]
    assert kinds.count(f.RANGE) == room + 1
    # Our own bound is no full disk.
    monkeypatch.setattr(f, "MOST_BYTES", f.CHUNK)
    quality = sightline.open(str(recorded)).table("quality")
    (lost,) = quality.filter(pl.col("kind") == "events_lost").iter_rows(named=True)
    assert lost["count"] == 10
    assert "a process marks" in lost["text"] and "disk" not in lost["remedy"]


def test_nothing_is_kept_of_ranges_that_are_over(recorded: Path) -> None:
    name = "a name of its own"
    for _ in range(3):
        with sl.annotate(name):
            sl.mark(name)
    file = session.state.recorder
    held = [file, file.numbers, file._free, file._free[1], name]  # type: ignore[union-attr]
    before = [sys.getrefcount(one) for one in held]
    for _ in range(1000):
        with sl.annotate(name) as entered:
            sl.mark(name)
        del entered
    assert [sys.getrefcount(one) for one in held] == before
    one = sl.annotate("left open")
    one.__enter__()
    assert gc.is_tracked(one)
    del one
    gc.collect()
    assert [sys.getrefcount(one) for one in held] == before


def test_memory_of_an_open_range_stays_though_its_file_is_gone(recorded: Path) -> None:
    with sl.annotate("a"):
        pass
    still = sl.annotate("a")
    still.__enter__()
    session.end()
    gc.collect()
    still.__exit__(None, None, None)
    _, late = [s for s in read_slots(recorded) if s[-1] == f.RANGE]
    assert late[1] > late[0]


FORK = """
import os, sys, sightline as sl
with sl.annotate("x"):
    pass
pid = os.fork()
for _ in range(2):
    with sl.annotate("x"):
        pass
if pid:
    os.waitpid(pid, 0)
else:
    sys.exit(0)
"""


def test_a_forked_process_has_its_own_file_and_thread(tmp_path: Path) -> None:
    env = {**os.environ, session.VARIABLE: json.dumps({"folder": str(tmp_path)})}
    subprocess.run([sys.executable, "-c", FORK], env=env, check=True)
    counts = {}
    for path in tmp_path.glob("*.events"):
        data = path.read_bytes()
        slots = [f.EVENT.unpack_from(data, at) for at in range(64, len(data), f.SLOT)]
        pid = f.HEADER.unpack_from(data)[2]
        ranges = [s for s in slots if s[-1] == f.RANGE]
        assert {s[3] for s in ranges} == {pid}  # a main thread's number is its process's
        counts[pid] = len(ranges)
    assert sorted(counts.values()) == [2, 3]


def test_steps_ask_python_where_there_is_something_to_do(
    recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A schedule that waits, counters that are due, a chunk that is full."""
    sl.step()
    ended: list[int] = []
    monkeypatch.setattr(session.state, "at_step", ended.append)
    sl.step()
    assert ended == [2]
    monkeypatch.setattr(session.state, "at_step", None)
    file = session.state.recorder
    assert file is not None
    monkeypatch.setattr(usage, "EVERY_NS", 0)
    for _ in range(2):  # the first is told by the counters' own time, which was set before
        session.state.step._usage._next = 0
        sl.step()
    names = {name for name in file.numbers if "[" in name}
    assert names, "the counters were read"
    monkeypatch.setattr(usage, "EVERY_NS", 10**12)
    session.state.step._usage._next = 2**62
    first = file._free[0]
    while file._free[0] is first:
        sl.step()
    sl.step()
    session.end()
    slots = read_slots(recorded)
    steps = [s for s in slots if s[-1] == f.STEP]
    assert [s[4] for s in steps] == list(range(len(steps))), "each number once, none left out"
    assert len(steps) > f.CHUNK // f.SLOT - 100
    assert all(a[1] <= b[0] for a, b in itertools.pairwise(steps))


@pytest.mark.parametrize("words", [(), (1, 2, 3)])
def test_a_wrong_call_is_the_same_error(words: tuple[int, ...]) -> None:
    for one in (sl.annotate, PlainRange, sl.mark):
        with pytest.raises(TypeError):
            one(*words)  # type: ignore[operator]


def test_it_is_not_loaded_into_another_python(tmp_path: Path) -> None:
    """Or where it is damaged: the program goes on with the plain one."""
    code = (
        "import sys; sys.modules['sightline._marks'] = None\n"
        "import sightline as sl\n"
        "with sl.annotate('x'): pass\n"
        "from sightline.record.inline.annotate import PlainRange; assert sl.annotate is PlainRange"
    )
    env = {**os.environ, session.VARIABLE: json.dumps({"folder": str(tmp_path)})}
    subprocess.run([sys.executable, "-c", code], env=env, check=True)
    assert [s[-1] for s in read_slots(tmp_path)].count(f.RANGE) == 1
