"""`sightline run` with the library of our own: from the command line to the answer, no GPU."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import pytest

import sightline as sl
from sightline.core.model.source import Source
from sightline.errors import DamagedError, RequestError
from sightline.formats.nvidia.cupti.file import read_file
from sightline.record.collect import cupti, plan
from sightline.record.collect.cupti import INJECTION, find_injection, list_cuptis, make_variables
from sightline.record.collect.machine import list_recordable
from sightline.record.collect.remedies import list_missing
from support import recording
from support.command import sightline
from support.cupti_mock import Built, build
from support.cupti_mock import play as play_alone

pytestmark = pytest.mark.xdist_group("cupti")

MACHINE = {
    "gpus": ["H100"], "nvidia_driver": "580.1", "nsys": None, "ncu": None, "rocprofv3": None,
    "unitrace": None, "perf": None, "py_spy": None, "lttng": None, "lttng_kernel": False,
    "torch": None, "counters_need_admin": False, "perf_event_paranoid": 2,
    "perf_event_problem": None, "ptrace_scope": 1,
    "amd_gpus": [], "intel_gpus": [], "amd_sampling": None,
    "cupti": None, "cupti_injection": True, "nvml": None, "nvml_problem": "no NVML",
}  # fmt: skip
FOLDER = {"folder": "here", "mark": "0123abcd", "ranks": (0, 7), "every": 2}


@pytest.fixture(scope="module")
def built() -> Built:
    if find_injection() is None:
        pytest.skip(
            "this installation was built without CUPTI's headers: scripts/setup fetches them"
        )
    return build(layouts=True)


def run(
    built: Built, folder: Path, *words: str, **variables: str
) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SIGHTLINE_CUPTI", "MOCK_"))}
    more = {"SIGHTLINE_CUPTI_LIBRARY": str(built.mock), **variables}
    return recording.run(*words, cwd=folder, env={**clean, **more})


def start(built: Built, folder: Path, *words: str) -> subprocess.Popen[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("SIGHTLINE_CUPTI", "MOCK_"))}
    more = {"SIGHTLINE_CUPTI_LIBRARY": str(built.mock)}
    child: subprocess.Popen[str] = recording.start(*words, cwd=folder, env={**clean, **more})
    return child


def test_a_program_is_recorded_and_reported(built: Built, tmp_path: Path) -> None:
    program = [str(built.program), "device=0", "launch=500", "sync=2"]
    done = run(built, tmp_path, "--backend", "cupti", "-o", "r", "--", *program)
    assert done.returncode == 0, done.stderr
    assert "Top kernels" in done.stderr
    folder = tmp_path / "r.sightline"
    opened = sl.open(str(folder))
    assert opened.table("device_ops").height == 500
    assert opened.table("recordings")["format"].to_list() == ["cupti"]
    (facts,) = folder.glob("*.recorded.json")
    assert json.loads(facts.read_text())["backends"] == ["cupti"]


def test_the_programs_exit_code_and_output_stay(built: Built, tmp_path: Path) -> None:
    done = run(
        built,
        tmp_path,
        "--backend",
        "cupti",
        "--no-report",
        "--",
        str(built.program),
        "say=hello",
        "kill",
    )
    assert done.returncode == 137
    assert done.stdout == "hello\n"


def test_ranks_of_a_job_are_one_run(built: Built, tmp_path: Path) -> None:
    script = "; ".join(f"RANK={r} WORLD_SIZE=3 {built.program} launch={10 + r}" for r in range(3))
    done = run(
        built,
        tmp_path,
        "--backend",
        "cupti",
        "--no-report",
        "--ranks",
        "0,2",
        "-o",
        "r",
        "--",
        "sh",
        "-c",
        script,
    )
    assert done.returncode == 0, done.stderr
    ops = sl.open(str(tmp_path / "r.sightline")).table("device_ops")
    assert dict(ops.group_by("rank").len().iter_rows()) == {0: 10, 2: 12}


def test_a_long_recording_is_packed(built: Built, tmp_path: Path) -> None:
    done = run(
        built,
        tmp_path,
        "--backend",
        "cupti",
        "--no-report",
        "-o",
        "r",
        "--",
        str(built.program),
        "launch=60000",
    )
    assert done.returncode == 0
    (packed,) = (tmp_path / "r.sightline").glob("*.cupti.gz")
    assert packed.stat().st_size < 4 << 20
    assert sl.open(str(tmp_path / "r.sightline")).table("device_ops").height == 60_000


def test_no_calls(built: Built, tmp_path: Path) -> None:
    done = run(
        built,
        tmp_path,
        "--backend",
        "cupti",
        "--no-report",
        "--no-calls",
        "-o",
        "r",
        "--",
        str(built.program),
        "launch=9",
    )
    assert done.returncode == 0
    opened = sl.open(str(tmp_path / "r.sightline"))
    assert (opened.rows("device_ops"), opened.rows("host_ops")) == (9, 0)


@pytest.mark.timing
def test_a_kill_loses_what_was_not_flushed(built: Built, tmp_path: Path) -> None:
    """With a flush every hour all is lost, after longer than the flush that is usual."""
    program = [str(built.program), "launch=100", "sleep=1100", "kill"]
    words = ["--backend", "cupti", "--no-report", "--flush-ms", "3600000", "-o", "r"]
    assert run(built, tmp_path, *words, "--", *program).returncode == 137
    assert sl.open(str(tmp_path / "r.sightline")).rows("device_ops") == 0


@pytest.mark.timing
def test_a_kill_keeps_what_was_flushed(built: Built, tmp_path: Path) -> None:
    """There are no more flushes than 0.9 of what was asked allows, and more than are usual."""
    script = f"{built.program} launch=100 sleep=120000 & echo $! > pid; wait $!"
    words = ["--backend", "cupti", "--no-report", "--flush-ms", "20", "-o", "r"]
    with start(built, tmp_path, *words, "--", "sh", "-c", script) as child:
        try:
            start_ns, *flushes = wait_for_flushes(tmp_path / "r.sightline")
        finally:
            os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
            child.communicate(timeout=120)
    assert flushes[-1] - start_ns >= len(flushes) * 18 * 1_000_000
    opened = sl.open(str(tmp_path / "r.sightline"))
    assert opened.rows("device_ops") == 100
    assert "unfinished" in opened.table("quality")["kind"].to_list()


def wait_for_flushes(folder: Path) -> list[int]:
    """When the clocks were read, in ns: at the start and at each flush.

    Once all 100 launches are there, and two flushes closer than the usual ones can be, which are
    0.9 s apart at least.
    """
    until = time.monotonic() + 120
    while time.monotonic() < until:
        for path in folder.glob("*.cupti"):
            with contextlib.suppress(DamagedError):  # not even its header is written yet
                file = read_file(Source(path, path.name))
                moments = sorted(file.frame("clocks")["monotonic"]) if file.tables else []
                is_close = any(b - a < 900_000_000 for a, b in pairwise(moments[1:]))
                if is_close and file.frame("kernels").height == 100:
                    return moments
        time.sleep(0.02)
    raise AssertionError("no two flushes were ever close")


def test_a_program_without_cuda(built: Built, tmp_path: Path) -> None:
    done = run(built, tmp_path, "--backend", "cupti", "--no-report", "--", "true")
    assert done.returncode == 0
    (facts,) = (tmp_path / "true.sightline").glob("*.recorded.json")
    notes = {note["kind"]: note["text"] for note in json.loads(facts.read_text())["notes"]}
    assert "no recorded process used CUDA" in notes["cupti_absent"]


def test_a_profiler_that_holds_cupti(built: Built, tmp_path: Path) -> None:
    """It is named on the screen, and the program goes on."""
    program = str(built.program)
    done = run(built, tmp_path, "--backend", "cupti", "-o", "r", "--", program, "launch=5",
               MOCK_TAKEN="Nsight Systems", MOCK_SHARES="0")  # fmt: skip
    assert done.returncode == 0
    assert "Nsight Systems is using CUPTI" in " ".join(done.stderr.split())


def test_the_installed_library_is_the_one_of_the_sources(built: Built, tmp_path: Path) -> None:
    """Built by CMake with the newest headers: it takes both interfaces."""
    installed = find_injection()
    assert installed is not None
    both = Built(built.headers, installed, built.mock, built.program)
    assert play_alone(both, tmp_path / "a", "launch=3").file.facts["interface"] == 2
    old = play_alone(both, tmp_path / "b", "launch=3", MOCK_VERSION="130000")
    assert old.file.facts["interface"] == 1


def test_what_the_environment_is_told() -> None:
    if find_injection() is None:
        pytest.skip("this installation was built without CUPTI's headers")
    told = make_variables(FOLDER, {"question": "stalls", "period": 12, "no_calls": True}, {})
    assert told[INJECTION].endswith("libsightline-cupti.so")
    assert told["SIGHTLINE_CUPTI_FOLDER"] == str(Path("here").resolve())
    assert told["SIGHTLINE_CUPTI_RANKS"] == "0,7"
    assert told["SIGHTLINE_CUPTI_EVERY"] == "2"
    assert told["SIGHTLINE_CUPTI_PC"] == "continuous"
    assert told["SIGHTLINE_CUPTI_PC_PERIOD"] == "12"
    assert told["SIGHTLINE_CUPTI_CALLS"] == "0"
    assert told["SIGHTLINE_CUPTI_BUDGET_PCT"] == "1"
    chosen = {"budget": 2.5, "measure_cost": True, "graph": "graph"}
    told = make_variables(FOLDER, chosen, {})
    assert told["SIGHTLINE_CUPTI_BUDGET_PCT"] == "2.5"
    assert told["SIGHTLINE_CUPTI_MEASURE"] == "1"
    assert told["SIGHTLINE_CUPTI_GRAPH"] == "graph"
    exact = make_variables(FOLDER, {"question": "stalls", "sampling": "serialized"}, {})
    assert exact["SIGHTLINE_CUPTI_PC"] == "serialized"
    assert "SIGHTLINE_CUPTI_PC" not in make_variables(FOLDER, {"question": "timeline"}, {})
    assert told["NVTX_INJECTION64_PATH"] == told[INJECTION]
    kept = make_variables(FOLDER, {}, {"NVTX_INJECTION64_PATH": "/opt/other.so"})
    assert "NVTX_INJECTION64_PATH" not in kept
    # Another tool's library is not pushed out.
    assert make_variables(FOLDER, {}, {INJECTION: "/opt/other/libtool.so"}) == {}


def test_stalls_take_the_best_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(INJECTION, raising=False)
    command = ["python", "t.py"]
    assert plan.make_plan(command, MACHINE, question="stalls").backends == ["cupti", "nvml"]
    only_ncu = {**MACHINE, "cupti_injection": False, "ncu": "2026.1"}
    assert plan.make_plan(command, only_ncu, question="stalls").backends == ["ncu", "nvml"]
    with pytest.raises(RequestError, match="stalls cannot be recorded here") as caught:
        plan.make_plan(command, {**MACHINE, "cupti_injection": False}, question="stalls")
    assert "sightline doctor --for stalls" in (caught.value.hint or "")
    monkeypatch.setenv(INJECTION, "/opt/other/libtool.so")
    with pytest.raises(RequestError) as caught:
        plan.make_plan(command, MACHINE, question="stalls")
    assert "/opt/other/libtool.so" in caught.value.why


def test_samples_need_a_permission(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    locked = {**MACHINE, "counters_need_admin": True}
    with pytest.raises(RequestError) as caught:
        plan.make_plan(["./a.out"], locked, question="stalls", backends=["cupti"])
    assert "ERR_NVGPUCTRPERM" in caught.value.why
    # A timeline needs none.
    assert "cupti" in plan.make_plan(["./a.out"], locked).backends


def test_only_one_profiler_is_taken() -> None:
    made = plan.make_plan(["python", "t.py"], {**MACHINE, "torch": "2.13"}, backends=["cupti"])
    assert made.backends == ["cupti"]


def test_doctor_knows_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    way = next(w for w in list_recordable(MACHINE) if "CUPTI" in w.what)
    assert way.possible
    without = {**MACHINE, "cupti_injection": False}
    way = next(w for w in list_recordable(without) if "CUPTI" in w.what)
    assert (way.possible, "headers" in way.why) == (False, True)
    (missing,) = list_missing("cupti", without)
    assert "headers" in missing.what
    (missing,) = list_missing("cupti", MACHINE)
    assert "nvidia-cuda-cupti" in missing.remedy[0]
    outcome = sightline("doctor", "--for", "stalls")
    assert outcome.code in (0, 1)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--period", "4"), "2^5"),
        (("--sampling", "often"), "continuous"),
        (("--budget", "0"), "percentage"),
    ],
)
def test_what_cannot_be_asked(words: tuple[str, str], why: str) -> None:
    outcome = sightline("run", *words, "--", "true")
    assert outcome.code == 2
    assert why in outcome.err


def test_cuptis_of_toolkits(tmp_path: Path) -> None:
    for version, inside in (("12.9", "extras/CUPTI/lib64"), ("13.0", "lib64")):
        place = tmp_path / f"usr/local/cuda-{version}" / inside
        place.mkdir(parents=True)
        (place / f"libcupti.so.{version[:2]}").touch()
    found = [p for p in list_cuptis(tmp_path) if str(tmp_path) in p]
    assert [Path(p).name for p in found] == ["libcupti.so.13", "libcupti.so.12"]
    assert cupti.names_other({}) is None
