"""Readings pushed as line protocol: what arrives is what was read, in a cluster's service, too."""

from __future__ import annotations

import time

import pytest

from sightline.errors import RequestError
from sightline.record.monitor import push as module
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.push import LinePusher, list_lines, read_address
from sightline.record.monitor.readings import GPU, HOST, LINK, Device, Entity, Reading
from sightline.record.monitor.rounds import Round
from support.cluster_service import TOKENS, run_service


@pytest.fixture
def latest() -> Latest:
    made = Latest({0: Device(0, "nvidia", "H100", "GPU-0")})
    readings = [
        Reading(
            Entity(GPU, 0),
            1,
            {"power": 300.0, "GPU utilization": 50.0, "memory used": 8e9, "SM active": 20.0,
             "SM clock": 1980.0},
        ),
        Reading(Entity(HOST), 1, {"load": 3.5, "host memory used": 64e9, "CPU utilization": 40.0}),
        Reading(Entity(LINK, None, "mlx5_0"), 1, {"link received": 1e9}),
        Reading(Entity(LINK, None, "mlx5_1"), 1, {"link received": 2e9}),
    ]  # fmt: skip
    made.put(Round(1, 1, readings))
    return made


def test_names_and_units_are_clustercockpits(latest):
    assert set(list_lines(latest, "n1", 1_790_000_000)) == {
        "acc_power,hostname=n1,type=accelerator,type-id=0,unit=W value=300.0 1790000000",
        "acc_utilization,hostname=n1,type=accelerator,type-id=0,unit=% value=50.0 1790000000",
        "acc_mem_used,hostname=n1,type=accelerator,type-id=0,unit=MB value=8000.0 1790000000",
        "acc_sm_active,hostname=n1,type=accelerator,type-id=0,unit=% value=20.0 1790000000",
        "acc_clock,hostname=n1,type=accelerator,type-id=0,unit=MHz value=1980.0 1790000000",
        "cpu_load,hostname=n1,type=node value=3.5 1790000000",
        "cpu_user,hostname=n1,type=node,unit=% value=40.0 1790000000",
        "mem_used,hostname=n1,type=node,unit=GB value=64.0 1790000000",
        "ib_recv,hostname=n1,type=node,unit=MB/s value=3000.0 1790000000",
    }


def test_a_cluster_keeps_what_a_node_pushes(latest, tmp_path, monkeypatch):
    """Also what was read while the service was away."""
    monkeypatch.setattr(module, "PERIOD_S", 3600.0)
    moments = iter([time.time() - 20, time.time() - 10, time.time()])
    said: list[str] = []
    with run_service(tmp_path) as own:
        url = own.service.server.url
        own.connect().close()
        pusher = LinePusher(
            f"{url}/nothing", TOKENS["ingest"], latest, said.append, "n1", lambda: next(moments)
        )
        pusher.push()
        assert len(said) == 1  # not taken, said once
        pusher._address = f"{url}/write"
        pusher.push()
        monkeypatch.undo()
        pusher._ended.set()
        frame = own.service.store.read_samples("c1", ["n1"], 0, 2 * 10**18)
        got = frame.filter(frame["metric"] == "mem_used").select("scope", "value").rows()
        assert got == [("node", 64e9)] * 2
        gpu = frame.filter(frame["metric"] == "acc_mem_used").row(0, named=True)
        assert (gpu["scope"], gpu["element"], gpu["value"]) == ("accelerator", "0", 8e9)
        clock = frame.filter(frame["metric"] == "acc_clock").row(0, named=True)
        assert (clock["value"], clock["unit"]) == (1.98e9, "Hz")
    assert said[1:] == ["Push: the receiver accepts readings again"]


def test_addresses():
    assert read_address("http://c:8270", "t")[0] == "http://c:8270/write"
    assert read_address("https://c/api/write?cluster=x", "t")[0] == "https://c/api/write?cluster=x"
    assert read_address("http://c:8270", "t")[1]["Authorization"] == "Bearer t"
    with pytest.raises(RequestError, match="not an address to push to"):
        read_address("c:8270", None)
