"""smaller_batch: what it foretells, against the same program with that batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.snapshots import opened
from support.training import train
from synth_memory.programs import simulate


def ask(folder: Path, document: dict[str, Any]) -> list[dict[str, Any]]:
    return opened(folder, document).ask("smaller_batch").to_dicts()


def test_training_with_half_the_batch(tmp_path: Path) -> None:
    """Activations of 140 become 70: 100 + 200 + 100 + 40 / 2, and the optimizer's scratch of 1."""
    half, quarter = ask(tmp_path, train())
    assert (half["batch"], half["before_bytes"]) == (0.5, 440)
    assert half["after_bytes"] == 420
    assert quarter["after_bytes"] <= half["after_bytes"]


@pytest.mark.parametrize("cause", ["activations-kept", "peak-set-by-one-tensor", "memory-leak"])
@pytest.mark.parametrize("seed", range(4))
def test_as_the_same_program_with_that_batch(tmp_path: Path, cause: str, seed: int) -> None:
    truth = {b: simulate(cause, seed, b).truth["peak"] for b in (0.5, 0.25)}
    for row in ask(tmp_path, simulate(cause, seed).document):
        true = truth[row["batch"]]
        assert row["after_bytes"] == pytest.approx(true, rel=0.001)
        assert row["after_low_bytes"] <= true * 1.001
        assert row["after_high_bytes"] >= true * 0.999


def test_nothing_is_foretold_where_no_activation_is_known(tmp_path: Path) -> None:
    document = train()
    for event in document["device_traces"][0]:
        event["frames"] = []
    assert ask(tmp_path, document) == []
