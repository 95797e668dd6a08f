"""/metrics: dcgm-exporter's names and values, Prometheus' own check, and a real scrape."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from record.monitor.machine import FakeClock, play
from sightline.record.monitor.exporter import Collector, make_exporter
from sightline.record.monitor.latest import Latest
from sightline.record.monitor.sources import host
from sightline.record.monitor.sources.nvml import open_source
from support import fake_nvml as fake
from support.prometheus import get, run_prometheus

# Two scrapes, so that rates have something to go by.
READY = "count_over_time(DCGM_FI_PROF_SM_ACTIVE[1m]) > 1"
# What dcgm-exporter collects unless told otherwise: etc/default-counters.csv of May 2026.
DEFAULT = [
    "SM_CLOCK",
    "MEM_CLOCK",
    "MEMORY_TEMP",
    "GPU_TEMP",
    "POWER_USAGE",
    "TOTAL_ENERGY_CONSUMPTION",
    "PCIE_REPLAY_COUNTER",
    "GPU_UTIL",
    "MEM_COPY_UTIL",
    "ENC_UTIL",
    "DEC_UTIL",
    "XID_ERRORS",
    "FB_FREE",
    "FB_USED",
    "FB_RESERVED",
    "NVLINK_BANDWIDTH_TOTAL",
    "VGPU_LICENSE_STATUS",
    "UNCORRECTABLE_REMAPPED_ROWS",
    "CORRECTABLE_REMAPPED_ROWS",
    "ROW_REMAP_FAILURE",
]
DEFAULT_PROFILING = [
    "GR_ENGINE_ACTIVE",
    "PIPE_TENSOR_ACTIVE",
    "DRAM_ACTIVE",
    "PCIE_TX_BYTES",
    "PCIE_RX_BYTES",
]
Samples = dict[tuple[str, str, str], float]  # name, gpu, MIG instance


@pytest.fixture
def latest(nvml_library: Path, tmp_path: Path) -> Latest:
    """Eight GPUs after three seconds; one of them is lost, one has a MIG instance."""
    machine = fake.make_eight()
    machine.devices[3].lose(2)
    fake.make_instance(machine.devices[7], 5, 3, 71_680)
    with fake.use_scenario(machine, nvml_library, tmp_path) as clock:
        nvml = open_source()
        found = Latest({d.device_id: d for d in nvml.list_devices()})
        for now in play([nvml, host.open_source()], FakeClock(3, clock.set)):
            found.put(now)
        return found


@contextmanager
def serve(latest: Latest, names: str = "dcgm", token: str | None = None) -> Iterator[int]:
    server = make_exporter(Collector(latest, names, "node7"), "127.0.0.1", 0, token)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


def read_samples(text: str) -> Samples:
    return {
        (s.name, s.labels.get("gpu", ""), s.labels.get("GPU_I_ID", "")): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }


def test_dcgm_exporters_default_names_are_all_there(latest: Latest) -> None:
    with serve(latest) as port:
        told = read_samples(get(port))
    names = {name for name, gpu, _ in told if gpu == "0"}
    wanted = {f"DCGM_FI_DEV_{n}" for n in DEFAULT} | {
        f"DCGM_FI_PROF_{n}" for n in DEFAULT_PROFILING
    }
    assert wanted <= names
    # And what the default leaves out, without which nobody knows how well a GPU is used.
    assert {"DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_SM_OCCUPANCY"} <= names


def test_values_are_in_dcgms_units(latest: Latest) -> None:
    with serve(latest) as port:
        told = read_samples(get(port))
    assert {
        "DCGM_FI_DEV_POWER_USAGE": 600, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 1_200_000,
        "DCGM_FI_DEV_FB_USED": 61_440, "DCGM_FI_PROF_SM_ACTIVE": 0.925,
        "DCGM_FI_PROF_PCIE_TX_BYTES": 850 * (1 << 20), "DCGM_FI_DEV_XID_ERRORS": 0,
    }.items() <= {n: v for (n, gpu, _), v in told.items() if gpu == "0"}.items()  # fmt: skip
    assert told["DCGM_FI_DEV_FB_TOTAL", "7", "5"] == 71_680


def test_a_lost_gpu_has_no_line_but_its_xid(latest: Latest) -> None:
    with serve(latest) as port:
        told = read_samples(get(port))
    assert {name: v for (name, gpu, _), v in told.items() if gpu == "3"} == {
        "DCGM_FI_DEV_XID_ERRORS": 79
    }


def test_labels_are_those_that_dashboards_ask_for(latest: Latest) -> None:
    with serve(latest) as port:
        line = next(x for x in get(port).splitlines() if x.startswith("DCGM_FI_DEV_GPU_TEMP{"))
    for label in (
        'gpu="0"', 'UUID="GPU-00000000-0000-0000-0000-000000000000"', 'device="nvidia0"',
        'modelName="NVIDIA H200"', 'Hostname="node7"', 'hostname="node7"',
        'pci_bus_id="00000000:10:00.0"', 'DCGM_FI_DRIVER_VERSION="575.57.08"',
    ):  # fmt: skip
        assert label in line


def test_a_token_is_asked_for(latest: Latest) -> None:
    with serve(latest, token="s3cret") as port:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            with pytest.raises(urllib.error.HTTPError, match="401"):
                get(port, **headers)
        assert "DCGM_FI_DEV_GPU_TEMP" in get(port, Authorization="Bearer s3cret")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(port, "/../etc/passwd", Authorization="Bearer s3cret")


def test_a_page_of_the_web_that_resolves_to_this_machine_reads_nothing(latest: Latest) -> None:
    with serve(latest) as port:
        with pytest.raises(urllib.error.HTTPError, match="403"):
            get(port, Host=f"evil.example:{port}")
        for host in (f"localhost:{port}", f"127.0.0.1:{port}", f"[::1]:{port}"):
            assert "DCGM_FI_DEV_GPU_TEMP" in get(port, Host=host)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_finds_nothing_wrong(latest: Latest) -> None:
    def check(names: str) -> subprocess.CompletedProcess[str]:
        with serve(latest, names) as port:
            text = get(port)
        command = ["promtool", "check", "metrics"]
        return subprocess.run(command, input=text, capture_output=True, text=True, check=False)

    found = check("otel")
    assert (found.returncode, found.stdout + found.stderr) == (0, "")
    # Of dcgm-exporter's own labels one is in camel case (modelName), a name of DCGM's ends in
    # COUNTER, and nothing else is amiss.
    complaints = {line.partition(" ")[2] for line in check("dcgm").stderr.splitlines()}
    assert complaints == {
        "label names should be written in 'snake_case' not 'camelCase'",
        "metric name should not include type 'counter'",
    }


@pytest.mark.timing
@pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")
def test_prometheus_answers_with_the_values_and_to_the_dashboard(
    latest: Latest, tmp_path: Path
) -> None:
    board = json.loads(Path("examples/grafana-gpus.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    with serve(latest) as port, run_prometheus(port, tmp_path, READY) as ask:
        values = {
            (one["metric"]["gpu"], one["metric"].get("GPU_I_ID")): float(one["value"][1])
            for one in ask("DCGM_FI_PROF_SM_ACTIVE")
        }
        answers = {e: ask(e.replace("$host", ".*").replace("$gpu", ".*")) for e in asked}
    whole = {(str(n), None): 0.925 for n in range(8) if n != 3}
    assert values == {**whole, ("7", "5"): pytest.approx(0.4625)}
    # GPU 3 is lost, and NVML has no utilization of a GPU in instances.
    assert [expr for expr, found in answers.items() if len(found) < 6] == []
