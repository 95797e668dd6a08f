"""Both recorders of the in-code API: each test that uses this fixture runs once with either."""

from __future__ import annotations

import pytest

import sightline
from sightline.inline import annotate, compiled, recorder, session

KINDS = ("compiled", "plain")


@pytest.fixture(params=KINDS)
def recorder_kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """In this process and in those that it starts."""
    kind: str = request.param
    use_recorder(kind, monkeypatch)
    return kind


def use_recorder(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Record with that one from here on; skips where this installation has no compiled one."""
    if kind == "compiled":
        if compiled.marks is None:
            pytest.skip(
                "sightline._marks is not built here: it is on Linux, where Python has a GIL"
            )
        return
    monkeypatch.setenv(compiled.VARIABLE, "plain")
    monkeypatch.setattr(recorder, "marks", None)
    monkeypatch.setattr(session, "marks", None)
    monkeypatch.setattr(annotate, "annotate", annotate.PlainRange)
    monkeypatch.setattr(sightline, "annotate", annotate.PlainRange, raising=False)
    monkeypatch.setattr(sightline, "mark", annotate.plain_mark, raising=False)
