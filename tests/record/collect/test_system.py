"""`sightline run --for system`: with LTTng and with perf, where they are; else one sentence."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sightline as door
from sightline.errors import RequestError
from sightline.record.collect.lttng import Lttng, hide_identity
from sightline.record.collect.plan import make_plan
from support.command import sightline
from support.ctf_traces import declare_events, write_trace

NOTHING = {
    "gpus": [], "nsys": None, "ncu": None, "perf": None, "lttng": None, "lttng_kernel": False,
    "perf_event_paranoid": 4, "perf_event_problem": "the level is 4", "py_spy": None,
    "ptrace_scope": 0, "counters_need_admin": False,
    "cupti": None, "rocprofv3": None, "unitrace": None, "amd_gpus": [],
    "intel_gpus": [], "amd_sampling": None, "cupti_injection": False,
}  # fmt: skip
COMPILER = shutil.which("cc")
HAS_UST = COMPILER is not None and any(Path("/usr/include").glob("**/lttng/tracef.h"))
needs_lttng = pytest.mark.skipif(
    shutil.which("lttng-sessiond") is None or not HAS_UST, reason="LTTng is not installed"
)
PROGRAM = """
#include <lttng/tracef.h>
#include <stdlib.h>
int main(int count, char **words) {
    for (int i = 0; i < atoi(words[1]); i++) lttng_ust_tracef("step %d", i);
    return 3;
}
"""


def test_without_a_tracer_one_sentence_says_so() -> None:
    with pytest.raises(RequestError) as caught:
        make_plan(["./a"], NOTHING, question="system")
    assert caught.value.why == "lttng is not on the PATH; perf is not installed"


def test_the_choice_of_tracers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    perf = {**NOTHING, "perf": "6.1"}
    assert make_plan(["./a"], perf, question="system").backends == ["sched"]
    both = {**perf, "lttng": "2.13"}
    assert make_plan(["./a"], both, question="system").backends == ["lttng", "sched"]
    kernel = {**both, "lttng_kernel": True}
    assert make_plan(["./a"], kernel, question="system").backends == ["lttng"]
    gpu = {**perf, "gpus": ["H100"]}
    plan = make_plan(["python", "a.py"], gpu, question="system")
    assert plan.backends == ["torch", "nvml", "sched"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(RequestError, match="cannot be traced"):
        make_plan(["./a"], perf, question="system")


def test_the_machine_s_names_are_overwritten(tmp_path: Path) -> None:
    env = 'hostname = "secret-host"; product_uuid = "aa-bb"; tracer_name = "lttng-ust";'
    folder = write_trace(tmp_path / "t", declare_events([("e", "uint8_t a;")], env=env), b"")
    size = (folder / "metadata").stat().st_size
    hide_identity(tmp_path)
    text = (folder / "metadata").read_text()
    assert 'hostname = "-----------"; product_uuid = "-----"; tracer_name = "lttng-ust"' in text
    assert (folder / "metadata").stat().st_size == size


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ust")
    (folder / "app.c").write_text(PROGRAM)
    words = [COMPILER or "cc", "app.c", "-o", "app", "-llttng-ust", "-ldl"]
    subprocess.run(words, cwd=folder, check=True)
    return folder / "app"


def list_daemons() -> set[str]:
    done = subprocess.run(["pgrep", "-f", "lttng-sessiond"], capture_output=True, text=True)
    return set(done.stdout.split())


@needs_lttng
@pytest.mark.xdist_group("lttng")
@pytest.mark.timing
def test_events_of_user_space(program: Path, tmp_path: Path) -> None:
    """The program's 500 marks are in the run, its exit code is sightline's, nothing is left."""
    before = list_daemons()
    done = sightline(
        "run", "--backend", "lttng", "-o", str(tmp_path / "out"), "--no-report", "--",
        str(program), "500",
    )  # fmt: skip
    assert done.code == 3, done.err
    run = door.open(str(tmp_path / "out.sightline"))
    assert run.table("host_ops").get_column("name").to_list() == [f"step {i}" for i in range(500)]
    assert run.table("recordings").get_column("rank").to_list() == [0]
    assert list_daemons() == before
    metadata = b"".join(p.read_bytes() for p in tmp_path.rglob("metadata"))
    assert re.search(rb'hostname = "-+"', metadata)


@needs_lttng
@pytest.mark.xdist_group("lttng")
@pytest.mark.timing
def test_rotation_and_snapshot(program: Path, tmp_path: Path) -> None:
    """What was rotated reads as one recording; a snapshot holds the last events."""
    rotated = Lttng(tmp_path / "rotated", "sightline-test-rotated", rotate="1M")
    subprocess.run([program, "60000"], check=False)
    subprocess.run(["lttng", "rotate", rotated.name], check=True, capture_output=True)
    subprocess.run([program, "5"], check=False)
    rotated.stop()
    assert rotated.notes == []
    assert len(list((tmp_path / "rotated").rglob("metadata"))) >= 2
    assert door.open(str(tmp_path / "rotated")).rows("host_ops") == 60_005

    kept = Lttng(tmp_path / "kept", "sightline-test-kept", snapshot=True)
    # On one core: each has buffers of its own, of 8 MiB, and the events take about 14 MB.
    core = {min(os.sched_getaffinity(0))}
    pin = functools.partial(os.sched_setaffinity, 0, core)
    subprocess.run([program, "400000"], check=False, preexec_fn=pin)
    kept.stop()
    names = door.open(str(tmp_path / "kept")).table("host_ops").get_column("name")
    assert names[-1] == "step 399999"
    assert 1000 < names.len() < 400_000


@needs_lttng
@pytest.mark.xdist_group("lttng")
@pytest.mark.timing
@pytest.mark.parametrize("step", [100_000, 10**9])
def test_a_snapshot_at_an_event(program: Path, tmp_path: Path, step: int) -> None:
    """What led to step 100,000 is kept, and not the end; without such a step the end is."""
    event = f'lttng_ust_tracef:event if msg == "step {step}"'
    kept = Lttng(tmp_path / "kept", "sightline-test-on", snapshot_on=event)
    core = {min(os.sched_getaffinity(0))}
    pin = functools.partial(os.sched_setaffinity, 0, core)
    subprocess.run([program, "450000"], check=False, preexec_fn=pin)
    kept.stop()
    names = door.open(str(tmp_path / "kept")).table("host_ops").get_column("name")
    assert names.n_unique() == names.len()
    if step < 450_000:
        assert (f"step {step}" in names, "step 449999" in names, kept.notes) == (True, False, [])
    else:
        assert names[-1] == "step 449999"
        assert "the latest events were kept instead" in kept.notes[0]


@needs_lttng
@pytest.mark.xdist_group("lttng")
@pytest.mark.timing
def test_a_snapshot_at_a_signal(program: Path, tmp_path: Path) -> None:
    """The program's parent is sightline: told so by a signal, it writes what led there, once."""
    script = f"{program} 50; kill -USR1 $PPID; sleep 1; kill -USR1 $PPID; {program} 70; exit 4"
    done = sightline(
        "run", "--backend", "lttng", "--snapshot-on", "SIGUSR1", "-o", str(tmp_path / "out"),
        "--no-report", "--", "sh", "-c", script,
    )  # fmt: skip
    assert done.code == 4, done.err
    names = door.open(str(tmp_path / "out.sightline")).table("host_ops").get_column("name")
    assert names.to_list() == [f"step {i}" for i in range(50)]


