"""Dumps of 16 ranks with injected faults, against what NVIDIA's resiliency extension says."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline

pytestmark = pytest.mark.corpus
CASES = ("gpu_error_1st", "gpu_error_2nd", "lock_gil_1st")


@pytest.mark.parametrize("case", CASES)
def test_the_published_ranks_and_group(corpus: Path, case: str) -> None:
    unit = corpus / "nccl_flight_recorder" / "NVIDIA__nvidia-resiliency-ext" / "tests"
    unit = unit / "attribution" / "unit"
    row = (unit / "reference_outputs" / f"{case}_reference.txt").read_text().splitlines()[1]
    group, _, op, _, _, missing = (cell.strip() for cell in row.split("|"))
    dumps = sorted((unit / "fr_traces" / case).glob("_dump_*"))
    run = sightline.open(*map(str, dumps))
    (found,) = run.findings()
    assert found.where["ranks"] == [int(rank) for rank in missing.split(",")]
    assert f"{op} number" in found.summary
    assert f"({group})" in found.summary
    assert run.ask("collective_mismatches").is_empty()
