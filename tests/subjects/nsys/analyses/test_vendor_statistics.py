"""Our statistics of a recording against those that nsys itself printed of it, cell by cell."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

import sightline
from support.corpus import list_recordings
from support.exports import opened
from synth_nsys import Export, gtid

PRINTED = list_recordings("nsys/own_cpu/*_*.csv")


def show(value: Any, like: str) -> str:
    """A value as nsys prints it: as many decimals as the printed one has; nothing is empty."""
    if value is None:
        return ""
    decimals = len(like.partition(".")[2])
    return f"{value:.{decimals}f}" if isinstance(value, float) else str(value)


@pytest.mark.corpus
@pytest.mark.parametrize("form", [".nsys-rep", ".sqlite"])
@pytest.mark.parametrize("path", PRINTED, ids=lambda path: path.stem)
def test_every_cell(path: Path, form: str) -> None:
    """Named RECORDING_REPORT.csv; printed by version 2023.4.4."""
    recording, _, report = path.stem.partition("_")
    with path.open(newline="") as file:
        head, *wanted = [row for row in csv.reader(file) if row]
    found = sightline.open(str(path.with_name(recording + form))).ask(report)
    assert found.columns == head
    shown = [
        [show(value, like) for value, like in zip(row, cells, strict=True)]
        for row, cells in zip(found.rows(), wanted, strict=True)
    ]
    assert shown == wanted


@pytest.mark.parametrize(
    ("version", "name"),
    [("2022.2.1", "load"), ("2023.4.4.54", "load"), ("2024.6.2.25", ":load"), ("", ":load")],
)
def test_the_default_domain_in_the_form_of_the_version(
    tmp_path: Path, version: str, name: str
) -> None:
    export = Export()
    export.product = version
    export.add("NVTX_EVENTS", start=0, eventType=75, text="app", globalTid=gtid(7, 7), domainId=2)
    export.range("step", 0, 1_000, domainId=2)
    export.range("load", 100, 300)
    found = opened(tmp_path, export).ask("nvtx_pushpop_sum").get_column("Range").to_list()
    assert found == ["app:step", name]
