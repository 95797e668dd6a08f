"""The report's answer is kept, and taken only where nothing has changed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

import sightline
from sightline.answer import cache as kept
from sightline.answer.summary import answer_run
from sightline.core.model.cache_folder import find_cache_folder
from sightline.core.model.run import Run
from sightline.diagnosis.custom.forms import OwnRule
from support import traces as t

EVENTS = [t.step(1, 0, 90), t.op("a", 1, 20), *(t.kernel(f"k{i}", 10 * i, 5) for i in range(8))]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("SIGHTLINE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "MIN_ROWS", 1)
    return sightline.open(str(t.write(tmp_path, EVENTS)))


def times_asked(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    asked: list[Run] = []

    def counted(run: Run, own: Sequence[OwnRule] = (), *, whole: bool = False) -> dict[str, object]:
        asked.append(run)
        return answer_run(run, own, whole=whole)

    monkeypatch.setattr(kept, "answer_run", counted)
    return asked


def test_the_second_time_nothing_is_asked(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = times_asked(monkeypatch)
    first = kept.keep_answer_of(run)
    again = kept.keep_answer_of(Run(run.parts))
    assert len(asked) == 1
    assert first == again
    assert first.breakdown == answer_run(run).breakdown


def test_another_window_another_answer(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = times_asked(monkeypatch)
    whole = kept.keep_answer_of(run)
    part = kept.keep_answer_of(run.with_window("0us..20us"))
    assert len(asked) == 2
    assert part.window != whole.window


@pytest.mark.parametrize("change", ["table", "answer", "program"])
def test_what_has_changed_is_asked_anew(
    run: Run, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    asked = times_asked(monkeypatch)
    first = kept.keep_answer_of(run)
    if change == "table":
        os.utime(run.parts[0].file("device_ops"), ns=(1, 1))
    elif change == "answer":
        (answer,) = (find_cache_folder() / "answers").iterdir()
        answer.write_text(answer.read_text()[:-5])
    else:
        monkeypatch.setattr(kept, "stamp_program", lambda: [("other.py", 1, 1)])
    assert kept.keep_answer_of(run) == first
    assert len(asked) == 2


def test_nothing_is_kept_of_a_small_recording_or_with_foreign_rules(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept.registry, "has_outsiders", lambda: True)
    kept.keep_answer_of(run)
    monkeypatch.setattr(kept, "MIN_ROWS", 100)
    kept.keep_answer_of(run)
    assert not (find_cache_folder() / "answers").exists()
