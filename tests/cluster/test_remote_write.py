"""Prometheus' remote write: what is kept of what a server sends, in which unit, of which node."""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from cramjam import snappy

from sightline.cluster.names import Series
from sightline.cluster.remote_write import read_points
from support.cluster_jobs import read_values
from support.cluster_service import TOKENS, Own, run_service
from support.metric_server import replay
from support.places import ROOT
from support.remote_writing import write_request

NOW_NS = 1_700_000_000 * 10**9


def read(*series, **more):
    return read_points(write_request(*series), "c1", NOW_NS, **more)


def one(name: str, value: float = 1.0, at_ms: int = NOW_NS // 10**6, **labels: str):
    return {"__name__": name, **labels}, [(at_ms, value)]


@pytest.mark.parametrize(
    ("name", "labels", "value", "series"),
    [
        ("node_load1", {"instance": "n1:9100"}, 2.0, ("cpu_load", "node", "", "")),
        ("mem_used", {"instance": "n1"}, 2.0, ("mem_used", "node", "", "bytes")),
        ("flops_any", {"hostname": "n1", "instance": "x"}, 2.0,
         ("flops_any", "node", "", "flop/s")),
        ("DCGM_FI_DEV_FB_USED", {"Hostname": "n1", "gpu": "3"}, 2.0 * 2**20,
         ("acc_mem_used", "accelerator", "3", "bytes")),
        ("DCGM_FI_PROF_SM_ACTIVE", {"Hostname": "n1", "gpu": "3", "GPU_I_ID": "7"}, 200.0,
         ("acc_sm_active", "accelerator", "3/7", "%")),
        ("nvidia_gpu_power_usage_milliwatts", {"instance": "n1:9445", "minor_number": "0"}, 0.002,
         ("acc_power", "accelerator", "0", "W")),
    ],
)  # fmt: skip
def test_a_metric_is_ours_in_our_unit(name, labels, value, series):
    batch = read(one(name, 2.0, **labels))
    metric, scope, element, unit = series
    assert batch.series == [Series("c1", "n1", metric, scope, element, unit)]
    assert batch.values == [pytest.approx(value)]
    assert batch.times == [NOW_NS]


def test_what_is_of_no_job_metric_is_left_out_and_not_refused():
    batch = read(
        one("go_goroutines", instance="n1:9100"),
        one("power", instance="n1:9100"),  # any exporter may call something so
        one("cgroup_memory_rss_bytes", instance="n1:9306", jobid="7", step="", task=""),
        one("mem_used", instance="n1", jobid="7"),
        one("node_load1", math.nan, instance="n1:9100"),
    )
    assert (batch.series, batch.refused) == ([], 0)


def test_what_cannot_be_kept_is_refused_with_its_reason():
    batch = read(
        one("node_load1", instance="../x:1"),
        one("node_load1"),
        one("node_load1", instance="n1", cluster="other"),
        one("DCGM_FI_DEV_GPU_UTIL", instance="n1"),
        one("node_load1", math.inf, instance="n1"),
        one("node_load1", at_ms=1, instance="n1"),
        one("node_load1", at_ms=NOW_NS // 10**6 + 4_000_000, instance="n1"),
        oldest_ns=10**18,
    )
    assert batch.series == []
    assert batch.refused == 7
    assert len(batch.reasons) == 5


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x05abc", b"\x0a\x02\x0a\x7f", b"not protobuf"])
def test_what_is_no_request_is_an_error(data):
    with pytest.raises(ValueError, match=r"remote write 1\.0"):
        read_points(data, "c1", NOW_NS)


def test_a_series_is_bounded():
    samples = [(n, 1.0) for n in range(90_000)]
    with pytest.raises(ValueError, match="a series has over"):
        read(({"__name__": "node_load1", "instance": "n1"}, samples))


def send(own: Own, body: bytes, **headers: str):
    return own.ask("/api/v1/write", "ingest", "POST", body, Content_Encoding="snappy", **headers)


def test_a_server_is_answered_as_the_specification_has_it(tmp_path):
    now_ms = int(time.time()) * 1000
    body = bytes(snappy.compress_raw(write_request(one("node_load1", 3.0, now_ms, instance="n1"))))
    with run_service(tmp_path) as own:
        assert send(own, body).status == 204
        assert read_values(own.service.store) == {now_ms // 1000: 3.0}
        assert send(own, b"\xff" * 20).status == 400
        assert send(own, b"\xff\xff\xff\xff\x0f").status == 400  # 4 GiB unpacked, it says
        newer = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
        assert send(own, body, Content_Type=newer).status == 415
        assert own.ask("/api/v1/write", "user", "POST", body).status == 403
        assert own.ask("/api/v1/write", None, "POST", body).status == 401
        assert read_values(own.service.store) == {now_ms // 1000: 3.0}


@pytest.mark.timing
def test_a_real_prometheus_writes_what_it_scrapes(tmp_path: Path):
    """A rule's sum and an exporter's gauge, by Prometheus itself; skipped where it is not there."""
    program = shutil.which("prometheus")
    if program is None:
        pytest.skip("prometheus is not installed (Debian: prometheus)")
    exposed = (
        "node_load1 4.5\nnode_memory_MemTotal_bytes 64e9\nnode_memory_MemAvailable_bytes 40e9\n"
        'go_threads 7\nDCGM_FI_DEV_GPU_UTIL{gpu="0",Hostname="n1"} 81\n'
    )
    with run_service(tmp_path) as own, replay({"/metrics": [exposed]}) as scraped:
        connection = own.connect()
        rules = ROOT / "examples/slurm/prometheus-jobs.rules.yaml"
        (tmp_path / "rules.yaml").write_text(rules.read_text().replace("15s", "1s"))
        (tmp_path / "token").write_text(TOKENS["ingest"])
        (tmp_path / "p.yaml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: nodes
    static_configs: [{{targets: ["{scraped[7:]}"], labels: {{hostname: n1}}}}]
remote_write:
  - url: http://{connection.host}:{connection.port}/api/v1/write
    authorization: {{credentials_file: token}}
    queue_config: {{batch_send_deadline: 100ms}}
""")
        log = (tmp_path / "log").open("wb")
        running = subprocess.Popen(
            [program, f"--config.file={tmp_path / 'p.yaml'}", "--web.listen-address=127.0.0.1:0",
             f"--storage.tsdb.path={tmp_path / 'data'}"],
            stdout=subprocess.DEVNULL, stderr=log,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 60
            wanted = {"cpu_load": 4.5, "mem_used": 24e9, "acc_utilization": 81.0}
            while True:
                found = {
                    name: set(read_values(own.service.store, name).values()) for name in wanted
                }
                if all(found.values()):
                    break
                said = (tmp_path / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, (found, said)
                time.sleep(0.2)
        finally:
            running.terminate()
            running.wait(20)
            log.close()
        assert found == {name: {value} for name, value in wanted.items()}
