"""`sightline run`: the program is what it was, and a readable run is left whatever happens."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

import polars as pl
import pytest

import sightline as sl
from sightline.core.model import run_folder
from sightline.doors.cli._recorded import make_folder
from sightline.record.collect import watchers
from support import recording
from support.command import sightline

PY = sys.executable
PLAIN = ("--no-report", "--backend", "torch")  # nothing watches from outside: the quickest


def facts(folder: Path) -> dict:
    (path,) = folder.glob("*.recorded.json")
    return json.loads(path.read_text())


def test_output_input_and_exit_code_are_the_programs(tmp_path):
    code = "import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d[::-1]); sys.exit(43)"
    done = recording.run(*PLAIN, "-o", "r", "--", PY, "-c", code, cwd=tmp_path, input="a\nb")
    assert done.stdout == "b\na"
    assert done.returncode == 43
    told = facts(tmp_path / "r.sightline")
    assert (told["state"], told["exit_code"]) == ("ended", 43)


@pytest.mark.parametrize(
    ("command", "code"),
    [(["no-such-program"], 127), (["/etc/passwd"], 126), (["sh", "-c", "kill -9 $$"], 137)],
)
def test_a_program_that_does_not_run_or_is_killed(tmp_path, command, code):
    done = recording.run(*PLAIN, "--", *command, cwd=tmp_path)
    assert done.returncode == code
    assert done.stdout == ""


@pytest.mark.parametrize("command", ["no-such-program", "/etc/passwd"])
def test_a_program_that_cannot_start_leaves_one_sentence_and_no_folder(tmp_path, command):
    done = recording.run("--", command, cwd=tmp_path)
    assert f"cannot run {command}: " in done.stderr
    assert "nothing has been recorded" in done.stderr
    assert "ended with" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_ends_as_a_missing_one_does_is_recorded(tmp_path):
    done = recording.run(*PLAIN, "--", "sh", "-c", "exit 127", cwd=tmp_path)
    assert done.returncode == 127
    assert (tmp_path / "sh.sightline").is_dir()


def test_a_run_of_nothing_says_why_and_what_to_do_instead(tmp_path):
    done = recording.run("--backend", "torch", "-o", "a b", "--", "true", cwd=tmp_path)
    said = " ".join(done.stderr.split())
    assert "nothing to report on in a b.sightline: PyTorch was not recorded" in said
    assert "sightline doctor" in said
    assert "Again" not in said  # there is nothing to read again
    assert max(map(len, done.stderr.splitlines())) <= 80


# The real perf, told to count nothing: a busy machine can hit even `true` with a sample.
NO_SAMPLES = """#!/bin/sh
for word; do
    shift
    [ "$word" = cpu-clock ] && word=dummy
    set -- "$@" "$word"
done
exec {perf} "$@"
"""


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_a_run_without_samples_says_what_is_sampled(tmp_path, monkeypatch):
    perf = tmp_path / "bin" / "perf"
    perf.parent.mkdir()
    perf.write_text(NO_SAMPLES.format(perf=shutil.which("perf")))
    perf.chmod(0o755)
    monkeypatch.setenv("PATH", f"{perf.parent}{os.pathsep}{os.environ['PATH']}")
    done = recording.run("--backend", "cpu", "--", "true", cwd=tmp_path)
    assert "Samples are taken of threads that run" in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 80


def test_what_is_printed_last_can_be_typed(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    mark = "import sightline as sl\nwith sl.annotate('x'): pass"
    done = recording.run(
        "--backend", "torch", "-o", tmp_path / "a b", "--", PY, "-c", mark, cwd=work
    )
    last = done.stderr.splitlines()[-1]
    assert last == f"To see it again, or for more:  sightline report '{tmp_path / 'a b.sightline'}'"


def test_the_name_of_a_program_steers_no_terminal(tmp_path):
    done = recording.run("--", "no\x1b]52;c;ZXZpbA==\x07such", cwd=tmp_path)
    assert done.returncode == 127
    assert "\x1b" not in done.stderr
    assert "\x07" not in done.stderr


def test_samples_of_a_program_that_slept_are_no_damaged_recording(tmp_path):
    empty = tmp_path / "empty.speedscope.json"
    empty.write_text('{"profiles": [{"samples": [], "weights": []}]}')
    assert watchers._holds_nothing(empty)
    empty.write_text('{"profiles": [{"samples": [[0]], "weights": [1]}]}')
    assert not watchers._holds_nothing(empty)
    empty.write_text("{")
    assert not watchers._holds_nothing(empty)


SIGNALS = """
import signal, sys, time
import sightline as sl
def got(number, frame):
    sl.mark(f"got {number}")
    sys.exit(50 + number)
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
    signal.signal(number, got)
