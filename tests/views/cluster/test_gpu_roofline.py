"""The roofline of a job's GPUs: shares of their own peaks, of each GPU and sample."""

from __future__ import annotations

import time

import numpy as np
import pytest

from sightline.subjects.jobs.job import GPU, Job, Use
from sightline.views.cluster.job_page import list_gpu_points
from support.cluster_jobs import write_start
from support.cluster_service import run_service

PLACES = (("n1", "0"), ("n1", "1"))


def make_use(*rows: list[float], places=PLACES, step_s: float = 60.0) -> Use:
    values = np.array(rows)
    return Use(places[: len(rows)], values.mean(1), values.min(1), values.max(1), values, step_s)


def make_job(**uses: Use) -> Job:
    return Job({}, (), {(f"acc_{name}_active", GPU): use for name, use in uses.items()})


def test_the_busiest_pipe_over_the_memory():
    job = make_job(
        dram=make_use([50, 80], [10, np.nan]),
        tensor=make_use([40, 0], [90, 90]),
        fp32=make_use([20, 20], [np.nan, 10]),
    )
    assert list_gpu_points(job) == [(0.8, 0.4), (0.25, 0.2), (pytest.approx(9.0), 0.9)]


@pytest.mark.parametrize(
    "uses",
    [
        {},
        {"dram": make_use([50.0])},
        {"tensor": make_use([50.0])},
        {"dram": make_use([50.0]), "tensor": make_use([0.0])},
        {"dram": make_use([50.0]), "tensor": make_use([50.0], places=(("n2", "0"),))},
        {"dram": make_use([50.0]), "tensor": make_use([50.0], step_s=10)},
        {"dram": make_use([50.0]), "tensor": make_use([1e9])},
    ],
)
def test_what_is_not_known_has_no_point(uses):
    assert list_gpu_points(make_job(**uses)) == []


def test_many_samples_are_thinned():
    job = make_job(dram=make_use([50.0] * 9_000), fp16=make_use([25.0] * 9_000))
    points = list_gpu_points(job)
    assert 1_000 < len(points) <= 2_000
    assert set(points) == {(0.5, 0.25)}


def test_the_page_of_a_job_has_it(tmp_path):
    """By the names of `sightline watch` and of dcgm-exporter's fields."""
    now = int(time.time())
    names = {"dram_active": 50, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": 25}
    lines = [
        f"{name},hostname=n1,type=accelerator,type-id=0,unit=% value={value} {now - n}"
        for name, value in names.items()
        for n in (30, 20, 10)
    ]
    with run_service(tmp_path) as own:
        own.send_json("/api/jobs/start_job/", write_start(7, at=now - 40, gpus=1))
        assert own.ask("/write", "ingest", "POST", "\n".join(lines).encode()).status == 204
        page = own.ask(f"/job?id=c1/7/{now - 40}", "admin").body.decode()
    assert "Roofline of its GPUs" in page
    assert "up to 0.25" in page
