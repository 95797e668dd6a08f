"""The page of a job's ranks: no frame without a picture, and columns that say what they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.fleet.answer import judge_ranks
from sightline.fleet.read import reduce_recordings
from sightline.views.html.ranks import show_path, show_steps
from support.many_ranks import Program, write_ranks


@pytest.mark.parametrize(
    ("steps", "kinds"), [(1, ["text", "table"]), (3, ["text", "lines", "table"])]
)
def test_steps_are_drawn_where_a_line_goes_through_them(
    tmp_path: Path, steps: int, kinds: list[str]
) -> None:
    paths = map(str, write_ranks(Program(2, steps=steps), tmp_path))
    answer = judge_ranks(reduce_recordings(list(paths)))
    assert [block["kind"] for block in show_steps(answer)] == kinds
    (path,) = show_path(answer)
    assert [column["name"] for column in path["columns"]][2] == "path_ns"
