"""Hostile inputs take time and memory in proportion to their size; `make attack` has texts, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attack.hostile import CASES

PROGRAM = Path(__file__).with_name("doubling.py")


@pytest.mark.timing
@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory as Linux counts them")
@pytest.mark.parametrize("importer", sorted({name.partition("/")[0] for name in CASES}))
def test_twice_the_input_takes_twice_the_time_and_memory(importer: str) -> None:
    words = [sys.executable, str(PROGRAM), "--seconds", "0.1", "--only", f"{importer}/"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.splitlines()[-1].split()[0]) >= 4
