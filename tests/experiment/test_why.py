"""Which two variants are recorded, and whether what they show explains what the runs showed."""

from __future__ import annotations

from sightline.experiment.why import choose_sides, is_opposite


def test_the_first_and_the_fastest() -> None:
    faster = {"against": "A", "variant": "B", "answer": "faster", "change_pct": -26.7}
    data = {"variants": [{"name": "A"}, {"name": "B"}], "differences": [faster], "fastest": "B"}
    assert choose_sides(data) == ("A", "B", True)


def test_one_disturbed_recording_explains_nothing() -> None:
    """The runs say that it is faster; in the one that was recorded its functions take longer."""
    rows = [{"before": 80, "after": 150}, {"before": 30, "after": 0}]
    assert is_opposite(rows, is_faster=True)
    assert not is_opposite(rows, is_faster=False)
