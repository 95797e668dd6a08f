"""What a site has already: an archive of ClusterCockpit becomes jobs of the service, once."""

from __future__ import annotations

import gzip
import json

import pytest

from sightline.cluster.config import Sources
from sightline.cluster.demo import list_month
from sightline.cluster.feeds import Feeds, read_limits
from sightline.cluster.store import Store
from sightline.views.exports.clustercockpit import describe_data, describe_meta


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
    """A bucket of an S3 server in this process; keys and endpoint are in the environment."""
    moto = pytest.importorskip("moto.server")
    boto3 = pytest.importorskip("boto3")
    monkeypatch.setattr("werkzeug.serving.WSGIRequestHandler.log_request", lambda *_: None)
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in {
        "ENDPOINT_URL": f"http://{host}:{port}", "ACCESS_KEY_ID": "key", "REGION": "us-east-1",
        "SECRET_ACCESS_KEY": "word", "ALLOW_HTTP": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", value)
    client = boto3.client("s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1")
    client.create_bucket(Bucket="archive")
    yield client
    client.close()
    server.stop()


@pytest.mark.campaign  # the server's library takes six seconds to load
def test_an_archive_in_a_bucket_is_read_once(tmp_path, bucket):
    from formats.test_clustercockpit import DATA, META
    from formats.test_clustercockpit_parquet import write_parquet, write_row

    def upload(name: str, *numbers: int) -> None:
        rows = [write_row({**META, "jobId": number}, DATA) for number in numbers]
        place = write_parquet(tmp_path / "rows", *rows, name=name) / name
        bucket.upload_file(str(place), "archive", f"c1/{name}")

    upload("cc-archive-2026-06-07-001.parquet", 1, 2)
    store = Store(tmp_path / "s")
    said: list[str] = []
    sources = Sources(clustercockpit=("s3://archive", "s3://nowhere"))
    feeds = Feeds(sources, "demo", store)
    assert feeds.read(said.append) == 2
    assert [text.startswith("s3://nowhere") for text in said] == [True]
    assert feeds.read(said.append) == 0
    upload("cc-archive-2026-06-07-002.parquet", 3)
    upload("cc-archive-2026-06-07-001.parquet", 1, 2, 4)
    assert feeds.read(said.append) == 2
    job = store.find_job("c1/4/1000")
    assert job.uses["mem_bw", "node"].mean == pytest.approx(3.5e9)
    store.close()


def test_what_is_normal_comes_from_cluster_json(tmp_path):
    write_archive(tmp_path / "archive", list(list_month(1)))
    find = read_limits((str(tmp_path / "archive" / "demo" / "cluster.json"),))
    assert find({"cluster": "demo", "sub_cluster": "main"})["mem_bw"]["peak"] == 200e9
    assert find({"cluster": "other", "sub_cluster": None}) == {}
    assert read_limits(())({"cluster": "demo"}) == {}
