"""A program's end: seen where another thread took the signal; a time-out ends what it started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
