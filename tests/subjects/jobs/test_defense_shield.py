"""Policies of Job Defense Shield: the examples of its documentation, on jobs judged by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightline.diagnosis.custom.evaluate import evaluate
from sightline.diagnosis.custom.facts import load_checked_rules
from sightline.errors import InputError
from sightline.subjects.jobs.job import GPU, NODE, Job, make_use
from sightline.subjects.jobs.own_rules import list_facts

# As its documentation has them (docs/alert/*.md), with settings of the program beside.
CONFIG = """\
email-domain-name: "@institution.edu"
verbose: False
cancel-zero-gpu-jobs-1:
  cluster: [della]
  partitions: [gpu, llm]
  sampling_period_minutes: 15
  first_warning_minutes: 60
  cancel_minutes: 120
  excluded_users: [u12345]
low-gpu-efficiency-1: {cluster: della, partitions: [gpu], min_run_time: 30, eff_thres_pct: 25,
  eff_target_pct: 50, absolute_thres_hours: 50, email_file: "low.txt"}
low-cpu-efficiency: {cluster: della, partitions: ["*"], eff_thres_pct: 60}
excess-cpu-memory-1: {cluster: della, partitions: [cpu], min_run_time: 61, ratio_threshold: 0.35}
excessive-time-cpu-1: {cluster: della, partitions: [cpu], overall_ratio_threshold: 0.2}
serial-allocating-multiple-1: {cluster: della, partitions: [cpu], lower_ratio: 0.85}
gpu-model-too-powerful: {clusters: [della], partitions: [gpu], min_run_time: 61,
  num_cores_threshold: 1, gpu_util_threshold: 15, gpu_mem_threshold: 10, cpu_mem_threshold: 32}
too-many-cores-per-gpu-1: {cluster: della, partitions: [gpu], cores_per_gpu_limit: 18}
"""
HOUR = 3600 * 10**9


def make_job(gpus: list[float], cpu: float = 50.0, memory: float = 8e9, **row: object) -> Job:
    """A job of one node: utilization of each GPU, of its processors (%), memory in bytes."""
    known = {
        "rank": 0, "recording_id": 0, "job_row_id": 0, "job_id": "1", "cluster": "della",
        "partition": "gpu" if gpus else "cpu", "user": "ada", "project": "p", "sharing": "none",
        "duration_ns": 2 * HOUR, "limit_ns": 4 * HOUR, "nodes": 1, "cpus": 8,
        "gpus": len(gpus) or None, "state": "completed", "memory_bytes": 16e9, "cpu_time_ns": None,
        "used_memory_bytes": None,
    }  # fmt: skip
    shape = np.ones((1, 10))
    place = (("n1", None),)
    uses = {
        ("cpu_user", NODE): make_use(place, cpu * shape, 60.0),
        ("mem_used", NODE): make_use(place, memory * shape, 60.0),
    }
    if gpus:
        places = tuple(("n1", str(n)) for n in range(len(gpus)))
        values = np.array(gpus)[:, None] * shape
        uses["acc_utilization", GPU] = make_use(places, values, 60.0)
        uses["acc_mem_used", GPU] = make_use(places, 2e9 * np.ones_like(values), 60.0)
    return Job({**known, **row}, ({"host": "n1"},), uses)


@pytest.fixture(scope="module")
def rules(tmp_path_factory):
    place = tmp_path_factory.mktemp("jds") / "config.yaml"
    place.write_text(CONFIG)
    return load_checked_rules([str(place)])


def ask(rules, job: Job) -> set[str]:
    found = {rule.tag: evaluate(rule, list_facts(job, rule.metrics)).holds for rule in rules}
    return {tag for tag, holds in found.items() if holds}


@pytest.mark.parametrize(
    ("job", "wanted"),
    [
        (make_job([90.0, 80.0]), set()),
        (make_job([90.0, 0.0]), {"cancel-zero-gpu-jobs-1"}),
        (make_job([0.0]), {"cancel-zero-gpu-jobs-1", "low-gpu-efficiency-1"}),
        (make_job([0.0], user="u12345"), {"low-gpu-efficiency-1"}),
        (make_job([0.0], duration_ns=HOUR // 3), set()),
        (make_job([0.0], cluster="other"), set()),
        (make_job([0.0], partition="mig"), set()),
        (make_job([25.0]), {"low-gpu-efficiency-1"}),
        (make_job([25.1]), set()),
        (make_job([10.0], cpus=1), {"low-gpu-efficiency-1", "gpu-model-too-powerful"}),
        (make_job([90.0], cpus=18), {"too-many-cores-per-gpu-1"}),
        (make_job([], 95.0), set()),
        (make_job([], 60.0), {"low-cpu-efficiency"}),
        # One of eight cores: 12.5 %; at 12.4 % the documentation's own example.
        (make_job([], 12.4), {"low-cpu-efficiency", "serial-allocating-multiple-1"}),
        (make_job([], 12.6), {"low-cpu-efficiency"}),
        (make_job([], 10.0), {"low-cpu-efficiency"}),
        (make_job([], 95.0, memory=5e9), {"excess-cpu-memory-1"}),
        (make_job([], 95.0, memory=5.7e9), set()),
        (make_job([], 95.0, limit_ns=11 * HOUR), {"excessive-time-cpu-1"}),
        (make_job([], 95.0, limit_ns=9 * HOUR), set()),
    ],
)
def test_jobs_that_an_alert_is_about(rules, job, wanted):
    assert ask(rules, job) == wanted


def test_what_is_not_recorded_is_not_judged(rules):
    bare = replace(make_job([0.0]), uses={})
    held = {r.tag: evaluate(r, list_facts(bare, r.metrics)).holds for r in rules}
    assert held["low-gpu-efficiency-1"] is None
    assert held["cancel-zero-gpu-jobs-1"] is None
    assert held["too-many-cores-per-gpu-1"] is False


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("multinode-gpu-fragmentation-1: {cluster: della}", "no single job shows"),
        ("low-gpu-efficiency-1: {eff_thres_pct: many}", "is a number"),
        ("low-gpu-efficiency-1: {partitions: ['gpu\\\" or True']}", "is not a name"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(tmp_path: Path, text, why):
    place = tmp_path / "config.yaml"
    place.write_text(f"{CONFIG}{text}\n" if "multinode" in text else text)
    with pytest.raises(InputError) as error:
        load_checked_rules([str(place)])
    assert why in str(error.value)
