"""What an interpreter shows of a run agrees with the screen."""

from __future__ import annotations

from pathlib import Path

import sightline
from support.traces import kernel, write


def test_devices_that_did_nothing_are_not_counted(tmp_path: Path) -> None:
    known = [{"id": number, "name": "NVIDIA A100", "numSms": 108} for number in range(4)]
    trace = write(tmp_path, [kernel("k", 0, 5)], deviceProperties=known)
    run = sightline.open(str(trace))
    assert run.table("devices").height == 4
    assert "1 × NVIDIA A100" in repr(run)
