"""MPI's calls of real programs: each message that they send, matched, with size and rank."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.core.model.run import Run
from sightline.record.collect.mpi_calls import SOURCE, build_recorder, is_mpi_job, make_variables
from sightline.record.collect.plan import make_plan
from sightline.timeline.clocks import share_a_clock
from sightline.timeline.mpi import count_unmatched, list_messages, list_mpi_collectives
from sightline.timeline.mpi_waits import LATE_SENDER, list_mpi_waits

HERE = Path(__file__).parent
ROUNDS = 12
# Bytes by tag, as ranks.c sends them: 1,000 numbers, ten integers, 100 numbers, 7 bytes, 3 numbers.
SIZES = {1: 8_000, 2: 40, 3: 800, 4: 7, 5: 24}
ENVIRONMENT = {
    **os.environ,
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    # More ranks than CPUs, which Open MPI and MPICH allow then.
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
needs_mpi = pytest.mark.skipif(
    shutil.which("mpicc") is None or shutil.which("mpiexec") is None, reason="no MPI is installed"
)
pytestmark = pytest.mark.xdist_group("mpi")


def record(folder: Path, ranks: int, *command: str, **options: object) -> Run:
    target = folder / "run.sightline"
    words = [sys.executable, "-m", "sightline", "run", "--no-report", "-o", str(target)]
    words += [*options.get("more", ()), "--", "mpiexec", "-n", str(ranks), *command]  # type: ignore[misc]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return sightline.open(str(target))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("mpi") / "ranks"
    subprocess.run(["mpicc", "-o", str(built), str(HERE / "ranks.c")], check=True)
    return built


@needs_mpi
@pytest.mark.parametrize("ranks", [2, 4])
def test_each_message_is_there_once(tmp_path: Path, program: Path, ranks: int) -> None:
    run = record(tmp_path, ranks, str(program))
    messages = list_messages(run)
    assert count_unmatched(run) == 0
    found = messages.group_by("tag").agg(pl.len(), pl.col("bytes").unique()).sort("tag")
    # Of a half of the world each member but the last sends one.
    counts = {tag: ROUNDS * (ranks - 2 if tag == 4 else ranks) for tag in SIZES}
    assert found.rows() == [(t, counts[t], [SIZES[t]]) for t in SIZES if counts[t]]
    ring = messages.filter(pl.col("tag") != 4)
    assert (ring.get_column("receiver") == (ring.get_column("sender") + 1) % ranks).all()
    # The halves are ordered from the highest rank down.
    half = messages.filter(tag=4)
    assert (half.get_column("receiver") == half.get_column("sender") - 2).all()


@needs_mpi
def test_collectives_meet_in_communicators_that_were_made(tmp_path: Path, program: Path) -> None:
    run = record(tmp_path, 4, str(program))
    met = (
        list_mpi_collectives(run)
        .group_by("meeting", "routine", "group")
        .agg(members=pl.col("process").sort(), root=pl.col("root_rank").unique())
    )
    by = {
        (name, tuple(members)): meetings
        for name, members, meetings in met.group_by("routine", "members").len().rows()
    }
    assert by == {
        ("MPI_Allreduce", (0, 1, 2, 3)): ROUNDS,
        ("MPI_Bcast", (0, 2)): ROUNDS,
        ("MPI_Bcast", (1, 3)): ROUNDS,
    }
    roots = met.filter(routine="MPI_Bcast").get_column("root").list.first().unique().sort()
    assert roots.to_list() == [0, 1]  # each half's last member
    sizes = run.table("mpi_events").join(
        run.table("host_ops").select("host_op_id", "name"), on="host_op_id"
    )
    assert sizes.filter(name="MPI_Allreduce").get_column("bytes_sent").unique().to_list() == [40]


@pytest.mark.timing
@needs_mpi
def test_the_late_one_is_named(tmp_path: Path, program: Path) -> None:
    """Rank 1 sleeps for 2 ms before each message that rank 0, the only other one, waits for."""
    run = record(tmp_path, 2, str(program))
    assert share_a_clock(run)
    waits = list_mpi_waits(run).filter(pl.col("pattern") == LATE_SENDER, "is_comparable")
    pairs = waits.group_by("process", "peer").agg(pl.col("wait_ns").sum())
    (worst,) = pairs.sort("wait_ns").tail(1).rows()
    assert worst[:2] == (0, 1)
    assert worst[2] > ROUNDS * 1_900_000
    first = next(f for f in run.findings() if not f.abstained)
    assert first.rule == "late-sender"
    assert first.gain_ns <= first.cost_ns


@needs_mpi
def test_chosen_ranks_alone_are_recorded(tmp_path: Path, program: Path) -> None:
    run = record(tmp_path, 4, str(program), more=["--ranks", "1,3"])
    assert sorted(p.rank for p in run.parts) == [1, 3]
    assert run.table("recordings").get_column("world_size").unique().to_list() == [4]


@pytest.mark.timing
@needs_mpi
def test_a_rank_that_dies_leaves_what_it_did(tmp_path: Path) -> None:
    source = tmp_path / "dies.c"
    source.write_text(
        "#include <mpi.h>\n#include <signal.h>\n#include <unistd.h>\n"
        "int main(int c, char **v) { MPI_Init(&c, &v);\n"
        "for (int i = 0; i < 3; ++i) { MPI_Barrier(MPI_COMM_WORLD); usleep(1100000); }\n"
        "raise(SIGKILL); }\n"
    )
    subprocess.run(["mpicc", "-o", str(tmp_path / "dies"), str(source)], check=True)
    target = tmp_path / "run.sightline"
    words = [sys.executable, "-m", "sightline", "run", "--no-report", "-o", str(target), "--"]
    words += ["mpiexec", "-n", "2", str(tmp_path / "dies")]
    done = subprocess.run(words, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert done.returncode != 0
    run = sightline.open(str(target))
    assert "MPI_Barrier" in run.table("host_ops").get_column("name").to_list()
    assert "process_killed" in run.table("quality").get_column("kind").to_list()


@needs_mpi
@pytest.mark.skipif(importlib.util.find_spec("mpi4py") is None, reason="mpi4py is not installed")
def test_programs_of_mpi4py_are_recorded_and_their_steps_beside_them(tmp_path: Path) -> None:
    script = tmp_path / "ring.py"
    script.write_text(
        "import numpy as np\nimport sightline as sl\nfrom mpi4py import MPI\n"
        "comm, data = MPI.COMM_WORLD, np.zeros(50)\n"
        "for step in range(5):\n"
        "    comm.Sendrecv(np.ones(50), 1 - comm.rank, 7, data, 1 - comm.rank, 7)\n"
        "    if comm.rank == 0:\n        comm.send({'a': step}, 1, 8)\n"
        "    else:\n        assert comm.recv(source=0, tag=8) == {'a': step}\n"
        "    sl.step()\n"
    )
    run = record(tmp_path, 2, sys.executable, str(script))
    found = list_messages(run).group_by("tag").len().sort("tag").rows()
    assert found == [(7, 10), (8, 5)]
    assert count_unmatched(run) == 0
    steps = run.table("host_ops").filter(layer="step").group_by("rank").len()
    assert steps.height == 2


def test_the_plan_records_mpi_where_a_launcher_of_it_stands() -> None:
    assert is_mpi_job(["/usr/bin/mpirun", "-n", "2", "./a"])
    assert not is_mpi_job(["python", "mpirun.py"])
    facts: dict[str, object] = dict.fromkeys(
        ("nsys", "ncu", "rocprofv3", "unitrace", "perf", "lttng", "py_spy", "perf_event_paranoid",
         "ptrace_scope", "counters_need_admin", "amd_sampling")
    )  # fmt: skip
    facts |= {"gpus": [], "amd_gpus": [], "intel_gpus": [], "cupti_injection": False}
    facts |= {"lttng_kernel": False, "perf_event_problem": "no", "mpicc": "/usr/bin/mpicc"}
    # A launcher may start Python, whose PyTorch is recorded if it is used.
    assert make_plan(["mpirun", "./a"], facts).backends == ["torch", "mpi"]
    assert make_plan(["./a"], facts).backends == []
    assert make_plan(["mpirun", "./a"], facts | {"mpicc": None}).backends == ["torch"]
    gpu = facts | {"gpus": ["A100"], "nsys": "2025.1"}
    assert make_plan(["mpirun", "./a"], gpu).backends == ["torch", "nvml", "mpi"]
    assert make_plan(["srun", "./a"], gpu).backends == ["nsys", "nvml"]  # which records MPI, too


def test_an_mpicc_that_fails_is_said(tmp_path: Path) -> None:
    broken = tmp_path / "mpicc"
    broken.write_text("#!/bin/sh\necho 'x.c:1: error: mpi.h: no such file' >&2\nexit 1\n")
    broken.chmod(0o755)
    said = build_recorder(str(broken), tmp_path / "r.so")
    assert said == f"{broken} failed: x.c:1: error: mpi.h: no such file"
    assert "does not run" in (build_recorder(str(tmp_path / "none"), tmp_path / "r.so") or "")
    assert SOURCE.is_file()


def test_what_the_ranks_are_told(tmp_path: Path) -> None:
    who = {"folder": tmp_path, "mark": "abcdabcd", "ranks": (1, 3), "every": 2}
    told = make_variables(tmp_path / "r.so", who, {"LD_PRELOAD": "/lib/other.so"})
    assert told == {
        "LD_PRELOAD": f"{tmp_path / 'r.so'}:/lib/other.so",
        "SIGHTLINE_MPI_FOLDER": str(tmp_path),
        "SIGHTLINE_MPI_HOST": "abcdabcd",
        "SIGHTLINE_MPI_RANKS": "1,3",
        "SIGHTLINE_MPI_EVERY": "2",
    }
