"""What a site has already: an archive of ClusterCockpit becomes jobs of the service, once."""

from __future__ import annotations

import contextlib
import gzip
import json

import pytest

from formats.test_clustercockpit import DATA, META
from formats.test_clustercockpit_parquet import write_parquet, write_row
from sightline.cluster.bucket import Objects
from sightline.cluster.cockpit_bucket import list_archive
from sightline.cluster.config import Sources
from sightline.cluster.demo import list_month
from sightline.cluster.feeds import Feeds, read_limits
from sightline.cluster.store import Store
from sightline.doors.cli.main import main
from sightline.views.exports.clustercockpit import describe_data, describe_meta
from support.object_storage import open_bucket


def write_archive(root, jobs) -> None:
    (root / "version.txt").parent.mkdir(parents=True, exist_ok=True)
    (root / "version.txt").write_text("3\n")
    for _, job in jobs:
        number, start = job.row["raw_job_id"], job.row["start_ns"] // 10**9
        folder = root / "demo" / str(number // 1000) / f"{number % 1000:03d}" / str(start)
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(json.dumps(describe_meta(job)))
        data = gzip.compress(json.dumps(describe_data(job)).encode())
        (folder / "data.json.gz").write_bytes(data)
    config = {"name": "mem_bw", "unit": {"base": "B/s", "prefix": "G"}, "scope": "node",
              "timestep": 60, "aggregation": "sum", "peak": 200, "normal": 100, "caution": 20,
              "alert": 10}  # fmt: skip
    cluster = {"name": "demo", "metricConfig": [config], "subClusters": [{"name": "main"}]}
    (root / "demo" / "cluster.json").write_text(json.dumps(cluster))


def test_an_archive_is_read_once_and_again_where_it_grew(tmp_path):
    jobs = list(list_month(12))
    write_archive(tmp_path / "archive", jobs[:8])
    store = Store(tmp_path / "s")
    said: list[str] = []
    sources = Sources(clustercockpit=(str(tmp_path / "archive"), str(tmp_path / "nowhere")))
    feeds = Feeds(sources, "demo", store)
    assert feeds.read(said.append) == 8
    assert [text for text in said if "nowhere" in text]
    assert feeds.read(said.append) == 0
    write_archive(tmp_path / "archive", jobs[8:])
    assert feeds.read(said.append) == 4
    for key, job in jobs:
        kept = store.find_job(key)
        assert kept is not None
        assert kept.row["user"] == job.row["user"]
        for name, use in job.uses.items():
            assert abs(kept.uses[name].mean - use.mean) <= 1e-9 * abs(use.mean)
    store.close()


@pytest.fixture
def bucket(monkeypatch):
    with open_bucket(monkeypatch) as made:
        yield made


def test_parquet_in_a_bucket_is_read_once(tmp_path, bucket):
    """Rows as cc-backend's schema has them, by a number, a start and a series each."""

    def upload(name: str, *numbers: int) -> None:
        rows = [write_row({**META, "jobId": number}, DATA) for number in numbers]
        place = write_parquet(tmp_path / "rows", *rows, name=name) / name
        bucket.put(f"c1/{name}", place.read_bytes())

    upload("cc-archive-2026-06-07-001.parquet", 1, 2)
    store = Store(tmp_path / "s")
    said: list[str] = []
    feeds = Feeds(Sources(clustercockpit=(bucket.url, "s3://nowhere")), "demo", store)
    assert feeds.read(said.append) == 2
    assert [text.startswith("s3://nowhere") for text in said] == [True]
    assert feeds.read(said.append) == 0
    upload("cc-archive-2026-06-07-002.parquet", 3)
    upload("cc-archive-2026-06-07-001.parquet", 1, 2, 4)
    assert feeds.read(said.append) == 2
    job = store.find_job("c1/4/1000")
    assert job.uses["mem_bw", "node"].mean == pytest.approx(3.5e9)
    store.close()


def test_job_archives_in_a_bucket_are_read_once_and_when_they_are_whole(tmp_path, bucket):
    """As cc-backend's S3 backend writes them: meta.json first, then data.json.gz."""
    jobs = list(list_month(6))
    write_archive(tmp_path / "archive", jobs)
    files = sorted(path for path in (tmp_path / "archive").rglob("*") if path.is_file())
    names = {str(path.relative_to(tmp_path / "archive")): path for path in files}
    late = sorted(name for name in names if "data.json" in name)[-2:]
    for name in names.keys() - set(late):
        bucket.put(name, names[name].read_bytes())
    store, said = Store(tmp_path / "s"), []
    sources = Sources(clustercockpit=(bucket.url,))
    feeds = Feeds(sources, "demo", store)
    assert feeds.read(said.append) == 4
    assert feeds.read(said.append) == 0
    for name in late:
        bucket.put(name, names[name].read_bytes())
    assert feeds.read(said.append) == 2
    for key, job in jobs:
        kept = store.find_job(key)
        assert kept.row["user"] == job.row["user"]
        for name, use in job.uses.items():
            assert abs(kept.uses[name].mean - use.mean) <= 1e-9 * abs(use.mean)
    # A service that starts again fetches nothing that it has.
    fresh = Feeds(sources, "demo", store)
    fetched: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Objects, "save", lambda self, name, target: fetched.append(name))
        assert fresh.read(said.append) == 0
    assert (fetched, said) == ([], [])
    store.close()


