"""A real PyTorch on the CPU, recorded from outside: alone, as two and as four ranks of torchrun.

What the program prints that it did is what the run must hold. One recording serves many tests.
"""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from support import recording
from support.command import sightline, stats
from support.places import EXAMPLES

# Its recordings are made once, by one worker: another would only wait for them.
pytestmark = [
    pytest.mark.xdist_group("torch"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

PY = sys.executable
SLACK_NS = 200_000  # torch converts its clock to the wall clock once per trace
TRAIN = EXAMPLES / "train.py"


@dataclass(frozen=True)
class Recorded:
    folder: Path
    done: list[dict]  # what each rank says that it did
    err: str


def train(folder: Path, ranks: int, *options: str, steps: int = 6) -> Recorded:
    words = [PY, TRAIN, "--steps", steps, "--width", 32]
    if ranks > 1:
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", ranks]
        words = [
            PY,
            *launcher,
            "--rdzv-backend",
            "c10d",
            "--rdzv-endpoint",
            "localhost:0",
            *words[1:],
        ]
    env = recording.clean(OMP_NUM_THREADS="1", TORCHELASTIC_ERROR_FILE="")
    done = recording.run(*options, "-o", "t", "--", *words, cwd=folder, env=env)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in re.findall(r"\{[^{}]*\}", done.stdout)]
    return Recorded(folder / "t.sightline", sorted(lines, key=lambda d: d["rank"]), done.stderr)


def once(factory: pytest.TempPathFactory, name: str, ranks: int, *options: str) -> Recorded:
    """One recording for all workers of pytest-xdist: the first makes it, the others wait."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_TESTRUNUID" in os.environ else base
    with (shared / f"torch-{name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder, said = shared / f"torch-{name}", shared / f"torch-{name}.json"
        if not said.exists():
            folder.mkdir()
            made = train(folder, ranks, *options)
            said.write_text(json.dumps([made.done, made.err]))
        done, err = json.loads(said.read_text())
        return Recorded(folder / "t.sightline", done, err)


# A rendezvous of torchrun's takes a port, and what is said of one recording is asked in one pass.
in_step = pytest.mark.timing


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Steps 2 to 4 of 6 are in the trace, the others in the event file alone."""
    return once(tmp_path_factory, "two", 2, "--steps", "1:1:3", "--memory")


def check_counts(run: sl.Run, done: list[dict]) -> None:
    """Steps, annotations and operators of every rank are those that the program counted."""
    host = run.table("host_ops")
    assert host.get_column("rank").unique().sort().to_list() == [d["rank"] for d in done]
    for told in done:
        own = host.filter(pl.col("rank") == told["rank"])
        steps = own.filter(pl.col("layer") == "step").sort("start_ns")
        assert steps.get_column("name").to_list() == [
            f"ProfilerStep#{n}" for n in range(told["steps"])
        ]
        assert (steps.get_column("start_ns")[1:] >= steps.get_column("end_ns")[:-1]).all()
        marked = own.filter(pl.col("name").is_in(["forward", "backward", "optimizer"]))
        assert marked.height == told["annotations"]
        assert own.filter(pl.col("name") == "checkpoint: after the first step").height == 1


@in_step
def test_two_ranks_hold_what_the_program_counted(two):
    assert [d["rank"] for d in two.done] == [0, 1]
    run = sl.open(str(two.folder))
    check_counts(run, two.done)
    for told in two.done:
        own = run.table("host_ops").filter(
            (pl.col("rank") == told["rank"]) & (pl.col("layer") == "op")
        )
        assert told["linears"] == 2 * told["steps"]
        assert own.filter(pl.col("name") == "aten::linear").height == 2 * 3
        shapes = own.filter(pl.col("name") == "aten::linear").get_column("input_shapes")
        assert shapes[0] == "[[32,32],[32,32],[32]]"
    own = run.table("recordings").filter(
        pl.col("format") == "sightline_events", ~pl.col("path").str.ends_with(".sleeps.events")
    )
    assert own.select("rank", "world_size").sort("rank").rows() == [(0, 2), (1, 2)]


@in_step
def test_each_range_lies_in_its_step_on_the_same_clock(two):
    """Ranges come from torch's trace, steps from the event file: two clocks made one."""
    host = sl.open(str(two.folder)).table("host_ops")
    for rank in (0, 1):
        own = host.filter(pl.col("rank") == rank)
        steps = own.filter(pl.col("layer") == "step").sort("start_ns")
        forward = own.filter(pl.col("name") == "forward").sort("start_ns")
        assert forward.height == steps.height
        for step, inside in zip(
            steps.iter_rows(named=True), forward.iter_rows(named=True), strict=True
        ):
            assert step["start_ns"] - SLACK_NS <= inside["start_ns"]
            assert inside["end_ns"] <= step["end_ns"] + SLACK_NS


@in_step
def test_each_rank_has_one_trace_and_the_launcher_none(two):
    names = sorted(p.name for p in two.folder.iterdir())
    assert sum(".torch-0.json" in n for n in names) == 2
    assert not any(n.startswith("proc-") for n in names)
    for trace in two.folder.glob("*.torch-0.json"):
        text = trace.read_text()
        assert f'"{platform.node()}"' not in text
        assert str(two.folder) not in text
        assert json.loads(text)["host_name"].strip() == ""


@in_step
def test_the_report_shows_it_all(two, tmp_path):
    outcome = sightline("report", two.folder)
    assert outcome.code == 0
    for text in (
        "t.sightline · 2 ranks",
        "Steps",
        "Marked ranges",
        "forward",
        "Checkpoints",
        "after the first step",
        "aten::",
        "recording cost",
    ):
        assert text in outcome.out, text
    assert "no steps are marked" not in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "t.sightline · 2 ranks" in two.err  # the same at the end of the run
    page = tmp_path / "r.html"
    assert sightline("report", two.folder, "-o", page).code == 0
    text = page.read_text()
    assert len(text) > 100_000


@in_step
def test_as_a_store_it_is_the_same(two, tmp_path):
    store = tmp_path / "s.sightline"
    assert sightline("import", two.folder, "-o", store).code == 0
    check_counts(sl.open(str(store)), two.done)
    first = stats("steps", two.folder)
    assert first == stats("steps", store)


@in_step
def test_the_trace_holds_the_steps_of_the_schedule(two):
    host = sl.open(str(two.folder)).table("host_ops")
    for rank in (0, 1):
        own = host.filter(pl.col("rank") == rank)
        steps = own.filter(pl.col("layer") == "step").sort("start_ns")
        low, high = steps.row(2, named=True)["start_ns"], steps.row(4, named=True)["end_ns"]
        linears = own.filter(pl.col("name") == "aten::linear")
        assert linears.filter(pl.col("start_ns").is_between(low - SLACK_NS, high)).height == 6


@in_step
def test_memory_is_recorded_where_asked_for(two):
    assert sl.open(str(two.folder)).rows("memory_events") > 10


slow = pytest.mark.skipif("SIGHTLINE_SLOW" not in os.environ, reason="runs with SIGHTLINE_SLOW=1")


@slow
def test_all_of_a_program_that_has_the_result_that_it_has_alone(tmp_path):
    env = recording.clean(OMP_NUM_THREADS="1")
    plain = subprocess.run(
        [PY, TRAIN, "--steps", "6", "--width", "32"],
        env=env,
        text=True,
        capture_output=True,
        check=True,
    )
    alone = train(tmp_path, 1, "--backend", "torch")
    assert json.loads(plain.stdout) == alone.done[0]
    run = sl.open(str(alone.folder))
    check_counts(run, alone.done)
    linears = run.table("host_ops").filter(pl.col("name") == "aten::linear")
    assert linears.height == alone.done[0]["linears"]
    assert run.rows("memory_events") == 0


# What records it by then has not loaded PyTorch's compiler, which takes longer than PyTorch.
OWN_PROFILER = """
import sys, torch, sightline as sl
x = torch.ones(4)
assert "torch._inductor" not in sys.modules
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
    with sl.annotate("mine"):
        y = x + 1
prof.export_chrome_trace("own trace.json")
names = [e.name for e in prof.events()]
assert "mine" in names and "aten::add" in names, names
print(int(y.sum()))
import os, signal
with sl.annotate("last"):
    os.kill(os.getpid(), signal.SIGKILL)
"""


TWICE = """
import torch
weight = torch.ones(8, 8)
for turn in range(3):
    weight @ weight
    if turn < 2:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as prof:
            weight + weight
        prof.export_chrome_trace(f"own{turn}.json")
"""


def test_recording_goes_on_after_the_programs_own_profiler(tmp_path):
    """Three products around two profiles of the program's: all are ours, and none of its sums."""
    done = recording.run(
        "--no-report", "--backend", "torch", "-o", "t", "--", PY, "-c", TWICE, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    run = sl.open(str(tmp_path / "t.sightline"))
    names = run.table("host_ops").get_column("name").to_list()
    assert (names.count("aten::mm"), names.count("aten::add")) == (3, 0)
    (paused,) = run.table("quality").filter(kind="torch_ended_early").to_dicts()
    assert paused["severity"] == "info"
    assert "paused 2 times, while the program's own profiler ran" in paused["text"]
    assert "sightline own0.json own1.json" in paused["text"]


def test_the_programs_own_profiler_has_its_way_and_a_kill_leaves_the_rest(tmp_path):
    """Ours ends when theirs begins; then the process is killed, and what was marked is there."""
    done = recording.run(
        "--no-report", "--backend", "torch", "-o", "t", "--", PY, "-c", OWN_PROFILER, cwd=tmp_path
    )
    assert done.stdout == "8\n", done.stderr
    assert done.returncode == 137
    run = sl.open(str(tmp_path / "t.sightline"))
    quality = run.table("quality")
    kinds = quality.get_column("kind").to_list()
    early = quality.filter(kind="torch_ended_early")
    assert early.get_column("remedy").to_list() == ["What it wrote:  sightline 'own trace.json'"]
    assert "process_killed" in kinds
    names = run.table("host_ops").filter(layer="annotation").get_column("name").to_list()
    assert names == ["mine", "last"]


KILLED_WHILE_PROFILING = """
import os, signal, time, torch, sightline as sl
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for n in range(5):
    with sl.annotate("work"):
        model(torch.ones(2, 8)).sum().backward()
        optimizer.step()
if os.fork() == 0:
    with sl.annotate("child"):
        torch.ones(3) + 1
    os._exit(0)
os.wait()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.campaign
def test_killed_while_the_profiler_runs_the_marks_remain(tmp_path):
    """The trace never came to be, so the marks beside it count; steps by the optimizer."""
    done = recording.run(
        "--no-report",
        "--backend",
        "torch",
        "-o",
        "t",
        "--",
        PY,
        "-c",
        KILLED_WHILE_PROFILING,
        cwd=tmp_path,
    )
    assert done.returncode == 137, done.stderr
    folder = tmp_path / "t.sightline"
    assert not list(folder.glob("*.json.gz"))
    assert not list(folder.glob(".part*"))
    host = sl.open(str(folder)).table("host_ops")
    work = host.filter(pl.col("name") == "work")
    assert work.height == 5
    assert host.filter(pl.col("name") == "child").height == 1
    steps = host.filter(pl.col("layer") == "step").get_column("name").to_list()
    assert steps == [f"ProfilerStep#{n}" for n in range(6)]  # it was killed in the sixth


@slow
def test_four_ranks(tmp_path):
    four = train(tmp_path, 4)
    assert [d["rank"] for d in four.done] == [0, 1, 2, 3]
    check_counts(sl.open(str(four.folder)), four.done)
