"""Work is done, and its exit code kept, whoever reads what is said meanwhile: real pipes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sightline.core.model.history_folder import list_live, read_live
from sightline.core.model.history_tables import scan_history
from sightline.core.talk import CLEAR, LOG_BYTES, Talk
from support import recording, traces
from support.campaigns import cover

PROGRAMS = [("exit 0", 0), ("exit 5", 5), ("kill -9 $$", 137)]
FEW = ("--backend", "torch", "-o", "r")  # nothing watches from outside: the quickest
Reader = Callable[[int], None]


def leave_at_once(pipe: int) -> None:
    os.close(pipe)


def leave_after_a_line(pipe: int) -> None:
    with os.fdopen(pipe, "rb", buffering=0) as file:
        while file.read(1) not in (b"\n", b""):
            pass


def leave_in_the_middle(pipe: int) -> None:
    with os.fdopen(pipe, "rb", buffering=0) as file:
        file.read(12)
        time.sleep(0.3)


def read_all(pipe: int) -> None:
    with os.fdopen(pipe, "rb") as file:
        file.read()


def start(command: list[str], stderr: int, cwd: Path, *, both: bool) -> subprocess.Popen[bytes]:
    stdout = stderr if both else subprocess.DEVNULL
    return subprocess.Popen(command, cwd=cwd, env=recording.clean(), stdout=stdout, stderr=stderr)


def run_with_reader(command: list[str], read: Reader, cwd: Path, *, both: bool) -> int:
    """The exit code of a command whose standard error (`both`: and output) is a pipe."""
    ours, theirs = os.pipe()
    if read is leave_at_once:
        os.close(ours)
    process = start(command, theirs, cwd, both=both)
    os.close(theirs)
    if read is not leave_at_once:
        read(ours)
    return process.wait(timeout=60)


def read_log(folder: Path) -> str:
    (log,) = folder.glob("*.log")
    return log.read_text()


def command_of(script: str, *more: str) -> list[str]:
    return [*recording.COMMAND, *FEW, *more, "--", "sh", "-c", f"sleep 0.4; touch ran; {script}"]


@pytest.mark.parametrize(
    ("program", "read", "both"),
    cover(PROGRAMS, [leave_at_once, leave_after_a_line, leave_in_the_middle], [False, True]),
)
def test_a_run_whose_reader_leaves(
    tmp_path: Path, program: tuple[str, int], read: Reader, *, both: bool
) -> None:
    script, code = program
    assert run_with_reader(command_of(script), read, tmp_path, both=both) == code
    assert (tmp_path / "ran").exists()
    folder = tmp_path / "r.sightline"
    assert json.loads(next(folder.glob("*.recorded.json")).read_text())["exit_code"] == code
    log = read_log(folder)
    assert f"signal {code - 128}" in log if code > 128 else f"the program ended with {code}" in log
    assert ("recording into r.sightline" in log) == (read is leave_at_once)


@pytest.mark.parametrize(
    ("where", "program"),
    cover(["2>/dev/full", ">/dev/full 2>&1", "2>&-", "2>&1 >&- | true"], PROGRAMS),
)
def test_a_run_with_standard_error_that_takes_nothing(
    tmp_path: Path, where: str, program: tuple[str, int]
) -> None:
    script, code = program
    (tmp_path / "program").write_text(f"touch ran; {script}")
    told = f"{' '.join(recording.COMMAND)} {' '.join(FEW)} -- sh program {where}"
    passed_on = ["bash", "-o", "pipefail", "-c", told]
    done = subprocess.run(passed_on, cwd=tmp_path, env=recording.clean(), check=False)
    assert done.returncode == code
    assert (tmp_path / "ran").exists()
    log = read_log(tmp_path / "r.sightline")
    assert "sightline: the program" in log


def test_a_run_whose_reader_sleeps(tmp_path: Path) -> None:
    """The pipe is full, and stays so."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    with suppress(BlockingIOError):
        while True:
            os.write(theirs, bytes(1 << 12))
    os.set_blocking(theirs, True)
    process = start(command_of("exit 5"), theirs, tmp_path, both=False)
    try:
        assert process.wait(timeout=30) == 5
    finally:
        process.kill()
        os.close(ours)
        os.close(theirs)
    assert "the program ended with 5" in read_log(tmp_path / "r.sightline")


def test_a_reader_that_stays_is_told_all(tmp_path: Path) -> None:
    done = recording.run(*FEW, "--", "sh", "-c", "exit 5", cwd=tmp_path)
    assert done.returncode == 5
    assert "recording into r.sightline" in done.stderr and "ended with 5" in done.stderr
    assert not list((tmp_path / "r.sightline").glob("*.log"))


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    command = [*recording.COMMAND, *FEW, "--", "no-such-program"]
    assert run_with_reader(command, leave_at_once, tmp_path, both=True) == 127
    assert list(tmp_path.iterdir()) == []


def test_a_recorded_program_keeps_its_exit_code(tmp_path: Path) -> None:
    """What is said inside it is not what Python tries to write once more at its end."""
    script = "import shutil, sightline as sl; shutil.rmtree('r.sightline')"
    script += "\nwith sl.annotate('x'): pass"
    told = [*recording.COMMAND, *FEW, "--no-report", "--", sys.executable, "-c", script]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            told, cwd=tmp_path, env=recording.clean(), stderr=full, check=False, timeout=60
        )
    assert done.returncode == 0


