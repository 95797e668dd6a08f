"""Who is missing in which collective, and who of those keeps the others."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from support.flight import entry, opened_dumps
from support.hanging import find_line, write_hang


def asked(run):
    return run.ask("hangs").select("sequence", "waiting", "missing", "blamed").rows()


def test_one_rank_stays_away(tmp_path: Path) -> None:
    run = opened_dumps(tmp_path, [entry(1, done=True), entry(2)], [entry(2)], [entry(1)])
    assert asked(run) == [(2, [0, 1], [2], [2])]


def test_records_that_are_gone_are_not_missed(tmp_path: Path) -> None:
    """Rank 1 keeps its last record only: it was in the first."""
    assert asked(opened_dumps(tmp_path, [entry(1), entry(2)], [entry(2)])) == []


def test_a_rank_without_a_dump_is_missing(tmp_path: Path) -> None:
    assert asked(opened_dumps(tmp_path, [entry(5)], [entry(5)], None)) == [(5, [0, 1], [2], [2])]


def test_who_waits_for_another_missing_rank_is_not_blamed(tmp_path: Path) -> None:
    """0 waits for 1 in the second; 1 still waits in the first for 2, which never came."""
    run = opened_dumps(tmp_path, [entry(1), entry(2)], [entry(1)], [])
    assert asked(run) == [(1, [0, 1], [2], [2]), (2, [0], [1, 2], [2])]


def test_a_rank_that_waits_to_receive_is_kept_by_the_sender(tmp_path: Path) -> None:
    receive = entry(3, "recv 1<-2", is_p2p=True, p2p_seq_id=9)
    run = opened_dumps(tmp_path, [entry(1)], [receive], [])
    assert asked(run) == [(1, [0], [1, 2], [2])]


@pytest.mark.parametrize(("stopped", "after"), [(3, 0), (13, 31), (24, 47)])
def test_one_of_32_ranks_in_several_groups(tmp_path: Path, stopped: int, after: int) -> None:
    """All come to wait, most of them for ranks that wait themselves: one is blamed, with a line."""
    run = sightline.open(*write_hang(tmp_path, 32, stopped, after))
    first = run.findings()[0]
    assert (first.rule, first.where["ranks"]) == ("collective-hang", [stopped])
    assert first.where["source"] == f"train.py({find_line(32, stopped, after)}): step"
