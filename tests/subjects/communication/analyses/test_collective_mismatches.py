"""What the ranks asked for at the same place of a group's order."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.flight import entry, opened_dumps


@pytest.mark.parametrize(
    "odd",
    [
        {"op": "broadcast"},
        {"input_sizes": [[8]]},
        {"input_dtypes": ["Double"]},
    ],
    ids=["operation", "size", "type"],
)
def test_the_one_that_differs(tmp_path: Path, odd: dict[str, object]) -> None:
    own = [entry(1), entry(2)]
    run = opened_dumps(tmp_path, own, [entry(1), entry(2, **odd)], own)
    rows = run.ask("collective_mismatches").select("sequence", "rank", "is_usual").rows()
    assert rows == [(2, 0, True), (2, 2, True), (2, 1, False)]


def test_each_rank_has_its_own_sizes_in_an_all_to_all(tmp_path: Path) -> None:
    one, two = (entry(1, "all_to_all", input_sizes=[[n, 5120]]) for n in (100, 200))
    assert opened_dumps(tmp_path, [one], [two]).ask("collective_mismatches").is_empty()
