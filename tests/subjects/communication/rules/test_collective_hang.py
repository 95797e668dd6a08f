"""A hang in one sentence."""

from __future__ import annotations

from pathlib import Path

from support.flight import entry, opened_dumps


def test_who_where_and_at_which_line(tmp_path: Path) -> None:
    run = opened_dumps(
        tmp_path, [entry(2, line=33)], [entry(2, line=33)], [entry(1, line=20, done=True)]
    )
    (found,) = run.findings()
    assert found.summary == (
        "Rank 2 never came to nccl:all_reduce number 2 of group default_pg (0), in which ranks 0 "
        "and 1 wait, at train.py(33): step."
    )
    assert found.evidence[0].endswith("number 1 of group default_pg (0), at train.py(20): step")
    assert (found.where["ranks"], found.confidence) == ([2], "high")


def test_a_rank_without_a_dump(tmp_path: Path) -> None:
    (found,) = opened_dumps(tmp_path, [entry(2)], None).findings()
    assert found.evidence[0] == "rank 1 has no dump"
    assert found.confidence == "medium"


def test_all_that_ended_is_no_hang(tmp_path: Path) -> None:
    own = [entry(1, done=True), entry(2, done=True)]
    assert opened_dumps(tmp_path, own, own).findings() == []
