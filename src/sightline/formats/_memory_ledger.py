"""What an allocator's history has lost, as the ledger of its blocks notices it."""

from __future__ import annotations

from sightline._native import Ledger
from sightline.core.model.declare import Quality


def note_lost_events(ledger: Ledger) -> list[Quality]:
    """Allocations and frees that have to have been, and are in no event."""
    found = []
    if ledger.lost_frees:
        text = "blocks were allocated again before they were freed: frees are missing"
        found.append(Quality("frees_missing", "warning", text, ledger.lost_frees))
    if ledger.lost_allocations:
        text = (
            "blocks were freed where others had been since the history began: their allocations "
            "are missing, so sums are too low until they are freed"
        )
        found.append(Quality("allocations_missing", "warning", text, ledger.lost_allocations))
    return found