sl.mark("ready")
print("ready", flush=True)
time.sleep(30)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1])
def test_signals_reach_the_program(tmp_path, number):
    process = recording.start(*PLAIN, "-o", "r", "--", PY, "-c", SIGNALS, cwd=tmp_path)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == 50 + number
    names = sl.open(str(tmp_path / "r.sightline")).table("host_ops").get_column("name")
    assert names.to_list() == ["ready", f"got {number.value}"]


COUNTING = """
import signal, sys, time
import sightline as sl
got = []
signal.signal(signal.SIGINT, lambda *_: got.append(1))
with sl.annotate("loop"):
    print("ready", flush=True)
    while not got: time.sleep(0.01)
    time.sleep(0.3)  # for a second one
print("got", len(got), flush=True)
"""


def test_ctrl_c_in_a_terminal_reaches_the_program_once(tmp_path):
    """A real terminal: it signals the whole group, so that nothing is to be passed on."""
    master, slave = pty.openpty()

    def own_terminal() -> None:
        os.setsid()
        fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

    words = [*recording.COMMAND, *PLAIN, "-o", "r", "--", PY, "-c", COUNTING]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        env=recording.clean(),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=own_terminal,
    )
    os.close(slave)
    said = b""
    while b"ready" not in said:
        said += os.read(master, 1000)
    os.write(master, b"\x03")
    with contextlib.suppress(OSError):  # the terminal is gone with its last process
        while more := os.read(master, 1000):
            said += more
    os.close(master)
    assert process.wait(20) == 0
    assert b"got 1" in said
    run = sl.open(str(tmp_path / "r.sightline"))
    assert run.table("host_ops").get_column("name").to_list() == ["loop"]


HANGING = """
import os, subprocess, sys, time
import sightline as sl
sl.mark("begun")
child = subprocess.Popen(["sleep", "300"])
open("pids", "w").write(f"{os.getpid()} {child.pid}")
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(300)
"""


