"""A program's end is seen even where another thread took the signal that tells of it."""

from __future__ import annotations

import subprocess
import sys

# Between two looks of the main thread, which blocks SIGCHLD, the program ends; the kernel gives the
# signal to the other thread, which does not block it, and whose default is to drop it (signal(7)).
LOST_SIGNAL = """
import os, signal, threading, time
from sightline.collect import child

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
