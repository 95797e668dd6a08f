"""The host's part of a step, before and after."""

from __future__ import annotations

from pathlib import Path

from sightline.compare.host import compare_host
from sightline.compare.sample import Sample, take_sample
from support.traces import host, op, opened, step


def _sample(folder: Path, name: str, relu: int, *, added: bool) -> Sample:
    """Three steps of 100 µs, each with a linear of 20 µs around an addmm of 15, and a relu."""
    events = []
    for i in range(4):
        at = 100 * i
        events += [step(i, at, 100), op("aten::linear", at + 1, 20), op("aten::addmm", at + 2, 15)]
        events += [op("aten::relu", at + 30, relu), host("user_annotation", "loss", at + 60, 30)]
        events += [op("aten::add", at + 61, 4)] if added else []
    return take_sample(opened(folder, events, f"{name}.json"), name)


def test_operators_by_their_own_time(tmp_path: Path) -> None:
    before = _sample(tmp_path, "a", 5, added=False)
    after = [_sample(tmp_path, "b", 9, added=True), _sample(tmp_path, "c", 11, added=True)]
    rows = {row["name"]: row for row in compare_host([before], after)}
    told = ("kind", "before_calls", "after_calls", "before_ns", "after_ns", "delta_ns")
    assert tuple(rows["aten::linear"][k] for k in told) == ("operator", 1, 1, 5000, 5000, 0)
    assert tuple(rows["aten::relu"][k] for k in told) == ("operator", 1, 1, 5000, 10000, 5000)
    assert tuple(rows["aten::add"][k] for k in told) == ("operator", 0, 1, 0, 4000, 4000)
    assert tuple(rows["loss"][k] for k in told) == ("range", 1, 1, 30000, 30000, 0)
    assert len(rows) == 5  # and no row for the step itself
