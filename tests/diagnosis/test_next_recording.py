"""A finding's check names the recording that a person is to make."""

from __future__ import annotations

import pytest

import sightline
from sightline.diagnosis.next_recording import name_next
from support.places import EXAMPLES


@pytest.mark.parametrize(
    ("paths", "name"),
    [
        (["runs/trace.json.gz"], "after.json.gz"),
        (["rank0.pt.trace.json"], "after.json"),
        (["report1.nsys-rep"], "after.nsys-rep"),
        (
            ["train.sightline/proc-1.events", "train.sightline/proc-1.torch-0.json"],
            "after.sightline",
        ),
        (["train.sightline/proc-1.cupti"], "after.sightline"),
        (["rank0.json", "rank1.json"], "after/"),
        (["trace"], "after"),
        ([], "after/"),
    ],
)
def test_the_next_recording_has_the_ending_of_this_one(paths: list[str], name: str) -> None:
    assert name_next(paths) == name


def test_no_finding_leaves_a_place_to_be_filled_in() -> None:
    found = sightline.open(str(EXAMPLES / "simulated-dataloader.json.gz")).findings()
    checks = [f.verify for f in found if f.verify]
    assert checks
    assert not any("AFTER" in check for check in checks)
    assert checks[0].startswith(
        "record it again as after.json.gz, then  sightline stats idle after."
    )