def test_a_log_does_not_stop_a_folder_from_being_read(tmp_path: Path) -> None:
    script = "import sightline as sl\nfor _ in range(5):\n  sl.step()"
    command = [*recording.COMMAND, *FEW, "--no-report", "--", sys.executable, "-c", script]
    assert run_with_reader(command, leave_at_once, tmp_path, both=False) == 0
    report = [sys.executable, "-m", "sightline", "stats", "steps", "r.sightline"]
    done = subprocess.run(report, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "step" in done.stdout
    assert all(line.startswith("note: ") for line in done.stderr.splitlines())


WATCH = [sys.executable, "-m", "sightline", "watch", "--period", "0.1s", "-o", "h"]


@pytest.mark.parametrize("read", [leave_at_once, leave_after_a_line, leave_in_the_middle])
def test_a_watch_whose_reader_leaves(tmp_path: Path, read: Reader) -> None:
    command = [*WATCH, "--for", "1.5s"]
    assert run_with_reader(command, read, tmp_path, both=True) == 0
    times = scan_history(tmp_path / "h", "host").collect().get_column("time_ns").n_unique()
    assert times >= 8
    assert "The history is in h" in (tmp_path / "h" / "watch.log").read_text()


@pytest.mark.parametrize("where", ["2>/dev/full", ">/dev/full 2>&1", "2>&-"])
def test_a_watch_with_standard_error_that_takes_nothing(tmp_path: Path, where: str) -> None:
    command = f"exec {' '.join(WATCH)} {where}"
    process = subprocess.Popen(["sh", "-c", command], cwd=tmp_path, env=recording.clean())
    try:
        limit = time.monotonic() + 30
        while not any(len(read_live(p).rounds) >= 6 for p in list_live(tmp_path / "h")):
            assert time.monotonic() < limit and process.poll() is None
            time.sleep(0.05)
        process.terminate()
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
    log = (tmp_path / "h" / "watch.log").read_text()
    assert "Watching" in log and "The history is in h" in log


OTHER_WORK = [
    ("import a.json -o s.sightline", "s.sightline/run.json"),
    ("history add --history h a.json --label v=1", "h"),
    ("export a.json --to chrome -o b.json", "b.json"),
]


@pytest.mark.parametrize(("work", "where"), cover(OTHER_WORK, ["2>/dev/full", "2>&-"]))
def test_other_work_with_standard_error_that_takes_nothing(
    tmp_path: Path, work: tuple[str, str], where: str
) -> None:
    command, left = work
    traces.write(tmp_path, [traces.kernel("k", 0, 5)], "a.json")
    told = f"{sys.executable} -m sightline {command} {where}"
    done = subprocess.run(["sh", "-c", told], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / left).exists()


def test_an_exercise_whose_reader_leaves(tmp_path: Path) -> None:
    """Whether the planted cause was found is not whether one reads on."""
    script = (
        "import sys; from sightline.doors.cli import lab, main; lab._judge = lambda *_: 1\n"
        "sys.argv[1:] = ['lab', 'run', 'data-loading', '--kept']; sys.exit(main.start())"
    )
    command = [sys.executable, "-c", script]
    assert run_with_reader(command, leave_at_once, tmp_path, both=True) == 1


@pytest.mark.parametrize(("is_read", "code"), [(True, 3), (False, 0)])
def test_a_pipe_to_another_program_is_not_the_output(
    tmp_path: Path, code: int, *, is_read: bool
) -> None:
    """Only that nobody reads our own output is nothing wrong."""
    script = (
        "import sys; from sightline.doors.cli import formats, main\n"
        "def run(args): raise BrokenPipeError(32, 'Broken pipe')\n"
        "formats.run = run; sys.argv[1:] = ['formats']; sys.exit(main.start())"
    )
    command = ["env", f"TMPDIR={tmp_path}", sys.executable, "-c", script]  # for its details
    read = read_all if is_read else leave_at_once
    assert run_with_reader(command, read, tmp_path, both=True) == code


class Refusing:
    """A stream that takes nothing, and has no file below, as in a notebook."""

    encoding, errors = "utf-8", "strict"

    def write(self, text: str) -> int:
        raise BrokenPipeError

    def flush(self) -> None:
        raise BrokenPipeError

    def isatty(self) -> bool:
        return False


def test_a_log_has_whole_lines_and_no_progress(tmp_path: Path) -> None:
    talk = Talk(Refusing())  # type: ignore[arg-type]
    talk.write("first\nsec")
    talk.keep_in(tmp_path, "log")
    assert (tmp_path / "log").read_text() == "first\n"
    talk.write("ond\n" + CLEAR + "12 % of 3 GB")
    talk.write(CLEAR + "13 % of 3 GB")
    talk.write(CLEAR)
    talk.write("third")
    assert (tmp_path / "log").read_text() == "first\nsecond\n"
    talk.close()
    assert (tmp_path / "log").read_text() == "first\nsecond\nthird"


def test_a_log_has_a_bound(tmp_path: Path) -> None:
    talk = Talk(None)
    talk.keep_in(tmp_path, "log")
    for _ in range(300):
        talk.write("x" * 10_000 + "\n")
    talk.close()
    assert LOG_BYTES <= (tmp_path / "log").stat().st_size < LOG_BYTES + 20_000


def test_a_log_is_not_written_through_a_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("mine")
    (tmp_path / "log").symlink_to(other)
    talk = Talk(None)
    talk.keep_in(tmp_path, "log")
    talk.write("lost\n")
    talk.close()
    assert other.read_text() == "mine"
