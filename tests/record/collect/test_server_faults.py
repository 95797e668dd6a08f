"""Servers that end, hang, cut connections or fill the disk while they are recorded.

Each fault is said in a sentence, in bounded time and memory, and what the clients saw is kept. What
else can be wrong (another version, no profiler, a closed port) is in test_server.py.
"""

from __future__ import annotations

import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.errors import InputError
from sightline.record.collect import server
from sightline.record.collect.server_load import Load, send_load
from support import recording
from support.campaigns import CAMPAIGNS

pytestmark = pytest.mark.timing
QUICK = server.Patience(files_s=2.0, gone_s=0.3)
LOAD = Load(4, 2, ("a b c",))
TRACE = json.dumps({"schemaVersion": 1, "traceEvents": []}).encode()


class Fault:
    """What the server does wrong, and where it writes."""

    def __init__(self, traces: Path) -> None:
        self.traces = traces
        self.cuts: set[str] = set()  # addresses whose connections are cut
        self.ends_after: int | None = None  # completions, and then the server is gone
        self.hangs = threading.Event()  # set: /stop_profile answers
        self.hangs.set()
        self.stops = threading.Event()  # set when /stop_profile is asked
        self.size: int | None = None  # of a trace that is a hole
        self.served = 0
        self.http: ThreadingHTTPServer | None = None

    def write(self) -> None:
        self.traces.mkdir(exist_ok=True)
        path = self.traces / "rank0.pt.trace.json"
        path.write_bytes(TRACE)
        if self.size is not None:
            with path.open("r+b") as file:
                file.truncate(self.size)  # zeros behind the document

    def end(self) -> None:
        assert self.http is not None
        self.http.socket.close()


class Handler(BaseHTTPRequestHandler):
    fault: Fault

    def do_GET(self) -> None:
        told = {
            "/version": '{"version": "0.32.0"}',
            "/v1/models": '{"data": [{"id": "small"}]}',
            "/metrics": "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting 0\n",
        }.get(self.path)
        if told is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(told.encode())

    def do_POST(self) -> None:
        fault = self.fault
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.path in fault.cuts:
            if self.path == "/v1/completions":  # in the middle of its answer
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'data: {"choices": [{"text": "t"}]}\n\ndata: {"choi')
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if self.path == "/v1/completions":
            fault.served += 1
            if fault.ends_after is not None and fault.served > fault.ends_after:
                fault.end()
                self.connection.shutdown(socket.SHUT_RDWR)
                return
        if self.path == "/stop_profile":
            fault.stops.set()
            fault.hangs.wait()
            fault.write()
        self.send_response(200)
        self.end_headers()
        if self.path == "/v1/completions":
            self.wfile.write(b'data: {"choices": [{"text": "t"}]}\n\n' * 2 + b"data: [DONE]\n\n")

    def log_message(self, *_: object) -> None:
        """Not on the test's standard error."""

    def handle_error(self, *_: object) -> None:
        """What is cut is meant."""


@pytest.fixture
def faulty(tmp_path: Path) -> Iterator[tuple[str, Fault, Path]]:
    fault = Fault(tmp_path / "traces")
    http = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Handler,), {"fault": fault}))
    http.daemon_threads = True
    http.handle_error = lambda *_: None  # type: ignore[method-assign]
    fault.http = http
    url = f"http://127.0.0.1:{http.server_address[1]}"
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set() and http.fileno() >= 0:
            http.timeout = 0.05
            try:
                http.handle_request()
            except (OSError, ValueError):  # its socket is closed
                return

    thread = threading.Thread(target=serve)
    thread.start()
    folder = tmp_path / "s.sightline"
    folder.mkdir()
    yield url, fault, folder
    fault.hangs.set()
    ended.set()
    thread.join()
    http.server_close()


def record(url: str, fault: Fault, folder: Path, **more: Any) -> list[str]:
    said: list[str] = []
    words = {"patience": QUICK, "load": LOAD, **more}
    server.record_server("vllm", url, folder, 0.0, fault.traces, said.append, **words)
    return said


def test_a_server_that_ends_leaves_its_clients_log(faulty):
    """It had answered two: these are there, the others have failed, and nobody waits minutes."""
    url, fault, folder = faulty
    fault.ends_after = 2
    began = time.monotonic()
    with pytest.raises(InputError, match="does not answer"):
        record(url, fault, folder, load=Load(4, 1, ("a b c",)))
    assert time.monotonic() - began < 30
    rows = sl.open(str(folder)).table("served_requests")
    assert rows["output_tokens"].to_list()[:2] == [2, 2]
    assert rows["status"].to_list()[2:] == ["failed", "failed"]


