"""Jobs of cc-backend's test data against verdicts by hand from the raw rows (docs/cases.md)."""

from __future__ import annotations

import pytest

from formats.test_clustercockpit import open_path
from sightline.session import Session
from support.corpus import CORPUS

pytestmark = pytest.mark.corpus
BACKEND = CORPUS / "clustercockpit/ClusterCockpit__cc-backend"
# Problems that take hours, and their GPU hours; those without hours stand behind.
VERDICTS = {
    "679909": ({"job-idle-gpus": 21.6}, set()),
    "679908": ({"job-idle-gpus": 8.0}, set()),
    "679797": ({"job-idle-gpus": 2.9}, set()),
    "679877": ({"job-underused-gpus": 19.2}, set()),
    "679843": ({"job-underused-gpus": 11.9}, set()),
    "679943": ({"job-underused-gpus": 7.9}, set()),
    "679729": ({"job-underused-gpus": 13.7}, set()),
    "679784": ({}, {"job-overasked-time"}),
    "679806": ({}, {"job-overasked-time"}),
    "398821": ({}, {"job-overasked-time"}),
}


@pytest.fixture(scope="module")
def database() -> Session:
    return open_path(BACKEND / "internal/repository/testdata/job.db")


@pytest.mark.parametrize("job", VERDICTS)
def test_a_job_of_the_database(database: Session, job: str) -> None:
    rows = database.ask("job_problems").filter(judged=True, job_id=job)
    said = dict(rows.select("rule", "gpu_hours").rows())
    hours, others = VERDICTS[job]
    assert set(said) == {*hours, *others}
    assert {rule: round(said[rule], 1) for rule in hours} == hours


def test_the_job_with_series_is_healthy() -> None:
    run = open_path(BACKEND / "archive/testdata/archive")
    said = run.ask("job_problems")
    assert said.filter("judged").is_empty()
    # Its cluster.json is of smaller nodes: no word on load.
    reasons = dict(said.select("rule", "text").rows())
    assert "how many processors it was given is not known" in reasons["job-excessive-load"]
