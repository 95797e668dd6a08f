"""Both recorders of the in-code API: each test that uses this fixture runs once with either."""

from __future__ import annotations

import pytest

import sightline
from sightline.record.inline import annotate, compiled, recorder, session, step

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
    # The door first: it takes its names from the modules when they are first asked for.
    monkeypatch.setattr(sightline, "annotate", annotate.PlainRange)
    monkeypatch.setattr(sightline, "mark", annotate.plain_mark)
    monkeypatch.setattr(sightline, "step", step.plain_step)
    monkeypatch.setattr(annotate, "annotate", annotate.PlainRange)
    monkeypatch.setattr(recorder, "marks", None)
    monkeypatch.setattr(session, "marks", None)
