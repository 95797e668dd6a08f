"""The page of a job's ranks: no frame without a picture, and columns that say what they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sightline.fleet.answer import judge_ranks
from sightline.fleet.read import reduce_recordings
from sightline.views.html.ranks import show_path, show_steps
from support.many_ranks import Program, write_ranks


def test_steps_are_drawn_where_a_line_goes_through_them(tmp_path: Path) -> None:
    paths = map(str, write_ranks(Program(2, steps=3), tmp_path))
    answer = judge_ranks(reduce_recordings(list(paths)))
    assert [block["kind"] for block in show_steps(answer)] == ["text", "lines", "table"]
    (path,) = show_path(answer)
    assert [column["name"] for column in path["columns"]][2] == "path_ns"
    one = replace(answer, verdict=replace(answer.verdict, steps=answer.verdict.steps.head(1)))
    assert [block["kind"] for block in show_steps(one)] == ["text", "table"]
