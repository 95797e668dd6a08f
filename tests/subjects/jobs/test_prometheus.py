"""What a Prometheus server knows of a job: its answers by hand, and no server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from formats import test_slurm as slurm
from sightline.errors import InputError, RequestError
from sightline.record.monitor.prometheus_server import open_server
from sightline.subjects.jobs.prometheus import QUESTIONS, add_series


def answer(*series: tuple[dict[str, str], list[list[Any]]]) -> bytes:
    result = [{"metric": labels, "values": values} for labels, values in series]
    return json.dumps(
        {"status": "success", "data": {"resultType": "matrix", "result": result}}
    ).encode()


class Server:
    """Answers by a word of the query; keeps what it was asked."""

    def __init__(self, **answers: bytes) -> None:
        self.answers, self.asked = answers, []

    def __call__(self, path: str) -> bytes:
        query = {k: v[0] for k, v in parse_qs(urlsplit(path).query).items()}
        self.asked.append(query)
        return next((a for word, a in self.answers.items() if word in query["query"]), answer())


def open_job(folder: Path) -> Any:
    """An hour on four CPUs and two GPUs, from 1,769,853,600 on."""
    line = slurm.JOB.replace("|1000|", "|3600|").replace(
        "2026-01-31T10:16:40", "2026-01-31T11:00:00"
    )
    return slurm.open_text(folder, f"{slurm.NAMES}\n{line}\n")


BEGIN = 1_769_853_600


def sample(level: float) -> list[list[Any]]:
    return [[BEGIN + 30 * n, str(level)] for n in range(121)]


def test_jobs_with_series(tmp_path: Path) -> None:
    server = Server(
        cgroup_cpu_total=answer(({"instance": "n1:9306"}, sample(3.5))),
        nvidia_gpu_duty_cycle=answer(
            ({"instance": "n1:9445", "minor_number": "0"}, sample(90)),
            ({"instance": "n1:9445", "minor_number": "1"}, sample(0)),
        ),
        milliwatts=answer(
            ({"instance": "n1:9445", "minor_number": "0"}, sample(400_000)),
            ({"instance": "n1:9445", "minor_number": "1"}, sample(60_000)),
        ),
    )
    run, asked, there = add_series(open_job(tmp_path), server, lambda job: True)
    assert (asked, there) == (1, 1)
    assert server.asked[0] == {
        "query": 'rate(cgroup_cpu_total_seconds{jobid="17",step="",task=""}[3m])',
        "start": str(BEGIN), "end": str(BEGIN + 3600), "step": "30",
    }  # fmt: skip
    # dcgm-exporter is not asked for what Jobstats' has.
    assert not any("GPU_UTIL" in query["query"] for query in server.asked)
    said = run.ask("job_problems").filter("judged")
    assert said.select("rule", "gpu_hours", "energy_j").rows() == [
        ("job-idle-gpus", 1.0, 60 * 3600.0)
    ]
    assert run.ask("job_use").item(0, "cpu_used_pct") == 87.5
    assert run.ask("job_use").item(0, "gpu_used_pct") == 45


def test_missing_samples_and_other_times_are_no_values(tmp_path: Path) -> None:
    values = [[BEGIN - 300, "5"], [BEGIN + 30, "NaN"], [BEGIN + 60, "7"], ["x", "1"], [1]]
    server = Server(cgroup_memory_rss=answer(({"instance": "n1"}, values)))
    run, _, _ = add_series(open_job(tmp_path), server, lambda job: True)
    rows = run.table("job_series").drop_nulls("value")
    assert rows.select("host", "time_ns", "value").rows() == [("n1", (BEGIN + 60) * 10**9, 7.0)]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"<html>", "not JSON"),
        (b'{"status":"error","error":"too many"}', "refuses"),
        (b"[]", "refuses"),
    ],
)
def test_an_answer_that_is_none(tmp_path: Path, data: bytes, words: str) -> None:
    with pytest.raises(InputError, match=words):
        add_series(open_job(tmp_path), lambda path: data, lambda job: True)


@pytest.mark.parametrize("url", ["ftp://host", "file:///etc/passwd", "host:9090", "http://"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(RequestError):
        open_server(url)


def test_nobody_listens() -> None:
    with pytest.raises(InputError, match="did not answer"):
        open_server("http://127.0.0.1:9")("/api/v1/query_range")


def test_a_query_holds_nothing_but_a_number() -> None:
    assert all(question.query.count("%d") == 1 for question in QUESTIONS)
