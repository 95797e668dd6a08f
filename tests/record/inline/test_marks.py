"""Ranges, marks, steps and checkpoints: what a program calls is what the run holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import types
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from sightline.core.model import event_file
from sightline.record.inline import session
from support.recorders import recorder_kind  # noqa: F401  # a fixture

pytestmark = pytest.mark.usefixtures("recorder_kind")


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Path]:
    """A run that this process itself is recorded into."""
    folder = tmp_path / "own.sightline"
    folder.mkdir()
    session.start({"folder": str(folder)})
    yield folder
    session.end()


def own(folder: Path) -> pl.DataFrame:
    session.end()
    return sl.open(str(folder)).table("host_ops").sort("host_op_id")


def test_ranges_nest_and_keep_their_payload(recorded):
    with sl.annotate("outer", {"batch": 3}):
        sl.mark("half way")
        with sl.annotate("inner"):
            pass
    rows = own(recorded).select("name", "depth", "payload", "range_kind").rows()
    assert rows == [
        ("outer", 0, '{"batch":3}', "pushpop"),
        ("half way", 1, None, "mark"),
        ("inner", 1, None, "pushpop"),
    ]


def test_a_range_ends_also_when_its_block_raises(recorded):
    with pytest.raises(ZeroDivisionError), sl.annotate("fails"):
        1 / 0  # noqa: B018
    row = own(recorded).row(0, named=True)
    assert row["name"] == "fails"
    assert row["end_ns"] > row["start_ns"]


def test_a_decorated_function_is_the_function(recorded):
    @sl.annotate("work")
    def work(a: int, *, b: int) -> int:
        """Adds."""
        return a + b

    assert work(1, b=2) == 3
    assert (work.__name__, work.__doc__) == ("work", "Adds.")
    assert work(2, b=2) == 4
    assert own(recorded).get_column("name").to_list() == ["work", "work"]


def test_ten_thousand_steps_and_ranges_are_all_there(recorded):
    """More than one chunk of the file; each event takes one slot."""
    for _ in range(10_000):
        with sl.annotate("attention"):
            pass
        with sl.annotate("mlp"):
            sl.mark("inside")
        sl.step()
    sl.step()
    frame = own(recorded)
    counts = dict(frame.group_by("layer", "name").len().select("name", "len").rows())
    assert counts["attention"] == counts["mlp"] == 10_000
    steps = frame.filter(pl.col("layer") == "step").sort("start_ns")
    assert steps.height == 10_001
    assert steps.get_column("name").to_list()[:2] == ["ProfilerStep#0", "ProfilerStep#1"]
    assert (steps.get_column("end_ns") >= steps.get_column("start_ns")).all()
    assert (steps.get_column("start_ns").diff().drop_nulls() >= 0).all()
    inside = frame.filter(pl.col("name") == "mlp").get_column("parent_id").unique()
    assert inside.len() == 10_000  # each lies in a step of its own
    file = next(recorded.glob("*.events"))
    assert file.stat().st_size == 2 * event_file.CHUNK


def test_threads_do_not_lose_each_others_events(recorded):
    def work(number: int) -> None:
        for _ in range(8_000):
            with sl.annotate(f"thread {number}"):
                pass

    threads = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = own(recorded).group_by("name").agg(n=pl.len(), tids=pl.col("tid").n_unique())
    assert sorted(found.rows()) == [(f"thread {n}", 8_000, 1) for n in range(5)]


def test_a_checkpoint_says_whether_the_gpu_was_waited_for(recorded):
    sl.checkpoint("after layer 1", shapes={"x": [2, 3]})
    session.end()
    run = sl.open(str(recorded))
    row = run.table("host_ops").row(0, named=True)
    told = json.loads(row["payload"])
    assert row["name"] == "checkpoint: after layer 1"
    assert told["synchronized"] is False
    assert told["shapes"] == {"x": [2, 3]}
    assert told["process_bytes"] > 1_000_000
    counter = run.table("counters").row(0, named=True)
    assert (counter["unit"], counter["value"]) == ("bytes", told["process_bytes"])
    assert counter["time_ns"] == row["start_ns"]


@pytest.mark.timing
def test_times_are_on_the_wall_clock(recorded):
    import time

    before = time.time_ns()
    with sl.annotate("now"):
        pass
    after = time.time_ns()
    row = own(recorded).row(0, named=True)
    # The two clocks are read one after the other: a few µs apart.
    assert before - 100_000 <= row["start_ns"] <= row["end_ns"] <= after + 100_000


CHILD = """
import os, sys, sightline as sl
with sl.annotate("parent"):
    pid = os.fork()
    if pid == 0:
        with sl.annotate("child"):
            pass
        os._exit(0)
    os.waitpid(pid, 0)
