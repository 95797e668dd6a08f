"""Memory timelines as PyTorch wrote them, against sums made here from the raw lists."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

import sightline as sl
from sightline.errors import DamagedError
from support.places import RECORDED

# torch/profiler/_memory_profiler.py, _CATEGORY_TO_COLORS.
CATEGORIES = ["parameter", "optimizer state", "input", "temporary", "activation", "gradient"]


def sum_at_peak() -> tuple[int, dict[str, int]]:
    """The first highest sum of the raw list, and each category's part of it."""
    held, most, at_peak = [0] * 8, 0, [0] * 8
    for _, _, change, category in json.loads(
        gzip.decompress((RECORDED / "torch.raw.json.gz").read_bytes())
    ):
        held[category] += change
        if sum(held) > most:
            most, at_peak = sum(held), list(held)
    return most, {name: size for name, size in zip(CATEGORIES, at_peak, strict=False) if size}


def test_the_raw_list() -> None:
    run = sl.open(str(RECORDED / "torch.raw.json.gz"))
    most, parts = sum_at_peak()
    assert run.ask("memory_peak").item(0, "allocated_bytes") == most
    rows = run.ask("peak_blocks")
    assert dict(rows.select("kind", "bytes").rows()) == parts
    assert set(rows.get_column("confidence")) == {"high"}
    last = run.table("memory_events").row(-1, named=True)
    assert last["time_ns"] == 1795393247718008016


def test_sums_of_each_moment() -> None:
    run = sl.open(str(RECORDED / "torch.json"))
    times, sums = json.loads((RECORDED / "torch.json").read_text())
    totals = {time * 1000: sum(row) for time, row in zip(times, sums, strict=True)}
    found = run.table("memory_events").group_by("time_ns").last()
    for time, total in found.select("time_ns", "allocated_bytes").rows():
        assert total == totals[time]
    assert run.ask("memory_peak").item(0, "allocated_bytes") == max(totals.values())
    assert dict(run.ask("peak_blocks").select("kind", "bytes").rows()) == sum_at_peak()[1]


def test_without_a_category_the_peak_is_that_of_the_others() -> None:
    _, sums = json.loads((RECORDED / "torch.json").read_text())
    after = max(sum(row) - row[1 + CATEGORIES.index("gradient")] for row in sums)
    rows = sl.open(str(RECORDED / "torch.json")).ask("memory_what_if")
    assert dict(rows.select("without", "after_bytes").rows())["gradient"] == after


def test_a_cut_list_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "m.raw.json"
    path.write_text("[[-1, 1, 8, 0], [5, 2, 4, 4], [6, 4, -4")
    run = sl.open(str(path))
    assert run.table("memory_events").get_column("allocated_bytes").to_list() == [8, 12]
    assert "truncated" in run.table("quality").get_column("kind").to_list()


def test_the_page_says_that_it_is_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "m.html"
    path.write_text(
        '<html>\n<head><meta charset="utf-8" /><title>GPU Memory Timeline HTML</title></head>\n'
        "<body>\n  <img src='data:image/png;base64,aGk='>\n</body>\n</html>"
    )
    with pytest.raises(DamagedError, match="holds no numbers"):
        sl.open(str(path))