@pytest.mark.timing
def test_a_program_that_never_ends_is_ended_with_all_that_it_started(tmp_path, monkeypatch):
    monkeypatch.setattr("sightline.record.collect.child.GRACE_S", 0.2)
    code = (
        "import sys, sightline.record.collect.child as c\nc.GRACE_S = 0.3\n"
        "from sightline.doors.cli.main import main\nsys.exit(main())"
    )
    words = ["run", *PLAIN, "--timeout", "1.5", "-o", "r", "--", PY, "-c", HANGING]
    done = subprocess.run(
        [PY, "-c", code, *words],
        cwd=tmp_path,
        env=recording.clean(),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 124
    assert "ended by --timeout" in done.stderr
    time.sleep(0.1)
    for pid in (tmp_path / "pids").read_text().split():
        stat = Path(f"/proc/{pid}/stat")
        assert not stat.exists() or " Z " in stat.read_text()
    run = sl.open(str(tmp_path / "r.sightline"))
    kinds = run.table("quality").get_column("kind").to_list()
    assert "timed_out" in kinds
    assert "process_killed" in kinds


def test_two_runs_at_once_get_a_folder_each(tmp_path):
    script = tmp_path / "work.py"
    script.write_text("import sightline as sl\nwith sl.annotate('work'):\n    print('done')\n")
    both = [recording.start(*PLAIN, "--", PY, script, cwd=tmp_path) for _ in range(2)]
    for process in both:
        out, _ = process.communicate(timeout=30)
        assert (out, process.returncode) == ("done\n", 0)
    folders = sorted(p.name for p in tmp_path.glob("*.sightline"))
    assert folders == ["work-2.sightline", "work.sightline"]
    for folder in folders:
        assert sl.open(str(tmp_path / folder)).rows("host_ops") == 1


def test_a_folder_that_another_run_made_meanwhile_is_its_own(tmp_path, monkeypatch):
    """Between the search for a free name and the folder another run may take the name."""
    find = run_folder.find_free_name

    def find_too_late(folder):
        free = find(folder)
        if free == folder:
            free.mkdir()
        return free

    monkeypatch.setattr(run_folder, "find_free_name", find_too_late)
    made = make_folder(tmp_path / "work.sightline", chosen=False)
    assert made == tmp_path / "work-2.sightline"


def test_a_folder_that_exists_or_cannot_be_made_is_refused_before_anything_runs(tmp_path):
    (tmp_path / "r.sightline").mkdir()
    (tmp_path / "r.sightline" / "mine").write_text("x")
    done = recording.run(*PLAIN, "-o", "r", "--", "touch", "ran", cwd=tmp_path)
    assert done.returncode == 2
    assert "it exists already" in done.stderr
    done = recording.run(*PLAIN, "-o", "/proc/r", "--", "touch", "ran", cwd=tmp_path)
    assert done.returncode == 2
    assert "Nothing has been run or recorded" in done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_folder_that_stops_being_writable_changes_nothing_for_the_program(tmp_path):
    code = (
        "import json, os, shutil, sightline as sl\n"
        "shutil.rmtree(json.loads(os.environ['SIGHTLINE_RUN'])['folder'])\n"
        "with sl.annotate('x'):\n    print(6 * 7)\n"
    )
    done = recording.run(*PLAIN, "-o", "r", "--", PY, "-c", code, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("42\n", 0)
    assert "goes on unrecorded" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_users_own_sitecustomize_still_runs(tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.own_ran = 1\n")
    code = "import sys; print(own_ran, sys.modules['sitecustomize'].__file__)"
    done = recording.run(
        *PLAIN, "--", PY, "-c", code, cwd=tmp_path, env=recording.clean(PYTHONPATH=str(own))
    )
    assert done.stdout.split() == ["1", str(own / "sitecustomize.py")]


def test_a_python_without_sightline_can_be_recorded(tmp_path):
    """`import sightline` in the program finds the one that records, and nothing else of it."""
    other = tmp_path / "env"
    subprocess.run([PY, "-m", "venv", "--without-pip", other], check=True)
    code = (
        "import sightline as sl, sys\nsl.mark('here')\n"
        "try:\n    import polars\nexcept ImportError:\n    print('its own')\n"
    )
    done = recording.run(
        *PLAIN, "-o", "r", "--", other / "bin" / "python", "-c", code, cwd=tmp_path
    )
    assert done.stdout == "its own\n", done.stderr
    assert sl.open(str(tmp_path / "r.sightline")).rows("host_ops") == 1


def test_ranks_that_are_not_asked_for_write_nothing(tmp_path):
    code = "import sightline as sl; sl.mark('x')"
    for rank in (1, 3):
        env = recording.clean(RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank))
        done = recording.run(
            *PLAIN, "-o", "job", "--ranks", "0,3", "--", PY, "-c", code, cwd=tmp_path, env=env
        )
        assert done.returncode == 0, done.stderr
    run = sl.open(str(tmp_path / "job.sightline"))
    recordings = run.table("recordings").sort("rank")
    assert recordings.select("rank", "world_size", "rank_source").rows() == [
        (3, 4, "recording"),
    ]


def test_a_choice_of_ranks_that_chose_none_is_in_the_reason(tmp_path):
    done = recording.run("--backend", "torch", "--ranks", "7,9", "--", "true", cwd=tmp_path)
    assert "(chosen: --ranks 7,9)" in " ".join(done.stderr.split())


def test_secrets_in_the_command_are_not_kept(tmp_path):
    words = ["--api-key", "hunter2", "--token=hunter3", "API_SECRET=hunter4"]
    recording.run(*PLAIN, "-o", "r", "--", "true", *words, cwd=tmp_path)
    text = next((tmp_path / "r.sightline").glob("*.recorded.json")).read_text()
    assert "hunter" not in text
    assert "--api-key" in text


HOT = """
#include <stdio.h>
#include <time.h>
__attribute__((noinline)) double hot(long n) {
  double s = 0; for (long i = 0; i < n; i++) s += (double)i * i; return s; }
int main(void) {
  printf("%g\\n", hot(1000000000));
  printf("%ld\\n", (long)clock() * (1000000000 / CLOCKS_PER_SEC)); return 3; }
"""


@pytest.mark.timing
@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_a_c_program_is_sampled(tmp_path):
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler")
    (tmp_path / "hot.c").write_text(HOT)
    subprocess.run(
        ["cc", "-O1", "-fno-omit-frame-pointer", "-o", tmp_path / "hot", tmp_path / "hot.c"],
        check=True,
    )
    began = time.time_ns()
    done = recording.run("--backend", "cpu", "--", "./hot", cwd=tmp_path)
    result, cpu_ns = done.stdout.split()
    assert (result, done.returncode) == ("3.33333e+26", 3)
    assert "sightline report hot.sightline" in done.stderr
    run = sl.open(str(tmp_path / "hot.sightline"))
    samples = run.table("cpu_samples")
    # As much as the program itself says that it took, give or take two samples.
    sampled = samples.get_column("weight_ns").sum()
    assert 0.8 * int(cpu_ns) < sampled < 1.1 * int(cpu_ns) + 11_000_000
    # On the wall clock, as everything else of the run.
    low, high = samples.select(pl.min("time_ns"), high=pl.max("time_ns")).row(0)
    assert began < low <= high < time.time_ns()
    folded = tmp_path / "f.folded"
    assert sightline("flame", tmp_path / "hot.sightline", "-o", folded).code == 0
    by_leaf: dict[str, int] = {}
    for line in folded.read_text().splitlines():
        stack, _, weight = line.rpartition(" ")
        leaf = stack.rpartition(";")[2]
        by_leaf[leaf] = by_leaf.get(leaf, 0) + int(weight)
    assert by_leaf["hot"] > 0.9 * sum(by_leaf.values())


@pytest.mark.timing
def test_a_plain_python_script_is_sampled(tmp_path):
    pytest.importorskip("sightline")
    if not (Path(PY).parent / "py-spy").exists() and shutil.which("py-spy") is None:
        pytest.skip("py-spy is not installed")
    script = tmp_path / "hot.py"
    script.write_text(
        # Long enough for py-spy to be there, also on a busy machine.
        "import time\ndef hot():\n    end, late = time.process_time() + 0.6, time.time() + 2\n"
        "    n = 0\n    while time.process_time() < end or time.time() < late:\n"
        "        n += sum(range(2000))\n    return n > 0\n"
        "print(hot())\n"
    )
    done = recording.run("--no-report", "--", PY, script, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("True\n", 0)
    run = sl.open(str(tmp_path / "hot.sightline"))
    frames = run.table("frames").filter(pl.col("function") == "hot")
    assert frames.height >= 1
    assert run.table("stack_weights").get_column("value").sum() > 200_000_000


def test_dry_run_prints_and_runs_nothing(tmp_path):
    done = recording.run(
        "--dry-run", "--backend", "torch", "--steps", "2:1:5", "--", "touch", "x", cwd=tmp_path
    )
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == []
    lines = done.stdout.splitlines()
    assert lines[-1] == "touch x"
    assert any('"steps":[2,1,5]' in line for line in lines)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--for", "speed", "--", "x"], "there is no question 'speed'"),
        (["--backend", "vtune", "--", "x"], "there is no backend 'vtune'"),
        (["--steps", "1:2", "--", "x"], "--steps 1:2 cannot be used"),
        (["--ranks", "a", "--", "x"], "--ranks a is not a list"),
        (["--every", "0", "--", "x"], "--every 0 is not a valid value"),
        (["--timeout", "-3", "--", "x"], "--timeout -3 is not a valid value"),
        (["--replay", "often", "--", "x"], "--replay often is unknown"),
        ([], "there is no program to record"),
        (["--server", "triton", "http://localhost:1"], "there is no server kind 'triton'"),
        (["--server", "vllm", "http://localhost:1"], "is not known"),
        (["--server", "vllm", "localhost", "--traces", "."], "localhost is not an address"),
    ],
)
def test_wrong_requests_are_answered(tmp_path, monkeypatch, words, text):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VLLM_TORCH_PROFILER_DIR", raising=False)
    outcome = sightline("run", *words)
    assert outcome.code == 2
    assert text in " ".join(outcome.err.split())
    assert list(tmp_path.iterdir()) == []
