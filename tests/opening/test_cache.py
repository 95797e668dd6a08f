"""Equal files under several names: the cache holds one import, but each keeps its own path."""

from __future__ import annotations

import shutil

import sightline
from support import traces


def test_path_and_rank_come_from_the_path_not_from_the_cache(tmp_path):
    first = traces.write(tmp_path, [traces.kernel("k", 0, 5)], "a_rank2.json")
    for name in ("b_rank5.json", "plain.json"):
        shutil.copy(first, tmp_path / name)
    run = sightline.open(str(tmp_path))
    rows = run.table("recordings").select("path", "rank", "rank_source").rows()
    assert [(path.rsplit("/", 1)[-1], rank, source) for path, rank, source in rows] == [
        ("a_rank2.json", 2, "file name"),
        ("b_rank5.json", 5, "file name"),
        ("plain.json", 0, "order"),
    ]
