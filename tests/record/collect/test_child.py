"""A program's end: seen where another thread took the signal; a time-out ends what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support import recording

# Between two looks of the main thread, which blocks SIGCHLD, the program ends; the kernel gives the
# signal to the other thread, which does not block it, and whose default is to drop it (signal(7)).
LOST_SIGNAL = """
import os, signal, threading, time
from sightline.record.collect import child

threading.Thread(target=threading.Event().wait, daemon=True).start()
gate, opener = os.pipe()
os.set_inheritable(gate, True)
program = child.Child(["sh", "-c", f"read word <&{gate}; exit 7"], os.environ)
lost = []

def end_meanwhile(self):
    if lost:
        return
    os.write(opener, b"end\\n")
    os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
    while signal.SIGCHLD in signal.sigpending():
        time.sleep(0.001)
    lost.append(True)

child.Child._reap_orphans = end_meanwhile
program.open_gate()
ended = program.wait(None, lambda: None)
print(ended.code, lost)
"""


def test_an_end_whose_signal_another_thread_has_dropped() -> None:
    # Only a wait that never ends comes near this limit.
    words = [sys.executable, "-c", LOST_SIGNAL]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout == "7 [True]\n", done.stderr


# A shell may start a server and become the recorder: that server is no process of the program.
TIMED_OUT = """
import os, subprocess, time
from sightline.record.collect import child

# Both start something while the program runs.
script = "sleep 0.3; sleep 60 & echo $!; wait"
other = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True)
program = child.Child(["sh", "-c", script + " 2>/dev/null"], os.environ)
program.open_gate()
ended = program.wait(1.0, lambda: None)
below = int(other.stdout.readline())
os.kill(below, 0)
print(ended.timed_out, other.poll())
os.kill(below, 9)
"""


def test_a_time_out_ends_nothing_that_was_there_before() -> None:
    words = [sys.executable, "-c", TIMED_OUT]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    pid, told = done.stdout.splitlines()
    assert told == "True None", done.stderr
    stat = Path(f"/proc/{pid}/stat")  # what the program started is gone, or waits to be asked for
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] == "Z"


# It counts what it gets, for long enough to get it twice: a byte for each delivery, where Python's
# own handlers run once for several.
COUNTS = """
import os, signal, sys, time
news, got = os.pipe()
os.set_blocking(got, False)
signal.set_wakeup_fd(got)
signal.signal(signal.SIGTERM, lambda *_: None)
if "own" in sys.argv: os.setpgid(0, 0)
print("ready", flush=True)
first = os.read(news, 100)
time.sleep(0.6)
os.set_blocking(news, False)
try: first += os.read(news, 100)
except BlockingIOError: pass
print(len(first), flush=True)
"""


def _to_all_of_the_group(pid: int) -> None:
    os.killpg(pid, signal.SIGTERM)


def _to_us(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)


def _one_by_one(pid: int) -> None:
    """As systemd ends the processes of a control group."""
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if os.getpgid(int(path.name)) == pid:
                os.kill(int(path.name), signal.SIGTERM)
        except ProcessLookupError:
            continue


def _to_us_and_then_to_all(pid: int) -> None:
    """As timeout(1)."""
    os.kill(pid, signal.SIGTERM)
    time.sleep(0.02)
    os.killpg(pid, signal.SIGTERM)


def _twice_to_us(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    time.sleep(0.25)
    os.kill(pid, signal.SIGTERM)


@pytest.mark.parametrize(
    ("send", "group", "times"),
    [
        (_to_all_of_the_group, "ours", "1"),
        (_to_all_of_the_group, "own", "1"),  # which is not that of the program: it is passed on
        (_to_us, "ours", "1"),
        (_one_by_one, "ours", "1"),
        (_to_us_and_then_to_all, "ours", "1"),
        (_twice_to_us, "ours", "2"),
    ],
)
def test_a_stop_reaches_the_program_as_often_as_it_was_sent(tmp_path, send, group, times) -> None:
    words = [*recording.COMMAND, "--no-report", "--backend", "torch", "-o", "r", "--"]
    process = subprocess.Popen(
        [*words, sys.executable, "-c", COUNTS, group],
        cwd=tmp_path,
        env=recording.clean(),
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout.readline() == "ready\n"
    send(process.pid)
    assert process.communicate(timeout=30)[0] == f"{times}\n"
    assert process.returncode == 0
