"""smaller_batch: what it foretells, against the same program with that batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sightline
from support.places import RECORDED
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


@pytest.mark.parametrize(
    ("program", "batch", "error"), [("blocks", 32, 0.001), ("convolutions", 64, 0.55)]
)
def test_as_a_real_program_with_that_batch(program: str, batch: int, error: float) -> None:
    """What PyTorch recorded of one program with three batches: the peak is in the range foretold.

    For the second, PyTorch itself cannot tell what a third of the bytes are of: they are taken not
    to grow with the batch, and the range says so.
    """

    def open_batch(part: float) -> sightline.Run:
        return sightline.open(str(RECORDED / f"{program}_{int(batch * part)}.raw.json.gz"))

    rows = open_batch(1).ask("smaller_batch").to_dicts()
    assert [row["batch"] for row in rows] == [0.5, 0.25]
    for row in rows:
        (peak,) = open_batch(row["batch"]).ask("memory_peak").get_column("allocated_bytes")
        assert row["after_low_bytes"] <= peak * 1.001
        assert row["after_high_bytes"] >= peak
        assert row["after_bytes"] == pytest.approx(peak, rel=error)
