"""What a site has already: an archive of ClusterCockpit becomes jobs of the service, once."""

from __future__ import annotations

import gzip
import json

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


def test_what_is_normal_comes_from_cluster_json(tmp_path):
    write_archive(tmp_path / "archive", list(list_month(1)))
    find = read_limits((str(tmp_path / "archive" / "demo" / "cluster.json"),))
    assert find({"cluster": "demo", "sub_cluster": "main"})["mem_bw"]["peak"] == 200e9
    assert find({"cluster": "other", "sub_cluster": None}) == {}
    assert read_limits(())({"cluster": "demo"}) == {}
