"""Process groups are named by what the program says of them, else by members and operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.jobs import collective
from support.traces import opened_ranks


@pytest.mark.parametrize(
    ("members", "told", "name", "by"),
    [
        ((0, 1, 2, 3), {}, "tensor", "members and operations"),
        ((0, 8, 16), {}, "data", "members and operations"),
        ((0, 8, 16), {"op": "all_to_all"}, "expert", "members and operations"),
        ((0, 8), {"op": "send"}, "pipeline", "members and operations"),
        ((0, 1), {"Process Group Description": "mesh_cp"}, "context", "description"),
        ((0, 3, 4), {}, None, None),
    ],
)
def test_a_group_is_named(tmp_path: Path, members, told, name: str | None, by: str | None) -> None:
    run = opened_ranks(tmp_path, [collective(0, 100, members=members, **told)])
    row = run.ask("parallel_groups").row(0, named=True)
    assert (row["parallelism"], row["named_by"]) == (name, by)
    assert row["group_size"] == len(members)
