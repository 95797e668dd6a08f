"""energy_roofline: joules for each operation and byte of operators whose work is known."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import MissingDataError
from support.histories import EPOCH, SECOND, Phase, rest, train, write_history
from support.watched_traces import write_trace

ROWS = 4096


def open_both(folder: Path, matmul: int | None) -> sightline.Run:
    """Three steps of a minute at 500 W; the GPU idles at 75 W before and after."""
    phases = [
        Phase(600, {0: rest(75.0)}),
        Phase(180, {0: train(500.0)}),
        Phase(600, {0: rest(75.0)}),
    ]
    history = write_history(folder / "h", phases, period_s=5)
    trace = write_trace(folder / "trace.json", EPOCH + 600 * SECOND, matmul=matmul)
    return sightline.open(str(trace), str(history))


def test_a_product_of_matrices_has_its_joules_for_each_operation_and_byte(tmp_path: Path) -> None:
    (row,) = open_both(tmp_path, ROWS).ask("energy_roofline").to_dicts()
    flop, moved = 2 * ROWS**3, 3 * 2 * ROWS**2
    assert (row["operator"], row["instances"]) == ("aten::mm", 3)
    assert (row["flop"], row["moved_bytes"]) == (flop, moved)
    assert row["flop_per_byte"] == pytest.approx(ROWS / 3)
    assert row["energy_j"] == pytest.approx(180 * 500, rel=0.05)
    assert row["pj_per_flop"] == pytest.approx(60 * 500 / flop * 1e12, rel=0.05)
    assert row["pj_per_byte"] == pytest.approx(60 * 500 / moved * 1e12, rel=0.05)
    assert row["tflops_per_w"] == pytest.approx(flop / (60 * 500) / 1e12, rel=0.05)
    assert row["idle_j"] == pytest.approx(180 * 75, rel=0.1)


def test_without_shapes_there_is_no_work_to_divide_by(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="record_shapes"):
        open_both(tmp_path, None).ask("energy_roofline")
