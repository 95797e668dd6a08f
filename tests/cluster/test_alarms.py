"""Problems of jobs that run are told once each, and not where a figure only touches a threshold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sightline.cluster.alarms import Alarms
from sightline.cluster.config import Telling, make_config
from sightline.cluster.notes import Notes
from sightline.errors import RequestError
from sightline.subjects.jobs.job import Job
from support.cluster_service import run_service

KEY, RULE = "c1/7/1790000000", "job-hang"


def make_job(state: str = "running") -> Job:
    return Job({"state": state, "user": "ada", "project": "physics"})


def play(folder: Path, rounds: str, key: str = KEY, state: str = "running") -> list[str]:
    """What is told: x the problem is there, . it is not, ? cannot be judged, R a restart."""
    told: list[str] = []
    telling = Telling((RULE,), "http://127.0.0.1:1", rounds=3)
    notes = Notes(folder / "notes.sqlite")

    def tell(text: str, data: dict[str, Any]) -> None:
        told.append(data["event"])
        assert json.loads(json.dumps(data))["job"] == key.split("/")[1]
        assert "ada" in text

    alarms = Alarms(telling, notes, tell)
    for sign in rounds:
        if sign == "R":
            notes.close()
            notes = Notes(folder / "notes.sqlite")
            alarms = Alarms(telling, notes, tell)
            continue
        problem = {"rule": RULE, "judged": sign == "x", "text": "It hangs", "fix": "look"}
        other = {"rule": "job-serial", "judged": True, "text": "It is serial"}
        alarms.heed(key, make_job(state), [other] if sign == "." else [problem, other])
    notes.close()
    return told


@pytest.mark.parametrize(
    ("rounds", "told"),
    [
        ("xxx", ["began"]),
        ("xx", []),
        ("xx.xx.xx.", []),  # near a threshold
        ("x?x?x", ["began"]),  # not judged: it may be there still
        ("???", []),
        ("xxxxxxxxxx", ["began"]),
        ("xxx..x..x", ["began"]),
        ("xxx...", ["began", "ended"]),
        ("xxx...xxx...xxx", ["began", "ended"]),  # once
        ("xxxRxxx", ["began"]),
        ("xxRxxx", ["began"]),
        ("xxxR...", ["began", "ended"]),
        ("....", []),
    ],
)
def test_a_problem_is_told_once_and_only_where_it_stays(tmp_path, rounds, told):
    assert play(tmp_path, rounds) == told


def test_jobs_are_told_of_by_themselves(tmp_path):
    assert play(tmp_path, "xxx") == ["began"]
    assert play(tmp_path, "xxx", "c1/8/1790000000") == ["began"]
    assert play(tmp_path, "xxx", "c1/9/1790000000", "completed") == []


def test_rounds_of_jobs_that_are_over_are_forgotten(tmp_path):
    notes = Notes(tmp_path / "notes.sqlite")
    alarms = Alarms(Telling((RULE,)), notes, lambda text, data: None)
    for number in range(5):
        alarms.heed(f"c1/{number}/1790000000", make_job(), [])
    alarms.keep_only({"c1/3/1790000000"})
    assert {key for key, _ in alarms._counts} == {"c1/3/1790000000"}
    notes.close()


def test_a_command_hears_of_a_running_job(tmp_path):
    """The whole way: samples come in, the third round tells the command, with the next step."""
    from doors.http.test_service import begin, push

    said = tmp_path / "said"
    telling = Telling(("job-underused-gpus",), command=f"tee -a '{said}'")
    (tmp_path / "service").mkdir()
    with run_service(tmp_path / "service", telling=telling) as own:
        key = begin(own, 1)
        push(own, 5.0)
        for _ in range(5):
            own.service.judge()
        assert own.service.notes.list_alarms(key)[0][0] == "job-underused-gpus"
    (line,) = said.read_text().replace("}{", "}\n{").splitlines()
    told = json.loads(line)
    assert (told["event"], told["id"], told["user"]) == ("began", key, "ada")
    assert told["fix"] and told["gpu_hours"] > 0


@pytest.mark.parametrize(
    "tell",
    [{"on": ["job-hang"]}, {"on": ["job-hang"], "command": "x", "rounds": 0}, {"onn": []}],
)
def test_configurations_that_tell_nobody(tmp_path, tell):
    with pytest.raises(RequestError):
        make_config({"cluster": "c1", "tell": tell}, tmp_path)
