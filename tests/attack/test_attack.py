"""A sample of `make attack`: the whole takes ten minutes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.campaigns import CAMPAIGNS

PROGRAM = Path(__file__).with_name("campaign.py")


@pytest.mark.skipif(sys.platform != "linux", reason="bounds of Linux")
def test_damaged_inputs_end_with_an_answer_or_a_message() -> None:
    # Of each kind its answers while it is whole are needed first, which takes longest.
    seconds, most, every = (600, 1_000_000, 1) if CAMPAIGNS else (30, 6, 96)
    words = [sys.executable, str(PROGRAM), "--seconds", str(seconds), "--most", str(most)]
    done = subprocess.run(
        [
            *words,
            "--every",
            str(every),
            "--seed",
            "17",
            "--workers",
            str(min(2, os.cpu_count() or 1)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.strip().splitlines()[-1].split()[1]) > (20 if CAMPAIGNS else 3)


@pytest.mark.campaign
@pytest.mark.skipif(sys.platform != "linux", reason="faults of Linux")
def test_faults_of_the_machine() -> None:
    words = [sys.executable, str(PROGRAM.with_name("faults.py")), "--quick"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