@needs_lttng
@pytest.mark.xdist_group("lttng")
@pytest.mark.timing
def test_a_snapshot_at_a_violation_that_watch_sees(program: Path, tmp_path: Path) -> None:
    """As docs/record.md has it: what led to the violation is kept, and not what came later."""
    pytest.importorskip("sightline.record.monitor.policies")
    policy = tmp_path / "always.yaml"
    policy.write_text(
        "tag: always\nname: Always\nmetrics: [cpu_utilization_pct]\n"
        "rule: cpu_utilization_pct.avg >= 0\nwatch: {of: host, over: 1s}\nhint: Always\n"
    )
    began, goes_on = tmp_path / "began", tmp_path / "goes_on"
    wait = f"until [ -e {goes_on} ]; do sleep 0.1; done"
    script = f"{program} 50; touch {began}; {wait}; {program} 70"
    command = [sys.executable, "-m", "sightline", "run", "--backend", "lttng"]
    command += ["--snapshot-on", "SIGUSR1", "-o", str(tmp_path / "out"), "--no-report"]
    with subprocess.Popen([*command, "--", "sh", "-c", script]) as recorded:
        while not began.exists() and recorded.poll() is None:
            time.sleep(0.05)
        tell = f"kill -USR1 {recorded.pid}"
        seen = sightline("watch", "--policy", str(policy), "--run", tell, "--for", "2s")
        goes_on.touch()
    assert seen.code == 1, seen.err
    names = door.open(str(tmp_path / "out.sightline")).table("host_ops").get_column("name")
    assert names.to_list() == [f"step {i}" for i in range(50)]


@needs_lttng
@pytest.mark.xdist_group("lttng")
@pytest.mark.timing
def test_a_program_that_is_ended_leaves_no_session(program: Path, tmp_path: Path) -> None:
    before = list_daemons()
    done = sightline(
        "run", "--backend", "lttng", "-o", str(tmp_path / "out"), "--no-report", "--timeout",
        "1", "--", sys.executable, "-c", "import time; time.sleep(60)",
    )  # fmt: skip
    assert done.code == 124
    assert list_daemons() == before
