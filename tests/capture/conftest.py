from __future__ import annotations

import pytest

from sightline.capture import controller, keeper, node, triggers
from sightline.record.collect import kineto_door


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs of the tests ask 50 times a second, and not every five seconds."""
    for module in (kineto_door, keeper, node, controller, triggers):
        monkeypatch.setattr(module, "POLL_S", 0.4)
    monkeypatch.setattr(kineto_door, "QUIET_S", 0.1)
    for module in (controller, triggers):
        monkeypatch.setattr(module, "LATE_S", 0.2)
    monkeypatch.setattr(triggers, "has_gpu", lambda: False)
    monkeypatch.setattr(controller, "PERIOD_S", 0.02)
