"""The critical path on a screen: what the host was in, not the call that ended it."""

from __future__ import annotations

from support.command import sightline
from support.places import EXAMPLES


def test_the_host_between_calls_is_named_by_the_range_it_was_in() -> None:
    """As the report does: the loader takes the time, and not the copy that comes after it."""
    out = sightline("critical-path", EXAMPLES / "simulated-dataloader.json.gz").out
    first = out.partition("Largest on the path\n")[2].splitlines()[0]
    assert "DataLoader" in first
    assert "CPU code between calls" in first