@pytest.mark.parametrize("what", ["/start_profile", "/stop_profile"])
def test_a_connection_that_is_cut(what, faulty):
    url, fault, folder = faulty
    fault.cuts.add(what)
    with pytest.raises(InputError, match="does not answer"):
        record(url, fault, folder)
    assert (folder / "client.json").exists() == (what == "/stop_profile")


def test_an_answer_that_is_cut_counts_as_failed(faulty):
    url, fault, _ = faulty
    fault.cuts.add("/v1/completions")
    said: list[str] = []
    rows = send_load(url, Load(2, 1, ("a",)), said.append)
    assert [(row["n"], row["error"]) for row in rows] == [(1, "the answer was cut off")] * 2
    assert said == ["2 of 2 requests failed: the answer was cut off"]


def test_ten_minutes_of_writing_are_told(faulty):
    """By a clock that runs two thousand times as fast: how long is said, again and again."""
    url, fault, folder = faulty
    fault.hangs.clear()
    threading.Timer(0.4, fault.hangs.set).start()
    quick = server.Patience(files_s=2.0, tell_s=0.02, clock=lambda: 2000 * time.monotonic())
    said = record(url, fault, folder, patience=quick)
    waits = [line for line in said if "so far" in line]
    assert len(waits) >= 5
    told = [float(line.split(" s so far")[0].rpartition(" ")[2]) for line in waits]
    assert told == sorted(told)
    assert told[-1] >= 600
    assert (folder / "server-0.rank0.json").exists()


def start_command(url: str, fault: Fault, folder: Path) -> Any:
    return recording.start(
        *("--server", "vllm", url, "--traces", fault.traces, "--no-report"),
        *("--seconds", "60", "-o", folder.parent / "c"),
        cwd=folder.parent,
    )


def wait_for(words: str, process: Any) -> None:
    for line in process.stderr:
        if words in line:
            return


def test_an_interrupt_ends_the_recording_and_collects_it(faulty):
    url, fault, folder = faulty
    process = start_command(url, fault, folder)
    wait_for("is recording", process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "ended early" in err
    assert (folder.parent / "c.sightline/server-0.rank0.json").exists()


def test_an_interrupt_while_it_writes_harms_nothing(faulty):
    """Where the traces will be is said; the server writes on, and is not asked again."""
    url, fault, folder = faulty
    fault.hangs.clear()
    process = start_command(url, fault, folder)
    wait_for("is recording", process)
    process.send_signal(signal.SIGINT)
    assert fault.stops.wait(30)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert f"its traces come into {fault.traces}" in err
    assert "Traceback" not in err
    fault.hangs.set()
    limit = time.monotonic() + 30
    while not (fault.traces / "rank0.pt.trace.json").exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert (fault.traces / "rank0.pt.trace.json").read_bytes() == TRACE


def test_two_gigabytes_of_traces_are_copied_in_bounded_memory(faulty):
    url, fault, folder = faulty
    fault.size = 2 << 30 if CAMPAIGNS else 64 << 20
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from sightline.record.collect import server\n"
        "kb = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = kb()\n"
        "url, folder, traces = sys.argv[1:]\n"
        "server.record_server('vllm', url, Path(folder), 0.05, Path(traces), lambda _: None)\n"
        "print(kb() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, url, str(folder), str(fault.traces)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    copy = folder / "server-0.rank0.json"
    assert copy.stat().st_size == fault.size
    copy.unlink()
    assert int(done.stdout) < 32 * 1024  # kB


def test_a_trace_for_which_there_is_no_room_stays_where_it_is(faulty):
    """Files may grow to 1 MB, the trace is larger: as on a full disk."""
    url, fault, folder = faulty
    fault.size = 4 << 20

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = recording.run(
        *("--server", "vllm", url, "--traces", fault.traces, "--no-report"),
        *("--seconds", "0.05", "-o", folder.parent / "c"),
        cwd=folder.parent,
        env=recording.clean(),
        preexec_fn=limit,
    )
    assert done.returncode == 2, done.stderr
    assert "a trace could not be copied" in done.stderr
    trace = fault.traces / "rank0.pt.trace.json"
    assert str(trace) in done.stderr
    assert trace.stat().st_size == fault.size
    assert not list((folder.parent / "c.sightline").glob("server-*"))
