"""A job archive: valid by ClusterCockpit's own schemas, and equal when it is read back."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from formats import test_clustercockpit as cockpit
from sightline.errors import MissingDataError
from sightline.session import Session
from sightline.views.exports import clustercockpit
from support.corpus import SHARED
from support.places import ROOT

SCHEMAS = SHARED / "reference" / "cc_schemas"
REQUIRED = ("cpu_user", "cpu_load", "mem_used", "flops_any", "mem_bw", "net_bw")
JOB = ["raw_job_id", "cluster", "sub_cluster", "user", "project", "state", "start_ns", "gpus"]
JOB += ["duration_ns", "limit_ns", "nodes", "cpus", "sharing", "partition"]


def open_whole(folder: Path) -> Session:
    """A job with all that the schema requires, of two nodes."""
    place = cockpit.write_archive(folder)
    units = {"mem_used": {"base": "B", "prefix": "G"}, "flops_any": {"base": "F/s", "prefix": "G"}}
    units |= {"mem_bw": cockpit.UNIT, "net_bw": {"base": "B/s", "prefix": "M"}}
    data = {
        name: {
            "node": {
                "unit": units.get(name, {"base": ""}), "timestep": 60, "series": cockpit.SERIES,
            }
        }
        for name in REQUIRED
    }  # fmt: skip
    (place / "data.json.gz").write_bytes(gzip.compress(json.dumps(data).encode()))
    return cockpit.open_path(folder)


def test_reads_back_equal(tmp_path: Path) -> None:
    run = open_whole(tmp_path / "one")
    written = clustercockpit.write(run, tmp_path / "two")
    names = {path.relative_to(tmp_path / "two").as_posix() for path in written}
    assert names == {
        "version.txt", "c1/cluster.json", "c1/1404/017/1000/meta.json",
        "c1/1404/017/1000/data.json.gz",
    }  # fmt: skip
    again = cockpit.open_path(tmp_path / "two")
    assert again.table("jobs").select(JOB).equals(run.table("jobs").select(JOB))
    order = ["metric", "host", "time_ns"]
    columns = [*order, "unit", "scope", "element", "step_ns", "value"]
    one, two = (r.table("job_series").select(columns).sort(order) for r in (run, again))
    assert one.drop("value").equals(two.drop("value"))
    assert (one["value"] - two["value"]).abs().max() <= 1e-6  # of some 10⁹: the last bit
    assert one["value"].is_null().equals(two["value"].is_null())
    limits = ["metric", "sub_cluster", "peak", "alert"]
    assert set(again.table("metric_limits").select(limits).rows()) == set(
        run.table("metric_limits").select(limits).rows()
    )


@pytest.mark.corpus
def test_is_valid_by_their_schemas(tmp_path: Path) -> None:
    if not SCHEMAS.is_dir():
        pytest.skip("no schemas beside the checkout")
    jsonschema = pytest.importorskip("jsonschema")
    referencing = pytest.importorskip("referencing")
    documents = [json.loads(path.read_text()) for path in SCHEMAS.glob("*.json")]
    resources = [
        (one["$id"], referencing.Resource.from_contents(
            one, default_specification=referencing.jsonschema.DRAFT202012))
        for one in documents
    ]  # fmt: skip
    registry = referencing.Registry().with_resources(resources)

    def check(document: Any, name: str, without: tuple[str, ...] = ()) -> None:
        schema = next(one for one in documents if one["$id"].endswith(f"/{name}.schema.json"))
        schema = {**schema, "required": [k for k in schema["required"] if k not in without]}
        found = jsonschema.Draft202012Validator(schema, registry=registry).iter_errors(document)
        assert [error.message for error in found] == [], name

    clustercockpit.write(open_whole(tmp_path / "one"), tmp_path / "two")
    place = tmp_path / "two/c1/1404/017/1000"
    check(json.loads((place / "meta.json").read_text()), "job-meta")
    # cc-backend's own archives have no filesystems, either.
    data = json.loads(gzip.decompress((place / "data.json.gz").read_bytes()))
    check(data, "job-data", without=("filesystems",))
    # What nodes are made of is no job's to say: here as the site's own file has it.
    described = json.loads((tmp_path / "two/c1/cluster.json").read_text())
    rate = {"unit": {"base": "F/s", "prefix": "G"}, "value": 1}
    hardware = {
        "nodes": "n[1-2]", "processorType": "x", "socketsPerNode": 1, "coresPerSocket": 8,
        "threadsPerCore": 1, "flopRateScalar": rate, "flopRateSimd": rate, "memoryBandwidth": rate,
        "topology": {"node": [0], "socket": [[0]], "memoryDomain": [[0]]},
    }  # fmt: skip
    parts = [{**part, **hardware} for part in described["subClusters"]]
    check({**described, "subClusters": parts}, "cluster")


def test_a_cluster_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    place = cockpit.write_archive(tmp_path / "one")
    (place / "meta.json").write_text(json.dumps(cockpit.META | {"cluster": "../../etc"}))
    run = cockpit.open_path(tmp_path / "one")
    with pytest.raises(MissingDataError):
        clustercockpit.write(run, tmp_path / "two")
    assert not (tmp_path / "two").exists()
    assert (ROOT / "pyproject.toml").is_file()


def test_what_is_not_known_is_no_zero(tmp_path: Path) -> None:
    cockpit.write_archive(tmp_path / "one")
    run = cockpit.open_path(tmp_path / "one")
    clustercockpit.write(run, tmp_path / "two")
    meta = json.loads((tmp_path / "two/c1/1404/017/1000/meta.json").read_text())
    assert set(meta["statistics"]) == {"mem_bw"}
    assert "energy" not in meta
    again = cockpit.open_path(tmp_path / "two").table("job_means")
    assert again.filter(pl.col("metric") == "mem_bw").item(0, "avg") == pytest.approx(3.5e9)