def test_names_of_objects_are_no_paths(tmp_path, bucket):
    """Only what looks like an archive is read; what is too large is named."""
    for name in ("../x/1/001/5/meta.json", "c1/1/001/5/../../../../y/meta.json",
                 "a b/1/001/5/meta.json", "c1/meta.json", "c1/1/1/5/meta.json",
                 "c1/cc-archive-a b.parquet", "c1/1/001/5/other.json"):  # fmt: skip
        with contextlib.suppress(Exception):  # some the client refuses
            bucket.put(name, b"{}")
    found = list_archive(Objects(bucket.url))
    assert (found.jobs, found.parquet, found.clusters) == ({}, {}, [])
    bucket.put("c1/1/001/5/meta.json", b"[" * 1000)  # it is no JSON
    bucket.put("c1/1/001/5/data.json", b"{}")
    store, said = Store(tmp_path / "s"), []
    assert Feeds(Sources(clustercockpit=(bucket.url,)), "c1", store).read(said.append) == 0
    assert len(said) == 1
    assert said[0].startswith(f"{bucket.url}: ")
    store.close()


def test_jobs_of_a_bucket_on_a_login_node(tmp_path, bucket, capsys):
    jobs = list(list_month(6))
    write_archive(tmp_path / "archive", jobs)
    for path in sorted(p for p in (tmp_path / "archive").rglob("*") if p.is_file()):
        bucket.put(str(path.relative_to(tmp_path / "archive")), path.read_bytes())
    assert main(["jobs", bucket.url, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    listed = rows["jobs"] if isinstance(rows, dict) else rows
    assert {row["job_id"] for row in listed} == {job.row["job_id"] for _, job in jobs}
    number = jobs[0][1].row["job_id"]
    assert main(["job", number, f"{bucket.url}/demo"]) == 0
    assert number in capsys.readouterr().out
    assert main(["jobs", f"{bucket.url}/nowhere"]) == 2
    assert "no job archive" in capsys.readouterr().err


def test_what_is_normal_comes_from_cluster_json(tmp_path):
    write_archive(tmp_path / "archive", list(list_month(1)))
    find = read_limits((str(tmp_path / "archive" / "demo" / "cluster.json"),))
    assert find({"cluster": "demo", "sub_cluster": "main"})["mem_bw"]["peak"] == 200e9
    assert find({"cluster": "other", "sub_cluster": None}) == {}
    assert read_limits(())({"cluster": "demo"}) == {}
