"""What an interpreter shows of a run agrees with the screen."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model import usage_metrics as m
from sightline.session import Session
from sightline.views.for_llm import write_for_llm
from sightline.views.html.page import set_title
from support.stepped import MS, write_program
from support.traces import kernel, write


def test_devices_that_did_nothing_are_not_counted(tmp_path: Path) -> None:
    known = [{"id": number, "name": "NVIDIA A100", "numSms": 108} for number in range(4)]
    trace = write(tmp_path, [kernel("k", 0, 5)], deviceProperties=known)
    run = sightline.open(str(trace))
    assert run.table("devices").height == 4
    assert "1 × NVIDIA A100" in repr(run)


def test_the_files_of_a_run_folder_are_one_execution(tmp_path: Path) -> None:
    """Every screen and page calls it by the folder, and counts ranks, not files."""
    folder = tmp_path / "train.sightline"
    rises = {m.THREAD_CPU: 10 * MS}
    program = {"step_ns": 10 * MS, "rises": rises, "operators": [("aten::mm", 0, 6 * MS)]}
    run = write_program(folder, **program)
    assert run.rows("recordings") == 2
    assert repr(run).startswith("<sightline run: train.sightline · ")
    assert "2 recordings" not in repr(run)
    answer = Session.of(run).answer()
    assert "2 recordings" not in write_for_llm(answer)
    assert set_title(answer.recordings) == "train.sightline"
    both = write_program(folder.with_name("ranks.sightline"), **program, rank=0)
    both = write_program(folder.with_name("ranks.sightline"), **program, rank=1)
    assert repr(both).startswith("<sightline run: ranks.sightline · 2 ranks · ")
    assert set_title(Session.of(both).answer().recordings) == "ranks.sightline"
