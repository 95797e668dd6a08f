"""sightline scaling: jobs of more and more ranks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command import sightline
from support.many_ranks import Program, write_ranks
from support.places import EXAMPLES


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("jobs")
    for ranks in (2, 4, 8):
        list(write_ranks(Program(ranks, steps=3), folder / str(ranks)))
    return [folder / str(ranks) for ranks in (2, 4, 8)]


def test_the_screen(jobs: list[Path]) -> None:
    lines = sightline("scaling", "--weak", *jobs, "--at", "64").out.splitlines()
    assert lines[0].startswith("weak scaling")
    assert lines[3].split()[0] == "2"
    assert max(map(len, lines)) <= 80
    assert lines[-2].startswith("at 64 ranks: ")


def test_as_data(jobs: list[Path]) -> None:
    data = json.loads(sightline("scaling", "--weak", *jobs, "--json").out)
    assert [job["ranks"] for job in data["jobs"]] == [2, 4, 8]
    assert data["jobs"][0]["efficiency"] == 1
    for job in data["talp"]:
        product = job["load_balance"] * job["communication"] * job["orchestration"]
        assert product == pytest.approx(job["parallel_efficiency"])


def test_two_programs_are_no_scaling() -> None:
    """A simulated job of three GPUs, and a training loop on a CPU."""
    jobs = EXAMPLES / "simulated-straggler", EXAMPLES / "cpu-training.json.gz"
    refused = sightline("scaling", *jobs)
    assert refused.code != 0
    assert "are recordings of different programs" in refused.said
    assert "--same-program" in refused.said
    assert sightline("scaling", "--same-program", *jobs).code == 0


def test_ranks_of_one_job_are_not_taken_for_jobs(jobs: list[Path]) -> None:
    refused = sightline("scaling", *sorted(jobs[0].iterdir()))
    assert refused.code == 2
    assert "2 recordings of one rank each do not show" in " ".join(refused.err.split())
    assert "sightline ranks" in refused.err
