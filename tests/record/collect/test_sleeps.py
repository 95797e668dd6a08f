"""What a thread sleeps for, read from outside: real processes in real calls."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import sightline
from sightline.core.model import usage_metrics as m
from sightline.record.collect.sleeps import find_sleep
from support.recording import clean, run

pytestmark = [
    pytest.mark.timing,
    pytest.mark.skipif(
        not Path("/proc/self/syscall").exists(), reason="this kernel has no /proc/PID/syscall"
    ),
]
CALLS = {
    m.TIMER: "time.sleep(60)",
    m.PROCESS: "os.read(os.pipe()[0], 1)",
    m.LOCK: "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    m.NETWORK: "here, there = socket.socketpair(); here.recv(1)",
    m.POLL: "select.poll().poll(60_000)",
}


@contextmanager
def child(code: str) -> Iterator[int]:
    """A process that prints a line, then does that."""
    words = [sys.executable, "-c", "import os, select, socket, sys, threading, time\n"
             "print(flush=True)\n" + code]  # fmt: skip
    process = subprocess.Popen(words, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def look(pid: int) -> str | None:
    """What it sleeps for, once it does."""
    for _ in range(200):
        if (found := find_sleep(pid, pid)) is not None:
            return found
        time.sleep(0.01)
    return None


@pytest.mark.parametrize("cause", CALLS)
def test_a_sleeping_thread_says_in_which_call(cause: str) -> None:
    with child(CALLS[cause]) as pid:
        assert look(pid) == cause


def test_a_thread_that_runs_does_not_sleep() -> None:
    with child("while True: pass") as pid:
        time.sleep(0.1)
        assert {find_sleep(pid, pid) for _ in range(20)} == {None}


def test_a_process_that_is_gone_does_not_sleep() -> None:
    with child("pass") as pid:
        pass
    assert find_sleep(pid, pid) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become somebody else")
def test_who_may_not_look_says_that_it_is_unknown() -> None:
    with child("time.sleep(60)") as pid:
        assert look(pid) == m.TIMER
        os.seteuid(65534)
        try:
            assert find_sleep(pid, pid) == m.UNKNOWN
        finally:
            os.seteuid(0)


def test_a_recorded_program_says_what_it_slept_for(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import time\nimport sightline as sl\n"
        "for _ in range(50):\n"
        "    time.sleep(0.04)\n"
        "    end = time.perf_counter() + 0.01\n"
        "    while time.perf_counter() < end: pass\n"
        "    sl.step()\n"
    )
    folder = tmp_path / "out.sightline"
    run("--backend", "torch", "--no-report", "-o", folder, "--", sys.executable, "program.py",
        cwd=tmp_path, env=clean())  # fmt: skip
    found = sightline.open(str(folder))
    usage = found.ask("step_usage").row(0, named=True)
    # 49 steps of 40 ms asleep and 10 ms awake; what the clock interrupt adds is not ours.
    assert usage["steps"] == 49
    assert usage["asleep_ns"] >= 49 * 40e6
    assert usage["running_ns"] + (usage["queued_ns"] or 0) >= 49 * 9e6
    rows = found.ask("step_sleeps").rows(named=True)
    assert rows[0]["waits_for"] == m.TIMER
    # Two ways: the operating system's own count, and ten looks a second, fewer on a busy machine.
    assert 0 < rows[0]["slept_ns"] < 1.5 * usage["asleep_ns"]
    assert rows[0]["samples"] >= 2
