"""Sampled stacks of programs whose stacks are known, and what must not be lost."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from record.probe.programs import Probe, needs
from record.sampling.programs import facts_of, list_paths, needs_sampling, read, sample
from sightline.record.sampling.events import Events
from sightline.record.sampling.sampler import StackSampler

pytestmark = [pytest.mark.xdist_group("sampling"), pytest.mark.timing]


@pytest.fixture(autouse=True)
def _possible() -> None:
    needs_sampling()


def measure_order(rows: pl.DataFrame, *names: str) -> float:
    """The share of paths in which these functions come in this order.

    Compiled code is read from the program's memory: of what is first met as it ends nothing is
    known, nor of a function's callers in the first instructions of its trampoline.
    """
    paths = rows.get_column("path").to_list()
    found = [[name for name in way if name in names] for way in paths]
    return sum(way[-len(names) :] == list(names) for way in found) / len(paths)


def test_shares_and_stacks_are_those_of_the_program(known: Path, tmp_path: Path) -> None:
    """60, 30 and 10 % in three functions, each called by the same one; no frame pointers."""
    path = tmp_path / "known.stacks"
    imported, _, used = sample(path, known, "shares", "0.5")
    rows = list_paths(imported).filter(pl.col("path").list.contains("one_round"))
    assert rows.height > 100
    leaves = rows.filter(pl.col("path").list.last().is_in(["sixty", "thirty", "ten"]))
    callers = leaves.get_column("path").list.tail(3).list.head(2).unique().to_list()
    assert callers == [["run_shares", "one_round"]]
    assert all("main" in way for way in rows.get_column("path").to_list())
    for name, share in (("sixty", 0.6), ("thirty", 0.3), ("ten", 0.1)):
        count = leaves.filter(pl.col("path").list.last() == name).height
        # Five standard deviations of a share that is counted so often.
        bound = 5 * (share * (1 - share) / leaves.height) ** 0.5
        assert abs(count / leaves.height - share) < bound, name
    # What the kernel counted is what it told us, and what the system says that the program used.
    facts = facts_of(path)
    assert facts["samples"] == imported.tables["cpu_samples"].height
    assert facts["samples"] * facts["period_ns"] <= facts["cpu_time_ns"] + facts["period_ns"]
    assert facts["cpu_time_ns"] >= 0.5e9
    assert facts["cpu_time_ns"] == pytest.approx(1e9 * (used.ru_utime + used.ru_stime), rel=0.25)


def test_a_stack_of_all_kinds(known: Path, tmp_path: Path) -> None:
    """A signal's frame, frames of unknown size, aligned frames, and frames of the C library.

    The program says its stack itself, by libgcc's unwinder.
    """
    imported, said, _ = sample(tmp_path / "known.stacks", known, "stack", "0.2")
    lines = said.splitlines()[::-1]
    # Static functions have no name there, and those of the C library several.
    told = [re.search(r"/known\((\w+)\+", line) for line in lines]
    names = [found[1] for found in told if found]
    assert names.count("through_the_library") == 6
    assert {"with_alloca", "with_alignment", "with_signal", "main"} <= set(names)
    rows = list_paths(imported).filter(pl.col("path").list.contains("burn"))
    assert rows.height > 20
    shown = {tuple(n for n in way if n in names) for way in rows.get_column("path").to_list()}
    assert shown == {tuple(names)}
    # Frame by frame, those without a name included.
    assert {way.index("tell_and_burn") + 1 for way in rows.get_column("path").to_list()} == {
        len(lines)
    }


def test_compiled_code_is_named_by_its_map(known: Path, tmp_path: Path) -> None:
    """As CPython 3.12 names its functions: by a trampoline for each, and a line in a map."""
    imported, _, _ = sample(tmp_path / "known.stacks", known, "compiled", "1.2")
    python = imported.tables["frames"].filter(pl.col("layer") == "python")
    assert python.select("function", "file").rows() == [("train_step", "/home/me/train.py")]
    rows = list_paths(imported).filter(pl.col("path").list.contains("burn"))
    assert rows.height > 20
    assert measure_order(rows, "main", "train_step", "burn") > 0.9


def test_names_that_come_late_are_taken(known: Path, tmp_path: Path) -> None:
    """A JIT may write its map long after its code ran."""
    imported, _, _ = sample(tmp_path / "known.stacks", known, "late", "1.2")
    rows = list_paths(imported).filter(pl.col("path").list.contains("burn"))
    assert rows.height > 100
    assert all("train_step" in way for way in rows.get_column("path").to_list())


def test_threads_and_children_are_sampled(known: Path, tmp_path: Path) -> None:
    imported, said, _ = sample(tmp_path / "known.stacks", known, "family", "0.2")
    child = int(said)
    samples = imported.tables["cpu_samples"]
    by_thread = dict(samples.group_by("tid").len().rows())
    threads = {row["tid"]: row for row in imported.tables["threads"].iter_rows(named=True)}
    worker = [tid for tid, row in threads.items() if row["thread_name"] == "worker"]
    assert len(worker) == 1
    parent = threads[worker[0]]["pid"]
    assert {row["process_name"] for row in threads.values()} <= {"known", "pytest", "python"}
    for tid in (worker[0], child, parent):
        assert by_thread[tid] > 50
    assert set(samples.filter(pl.col("tid") == child).get_column("pid")) == {child}


def test_a_running_program_is_sampled_by_its_number(known: Path, tmp_path: Path) -> None:
    program = subprocess.Popen(
        [known, "ready", "0.2"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdin is not None and program.stdout is not None
    assert program.stdout.readline() == "ready\n"
    sampler = StackSampler(tmp_path / "known.stacks", 997)
    assert sampler.attach([program.pid]) == 1
    assert sampler.attach([program.pid]) == 0  # it is sampled already
    sampler.start()
    program.communicate("go\n", timeout=60)
    assert sampler.stop() is None
    rows = list_paths(read(tmp_path / "known.stacks"))
    assert rows.filter(pl.col("path").list.contains("one_round")).height > 50
    assert set(rows.get_column("pid")) == {program.pid}


def test_code_that_was_compiled_before_is_known(known: Path, tmp_path: Path) -> None:
    """Memory of no file, mapped before anybody sampled."""
    program = subprocess.Popen(
        [known, "compiled-ready", "0.6"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    program.stdout.readline()
    sampler = StackSampler(tmp_path / "known.stacks", 997)
    sampler.attach([program.pid])
    sampler.start()
    program.communicate("go\n", timeout=60)
    assert sampler.stop() is None
    rows = list_paths(read(tmp_path / "known.stacks"))
    rows = rows.filter(pl.col("path").list.contains("burn"))
    assert rows.height > 20
    assert measure_order(rows, "main", "train_step", "burn") > 0.9


def test_a_probe_samples_beside_its_calls(known: Path, tmp_path: Path) -> None:
    """`sightline probe --samples`: also of a program that has no GPU library."""
    needs("perf")
    program = subprocess.Popen(
        [known, "ready", "0.3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdout is not None
    program.stdout.readline()
    words = ["--pid", str(program.pid), "--backend", "perf", "--samples", "997", "--for", "60s"]
    probe = Probe(*words, "-o", tmp_path / "p")
    assert "1 thread sampled 997 times" in "".join(probe.said)
    program.communicate(b"go\n", timeout=60)
    code, out, _ = probe.wait()
    assert code == 0
    assert "sixty" in out
    (path,) = (tmp_path / "p.sightline").glob("*.stacks")
    assert list_paths(read(path)).filter(pl.col("path").list.contains("one_round")).height > 50


def test_what_was_sampled_survives_a_kill_of_the_program(known: Path, tmp_path: Path) -> None:
    program = subprocess.Popen(
        [known, "ready", "60"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdin is not None and program.stdout is not None
    program.stdout.readline()
    sampler = StackSampler(tmp_path / "known.stacks", 997)
    sampler.attach([program.pid])
    sampler.start()
    program.stdin.write(b"go\n")
    program.stdin.flush()
    while sampler.count_samples() < 50:
        assert program.poll() is None
    program.kill()
    program.communicate(timeout=60)
    assert sampler.stop() is None
    imported = read(tmp_path / "known.stacks")
    assert imported.tables["cpu_samples"].height >= 50
    assert not {"truncated", "process_killed"} & {q.kind for q in imported.quality}


_RECORD = """
import os, sys, time
from pathlib import Path
from sightline.record.sampling.sampler import StackSampler
sampler = StackSampler(Path(sys.argv[1]), 997)
sampler.attach([os.getpid()])
sampler.start()
print("ready", flush=True)
while True: sum(range(1000))
"""


def test_what_was_written_survives_a_kill_of_sightline(tmp_path: Path) -> None:
    path = tmp_path / "own.stacks"
    own = subprocess.Popen([sys.executable, "-c", _RECORD, path], stdout=subprocess.PIPE)
    assert own.stdout is not None
    own.stdout.readline()
    while path.stat().st_size < 20_000:
        assert own.poll() is None
    own.send_signal(signal.SIGKILL)
    own.communicate()
    imported = read(path)
    assert imported.tables["cpu_samples"].height > 20
    kinds = {q.kind for q in imported.quality}
    assert "process_killed" in kinds or "truncated" in kinds


def test_lost_samples_are_counted(known: Path, tmp_path: Path) -> None:
    """Nobody reads the rings: what finds no room is counted, and all that was taken is there."""
    path = tmp_path / "known.stacks"
    sampler = StackSampler(path, 9973)  # 32 KiB each: 4 MiB are full after 13 ms
    program = subprocess.Popen([known, "ready", "0.3"], stdin=subprocess.PIPE)
    sampler.attach([program.pid])
    program.communicate(b"go\n", timeout=60)
    sampler.stop()
    facts = facts_of(path)
    assert facts["lost"] > 1000
    assert facts["samples"] > 50
    # Together they are no more than what the CPU time has room for.
    assert (facts["samples"] + facts["lost"]) * facts["period_ns"] < 1.05 * facts["cpu_time_ns"]
    (row,) = [q for q in read(path).quality if q.kind == "samples_lost"]
    assert row.count == facts["lost"]


def test_a_program_that_sleeps_leaves_no_file(tmp_path: Path) -> None:
    program = subprocess.Popen(["sleep", "60"])
    sampler = StackSampler(tmp_path / "sleep.stacks", 997)
    sampler.attach([program.pid])
    sampler.start()
    program.kill()
    program.wait()
    # A signal that ends it may take a moment of its CPU time.
    problem = sampler.stop()
    assert (problem is None) == (tmp_path / "sleep.stacks").exists()
    if problem is not None:
        assert "no CPU stack was sampled" in problem


def find_python() -> Path | None:
    """A Python that tells perf its functions' names: 3.12 or newer."""
    places = [Path(p) for n in range(20, 11, -1) if (p := shutil.which(f"python3.{n}"))]
    places += sorted(Path.home().glob(".pyenv/versions/3.1[2-9]*/bin/python"), reverse=True)
    places += sorted(Path.home().glob(".local/share/uv/python/cpython-3.1[2-9]*/bin/python"))
    check = "import sys; sys.exit(not sys.is_stack_trampoline_active())"
    for place in places:
        done = subprocess.run([place, "-X", "perf", "-c", check], capture_output=True, check=False)
        if done.returncode == 0:
            return place
    return None