sl.mark("before exec")
os.execv(sys.executable, [sys.executable, "-c", "import sightline as sl; sl.mark('after exec')"])
"""


def test_fork_and_exec_write_files_of_their_own(tmp_path):
    folder = tmp_path / "r.sightline"
    folder.mkdir()
    env = {**os.environ, session.VARIABLE: json.dumps({"folder": str(folder)})}
    subprocess.run([sys.executable, "-c", CHILD], env=env, check=True)
    run = sl.open(str(folder))
    host = run.table("host_ops")
    assert sorted(host.get_column("name")) == ["after exec", "before exec", "child", "parent"]
    child = host.filter(pl.col("name") == "child").row(0, named=True)
    parent = host.filter(pl.col("name") == "parent").row(0, named=True)
    assert child["pid"] != parent["pid"]
    assert len(list(folder.glob("*.events"))) == 3


WORKERS = """
import multiprocessing, sys, sightline as sl
def work(n):
    with sl.annotate(f"worker {n}"):
        pass
if __name__ == "__main__":
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        processes = [context.Process(target=work, args=(f"{method} {n}",)) for n in range(2)]
        for p in processes: p.start()
        for p in processes: p.join()
    sl.mark("all done")
"""


def test_workers_of_multiprocessing_write_files_of_their_own(tmp_path):
    folder = tmp_path / "r.sightline"
    folder.mkdir()
    (tmp_path / "workers.py").write_text(WORKERS)
    env = {**os.environ, session.VARIABLE: json.dumps({"folder": str(folder)})}
    subprocess.run([sys.executable, "workers.py"], cwd=tmp_path, env=env, check=True)
    run = sl.open(str(folder))
    names = sorted(run.table("host_ops").get_column("name"))
    assert names == [
        "all done",
        "worker fork 0",
        "worker fork 1",
        "worker spawn 0",
        "worker spawn 1",
    ]
    # They end without atexit, and yet in order.
    assert "process_killed" not in run.table("quality").get_column("kind").to_list()


NOTHING = """
import os, sys, sightline as sl
with sl.annotate("x"):
    pass
sl.mark("y"); sl.step(); sl.checkpoint("z")
with sl.capture(), sl.memory_history():
    pass
assert not {"torch", "polars", "numpy", "pynvml"} & set(sys.modules), sys.modules
assert os.listdir(".") == [], os.listdir(".")
"""


@pytest.mark.parametrize("variables", [{}, {"SIGHTLINE_OFF": "1", "SIGHTLINE_RUN": "{}"}])
def test_without_a_run_nothing_is_written_and_nothing_heavy_imported(tmp_path, variables):
    env = {k: v for k, v in os.environ.items() if k != session.VARIABLE} | variables
    command = [sys.executable, "-c", NOTHING]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_two_lines_of_code_record_a_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for _ in range(2):  # the second finds the name taken
        with sl.profile("train"):
            with sl.annotate("work"):
                pass
            sl.step()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["train-2.sightline", "train.sightline"]
    for folder in ("train.sightline", "train-2.sightline"):
        names = sl.open(folder).table("host_ops").get_column("name").to_list()
        assert sorted(names) == ["ProfilerStep#0", "train", "work"]
    assert not session.state.on


def test_a_folder_that_cannot_be_written_to_changes_nothing(tmp_path, capfd):
    session.start({"folder": str(tmp_path / "missing")})
    try:
        with sl.annotate("work"):
            result = 2 + 2
        sl.step()
    finally:
        session.end()
    assert result == 4
    err = capfd.readouterr().err
    assert err.count("the program goes on unrecorded") == 1


def test_domains_and_categories_are_kept_with_a_range(recorded):
    with sl.annotate("loss", color="blue", domain="model", category="forward"):
        pass

    @sl.annotate("step", {"n": 1}, domain='a "b"\n')
    def work() -> int:
        return 3

    assert work() == 3
    with sl.annotate("plain", color="green"):
        pass
    run = sl.open(str(recorded)) if session.end() is None else None
    rows = run.table("host_ops").sort("host_op_id")
    assert rows.select("name", "domain", "category", "payload").rows() == [
        ("loss", "model", "forward", None),
        ("step", 'a "b"\n', None, '{"n":1}'),
        ("plain", None, None, None),
    ]
    told = run.ask("annotations").select("name", "domain", "category").rows()
    assert ("loss", "model", "forward") in told


def test_labels_go_to_nvtx_where_its_package_is(monkeypatch):
    from sightline.record.inline.nvtx import push_labels

    calls = []
    package = types.ModuleType("nvtx")
    package.push_range = lambda name, **labels: calls.append((name, labels))
    package.pop_range = lambda **labels: calls.append(("pop", labels))
    monkeypatch.setitem(sys.modules, "nvtx", package)
    push_labels("x", ("blue", "model", None))()
    labels = {"color": "blue", "domain": "model", "category": None}
    assert calls == [("x", labels), ("pop", {"domain": "model"})]
    monkeypatch.setitem(sys.modules, "nvtx", None)
    assert push_labels("x", ("blue", None, None)) is None
