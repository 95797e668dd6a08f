"""Different collectives in one sentence."""

from __future__ import annotations

from pathlib import Path

from support.flight import entry, opened_dumps


def test_who_called_what_at_which_lines(tmp_path: Path) -> None:
    run = opened_dumps(tmp_path, [entry(2)], [entry(2, "broadcast", line=40)], [entry(2)])
    (found,) = run.findings()
    assert found.summary == (
        'At number 2 of group default_pg (0) rank 1 called nccl:broadcast of [[4]] ["Float"] at '
        'train.py(40): step, where ranks 0 and 2 called nccl:all_reduce of [[4]] ["Float"] at '
        "train.py(13): step."
    )
    assert found.where["ranks"] == [1]


def test_ranks_that_agree(tmp_path: Path) -> None:
    run = opened_dumps(tmp_path, [entry(2)], [entry(2)])
    assert run.findings() == []