_PROGRAM = """
import time
def sixty(n): return sum(i * i for i in range(6 * n))
def thirty(n):
    for i in range(3 * n): i * i
def train_step():
    sixty(2000)
    thirty(2000)
end = time.process_time() + 1.2  # trampolines are read while it runs, which a busy machine delays
while time.process_time() < end: train_step()
"""


@pytest.mark.parametrize("left", ["nothing", "a map"])
def test_python_functions_are_in_the_stacks(tmp_path: Path, left: str) -> None:
    """In an interpreter without frame pointers, too: perf itself ends at the first function.

    And where an earlier process of the same number left a map: Python writes on in it.
    """
    python = find_python()
    if python is None:
        pytest.skip("no Python 3.12 or newer was found, which has perf support")
    script = tmp_path / "train.py"
    script.write_text(_PROGRAM)
    path = tmp_path / "python.stacks"
    stale = "echo 1000 7fffffffe000 stale > /tmp/perf-$$.map; " if left == "a map" else ""
    imported, _, _ = sample(path, "sh", "-c", f"{stale}exec {python} -X perf {script}")
    rows = list_paths(imported).filter(pl.col("path").list.contains("train_step"))
    assert rows.height > 100
    frames = imported.tables["frames"].filter(pl.col("file") == str(script))
    assert {"<module>", "train_step", "sixty", "thirty"} <= set(frames.get_column("function"))
    assert measure_order(rows, "<module>", "train_step") > 0.95
    inner = rows.get_column("path").list.contains("sixty").sum()
    assert inner > rows.height / 3
    # All but those few in a trampoline's own first instructions reach the beginning.
    whole = sum(way[0] == "_start" for way in rows.get_column("path").to_list())
    assert whole > 0.95 * rows.height


def test_frame_pointers_are_followed_where_nothing_is_copied(known: Path, tmp_path: Path) -> None:
    """Without a copy of the stack the kernel follows frame pointers: here there are none."""
    imported, _, _ = sample(tmp_path / "known.stacks", known, "shares", "0.2", stack_bytes=0)
    quality = {q.kind: q.text for q in imported.quality}
    assert "code without frame pointers" in quality["broken_stacks"]
    leaves = list_paths(imported).get_column("path").list.last().unique()
    assert {"sixty", "thirty"} <= set(leaves)


def test_the_limit_of_open_files_is_left_as_it_is() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    events = Events(99)
    events.attach([os.getpid()])
    events.close()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
