"""A sample of the losses that nobody says; and that no format is without a recording to damage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("losses.py")
# Of the sample. `make attack` prints which: a line of a log that became another program's output, a
# name that became another one (docs/security.md).
MOST_UNSAID = 0.05


def test_losses_of_damaged_recordings_are_said() -> None:
    """Exit 0: no bug, nothing slow, and every format of the registry was attacked."""
    words = [sys.executable, str(PROGRAM), "--here", "--each", "3", "--start", "5000"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = [int(cell) for cell in done.stdout.strip().splitlines()[-1].split()[1:]]
    assert counts[0] > 250
    assert counts[-1] <= MOST_UNSAID * counts[0], done.stdout
