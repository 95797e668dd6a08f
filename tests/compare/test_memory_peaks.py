"""Two memory peaks against each other: parts that add up to the difference, to the byte."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.compare.memory_peaks import compare_peaks
from support.command import sightline
from support.snapshots import alloc, frames, free, segment, snapshot

FORWARD = frames("m.py:2:forward", "t.py:1:<module>")
STEP = frames("torch/optim/sgd.py:3:step", "t.py:9:<module>")


def write(path: Path, events: list[Any], *segments: Any) -> Path:
    path.write_bytes(pickle.dumps(snapshot(events, list(segments))))
    return path


def test_what_grew_and_what_is_new(tmp_path: Path) -> None:
    before = write(tmp_path / "a.pickle", [alloc(4096, 100, 1, FORWARD), *free(4096, 100, 2)])
    after = write(
        tmp_path / "b.pickle",
        [
            alloc(8192, 30, 1, STEP),
            alloc(4096, 250, 2, FORWARD),
            *free(4096, 250, 3),
            alloc(4096, 1, 4, STEP),
        ],
        segment(4096, (1, "active_allocated"), (4095, "inactive"), (30, "active_allocated")),
    )
    done = sightline("compare", before, after, "--json")
    assert done.code == 0, done.err
    data = json.loads(done.out)
    (peak,) = data["peaks"]
    assert (peak["before_bytes"], peak["after_bytes"], peak["change_bytes"]) == (100, 280, 180)
    changes = {(row["kind"], row["place"]): row["change_bytes"] for row in data["places"]}
    # The optimizer's own code is not the user's: the line that called it is.
    assert changes == {
        ("temporary", "forward (m.py:2)"): 150,
        ("optimizer state", "<module> (t.py:9)"): 30,
    }
    screen = sightline("compare", before, after).out
    assert "+180 B" in screen
    assert "forward (m.py:2)" in screen
    assert all(len(line) <= 80 for line in screen.splitlines())


def test_a_gate_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.pickle", [alloc(4096, 100, 1), *free(4096, 100, 2)])
    done = sightline("compare", path, path, "--fail-on", "peak_memory > 5%")
    assert done.code == 2
    assert "have no gate" in done.err


@pytest.mark.corpus
def test_real_snapshots_add_up(corpus: Path) -> None:
    folder = corpus / "memory_snapshot/NiuHuangxiaozi__assignment2-systems/cs336_systems"
    names = (
        "forward_memory_snapshot_100",
        "forward_and_backward_memory_snapshot_200_mixed_precision",
    )
    before, after = (sl.open(str(folder / f"profile_memory/{name}.pickle")) for name in names)
    data = compare_peaks(before, after)
    for key in ("kinds", "places"):
        assert sum(row["change_bytes"] for row in data[key]) == data["peaks"][0]["change_bytes"]
    same = compare_peaks(after, after)
    assert not any(row["change_bytes"] for row in same["places"])
