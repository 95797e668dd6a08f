"""What the page shows of jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from formats import test_clustercockpit as cockpit
from sightline.core.page.declare import View
from sightline.errors import MissingDataError
from sightline.subjects.jobs.panels import jobs


def test_a_single_job_with_its_course(tmp_path: Path) -> None:
    place = cockpit.write_archive(tmp_path)
    (place / "meta.json").write_text(json.dumps(cockpit.META | {"duration": 500}))
    table, *plots = jobs.data(View(cockpit.open_path(tmp_path)))
    assert table["title"] == "Jobs"
    cells = {column["name"]: column["values"] for column in table["columns"]}
    assert (cells["job_id"], cells["start"]) == (["1404017"], ["1970-01-01 00:16"])
    (plot,) = plots
    assert plot["title"] == "mem_bw · 2 nodes"
    mean = next(line for line in plot["series"] if line["label"] == "mean")
    assert mean["low"] == [2.5e9, 5e9, 4.5e9]


def test_without_jobs(tmp_path: Path) -> None:
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps(cockpit.CLUSTER))
    with pytest.raises(MissingDataError):
        jobs.data(View(cockpit.open_path(path)))
