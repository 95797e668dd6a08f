"""A sample of the losses that nobody says; and that no format is without a recording to damage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).with_name("losses.py")


def test_losses_of_damaged_recordings_are_said() -> None:
    """Exit 0: no bug, nothing slow, few unsaid, and every format of the registry was attacked."""
    words = [sys.executable, str(PROGRAM), "--here", "--each", "1", "--start", "5000"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (total,) = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("all ")]
    assert int(total) > 80
