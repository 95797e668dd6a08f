"""`sightline watch` as a person runs it: started, killed, violated, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import polars as pl
import pytest

from sightline.core.model.history_folder import list_live, read_live
from sightline.core.model.history_tables import scan_history
from sightline.record.monitor.notices import Notifier, take_credentials
from sightline.record.monitor.readings import Entity, Event
from support import fake_nvml as fake
from support.command import sightline

WATCH = [sys.executable, "-m", "sightline", "watch", "--period", "0.1s"]


@pytest.mark.timing
def test_a_run_is_kept_and_reported(nvml_library: Path, tmp_path: Path, cache: Path) -> None:
    command = [*WATCH, "-o", str(tmp_path / "h"), "--for", "1.5s"]
    done = fake.run_with(fake.make_eight(), nvml_library, command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Watching 8 × NVIDIA H200, the host" in done.stderr
    rows = scan_history(tmp_path / "h", "gpus").collect()
    assert rows.get_column("device_id").n_unique() == 8 and rows.height >= 8 * 10
    told = sightline("report", str(tmp_path / "h"))
    assert "sightline watch · 8 × NVIDIA H200" in told.out
    assert "GPU       smi     SM" in told.out
    table = sightline("stats", "energy", str(tmp_path / "h"), "--format", "json")
    powers = {row["device_id"]: row["power_w"] for row in json.loads(table.out)}
    assert {n: round(p, -1) for n, p in powers.items()} == {n: 600 + 10 * n for n in range(8)}
    # Who the GPUs are is kept where the history is, and is not in what others are shown.
    assert "GPU-0000" not in told.out


@pytest.mark.timing
def test_one_that_is_killed_loses_nothing_but_its_last_record(
    nvml_library: Path, tmp_path: Path
) -> None:
    env = {**os.environ, **fake.list_variables(fake.make_eight(), nvml_library, tmp_path)}
    command = [*WATCH, "-o", str(tmp_path / "h")]
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as child:
        end = time.monotonic() + 20
        while time.monotonic() < end and not any(
            len(read_live(path).rounds) >= 5 for path in list_live(tmp_path / "h")
        ):
            time.sleep(0.1)
        child.send_signal(signal.SIGKILL)
    (live,) = list_live(tmp_path / "h")
    before = len(read_live(live).rounds)
    assert before >= 5 and read_live(live).lost == 0
    done = fake.run_with(fake.make_eight(), nvml_library, [*command, "--for", "0.5s"], tmp_path)
    assert done.returncode == 0, done.stderr
    assert not list_live(tmp_path / "h")
    times = scan_history(tmp_path / "h", "gpus").filter(pl.col("device_id") == 0).collect()
    assert times.get_column("time_ns").n_unique() == times.height > before


class Hook(BaseHTTPRequestHandler):
    """What a webhook is given."""

    got: list[dict[str, object]] = []  # noqa: RUF012

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.got.append(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serve_hook() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_webhook_that_leads_elsewhere_is_not_reached(code: int) -> None:
    asked = []

    class Elsewhere(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append("POST")
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(code)
            self.send_header("Location", "/hook")
            self.end_headers()

        def do_GET(self) -> None:
            asked.append("GET")
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    failed: list[str] = []
    with HTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        notifier = Notifier(f"http://127.0.0.1:{server.server_port}/", None, failed.append)
        notifier.send(Event(0, "xid", Entity("gpu", 0), "XID 79"))
        notifier.close()
        server.shutdown()
    assert asked == ["POST"]
    (said,) = failed
    assert f"{code}" in said


def test_a_webhooks_user_and_password_go_into_a_header() -> None:
    address, headers = take_credentials("https://eva:a%40b@example.org:8443/x?y=1")
    assert address == "https://example.org:8443/x?y=1"
    assert headers == {"Authorization": "Basic ZXZhOmFAYg=="}
    assert take_credentials("http://[::1]:80/") == ("http://[::1]:80/", {})


@pytest.mark.timing
def test_a_violation_is_printed_kept_posted_and_the_exit_code(
    nvml_library: Path, tmp_path: Path
) -> None:
    machine = fake.make_eight()
    machine.devices[3].lose(0.5)
    seen = tmp_path / "seen"
    with serve_hook() as url:
        command = [*WATCH, "-o", str(tmp_path / "h"), "--for", "2s", "--policy", "default",
                   "--webhook", url, "--run", f"tee {seen}"]  # fmt: skip
        done = fake.run_with(machine, nvml_library, command, tmp_path)
    assert done.returncode == 1
    assert "GPU 3: xid: XID 79" in done.stderr
    # An XID and a lost GPU are told, too: the policy tells of the first XID only.
    told = [(posted["event"], posted["device_id"]) for posted in Hook.got]
    assert told == [("xid", 3), ("device-lost", 3), ("policy-violated", 3)]
    assert json.loads(seen.read_text()) == Hook.got[-1]
    events = scan_history(tmp_path / "h", "events").collect()
    assert events.get_column("event").to_list() == ["xid", "device-lost", "policy-violated"]


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    for arguments, said in (
        ([], "there is nothing to do with the readings"),
        (["-o", str(tmp_path), "--period", "1ms"], "0.1s is the least"),
        (["-o", "x", "--source", "nvlm"], "did you mean nvml?"),
        (["--metrics", "nine"], "'nine' is not a port"),
        (["-o", "x", "--max-size", "lots"], "'lots' is not a size"),
        (["-o", "x", "--thin", "2d"], "'2d' does not say how much is kept"),
        (["-o", "x", "--thin", "2d:1ms"], "'2d:1ms' does not say how much is kept"),
        (["--policy", str(tmp_path / "none.yaml")], "none.yaml"),
    ):
        done = sightline("watch", *arguments)
        assert done.code == 2 and said in done.err, done.err


@pytest.mark.timing
def test_without_a_gpu_the_host_is_watched_and_the_reasons_are_told(tmp_path: Path) -> None:
    done = sightline("watch", "-o", str(tmp_path / "h"), "--for", "0.3s", "--period", "0.1s")
    assert "No GPU can be read here, only the host:" in done.err
    assert scan_history(tmp_path / "h", "host").collect().height >= 2


# As guides to profiling on clusters print it, character by character.
PUZZLE = """\
{
  "tag": "low_cpu_load",
  "threshold": "config.low_cpu_threshold",
  "metrics": ["cpu_load"],
  "vars": {
    "avg_load": "mean(cpu_load.data)",
    "low_load": "avg_load < threshold"
  },
  "trigger": "low_load == True"
}
"""


ROUNDED = 0.01  # /proc/loadavg has two digits, what a watch asks the kernel for has sixteen bits


def read_load() -> float:
    return float(Path("/proc/loadavg").read_text().split()[0])


@pytest.mark.timing
@pytest.mark.skipif(not Path("/proc/loadavg").is_file(), reason="the kernel's load is not there")
def test_the_rule_of_puzzle_fires_on_what_a_watch_kept_of_this_machine(tmp_path: Path) -> None:
    """The mean is of what the kernel said; the rule fires below its threshold alone."""
    history = str(tmp_path / "h")
    loads = [read_load()]
    with subprocess.Popen([*WATCH, "-o", history, "--for", "2s"], stderr=subprocess.PIPE) as child:
        while child.poll() is None:
            loads.append(read_load())
            time.sleep(0.05)
        assert child.returncode == 0
    loads.append(read_load())  # what changed just before its last round, too
    (tmp_path / "rule.json").write_text(PUZZLE)
    told = {}
    for limit in (min(loads) / 2 - 2 * ROUNDED, max(loads) + 2 * ROUNDED):
        (tmp_path / "config.json").write_text(json.dumps({"low_cpu_threshold": limit}))
        done = sightline("findings", history, "--rules", str(tmp_path / "rule.json"), "--json")
        assert done.code == 0, done.err
        found = [f for f in json.loads(done.out) if f["rule"] == "low-cpu-load"]
        told[limit] = [line for f in found if not f["abstained"] for line in f["evidence"]]
    silent, fired = told.values()
    assert not silent
    (mean,) = (line.removeprefix("avg_load = ") for line in fired if line.startswith("avg_load"))
    assert min(loads) - ROUNDED <= float(mean) <= max(loads) + ROUNDED
