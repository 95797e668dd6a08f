"""Rules back in time: here, and by workers of Dask that read a bucket."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from sightline.cluster.demo import list_month
from sightline.cluster.store import Store
from sightline.doors.cli.main import main
from support.campaigns import CAMPAIGNS
from support.object_storage import open_bucket

JOBS = 60 if CAMPAIGNS else 24
RULE = {
    "name": "Little work for CPUs", "tag": "little", "parameters": [],
    "metrics": ["cpu_load"], "requirements": [], "variables": [],
    "rule": "cpu_load.avg < 1000", "hint": "a hint",
}  # fmt: skip


def write_store(folder: Path, bucket: str = "") -> Path:
    """A month of simulated jobs, and a file that says where they lie."""
    store = Store(folder / "store", bucket=bucket)
    store.add_jobs(list_month(JOBS))
    store.close()
    place = folder / "cluster.toml"
    place.write_text(f'cluster = "demo"\nstore = "store"\nbucket = "{bucket}"\n')
    return place


def judge(capsys: pytest.CaptureFixture[str], place: Path, *more: str) -> dict[str, dict]:
    assert main(["cluster", "judge", str(place), "--json", *more]) == 0
    held = json.loads(capsys.readouterr().out)
    assert held["lost"] == []
    return {"jobs": held["jobs"], "rules": {row["rule"]: row for row in held["rules"]}}


def test_the_same_rules_say_the_same_as_then(tmp_path, capsys):
    place = write_store(tmp_path)
    found = judge(capsys, place)
    assert found["jobs"] == JOBS
    assert any(row["jobs"] for row in found["rules"].values())
    for row in found["rules"].values():
        assert row["jobs"] == row["then"]
    parts = tmp_path.glob("store/problems/cluster=*/day=*/*.parquet")
    kept = pl.concat([pl.read_parquet(part) for part in parts]).filter("judged")
    hours = dict(kept.group_by("rule").agg(pl.col("gpu_hours").sum()).iter_rows())
    for name, total in hours.items():
        assert found["rules"][name]["gpu_hours"] == pytest.approx(total)


def test_a_rule_of_ones_own_on_jobs_that_are_kept(tmp_path, capsys):
    place = write_store(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps(RULE))
    output = tmp_path / "said.parquet"
    more = ["--rules", str(tmp_path / "mine.json"), "-o", str(output)]
    found = judge(capsys, place, *more)
    (row,) = found["rules"].values()
    assert row["jobs"] + row["not_judged"] == JOBS
    assert row["jobs"] > JOBS // 2
    assert pl.read_parquet(output).height == JOBS
    assert judge(capsys, place, "--since", "2001-01-01", "--until", "2002-01-01")["jobs"] == 0


def test_the_service_may_run_meanwhile(tmp_path, capsys):
    place = write_store(tmp_path)
    store = Store(tmp_path / "store")
    assert judge(capsys, place)["jobs"] == JOBS
    store.close()


def test_a_table_for_people(tmp_path, capsys):
    place = write_store(tmp_path)
    assert main(["cluster", "judge", str(place)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == f"{JOBS} jobs judged"
    assert said[1].split() == ["rule", "jobs", "then", "users", "GPU", "h", "core", "h", "unknown"]
    assert len({len(line) for line in said[1:]}) == 1


def test_where_there_are_no_jobs(tmp_path, capsys):
    place = tmp_path / "cluster.toml"
    place.write_text('cluster = "demo"\n')
    assert main(["cluster", "judge", str(place)]) == 2
    said = capsys.readouterr().err
    assert "there are no jobs in" in said
    assert "sightline cluster serve" in said


def test_workers_of_dask_judge_what_lies_in_a_bucket(tmp_path, capsys, monkeypatch):
    """In processes of their own; the same table as here, without the machine that wrote it."""
    distributed = pytest.importorskip("distributed")
    with open_bucket(monkeypatch) as bucket:
        place = write_store(tmp_path, bucket.url)
        here = judge(capsys, place)
        (tmp_path / "mine.json").write_text(json.dumps(RULE))
        own = ["--rules", str(tmp_path / "mine.json")]
        here_own = judge(capsys, place, *own)
        other = tmp_path / "other"
        other.mkdir()
        (other / "cluster.toml").write_text(place.read_text())
        with distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster:
            address = ["--scheduler", cluster.scheduler_address]
            there = judge(capsys, other / "cluster.toml", *address)
            there_own = judge(capsys, other / "cluster.toml", *address, *own)
    for one, two in ((here, there), (here_own, there_own)):
        assert one["jobs"] == two["jobs"] == JOBS
        assert one["rules"].keys() == two["rules"].keys()
        for name, row in one["rules"].items():
            assert two["rules"][name] == pytest.approx(row)
