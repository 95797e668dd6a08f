"""Hostile servers under `run --server`: a recording or a sentence, in bounded time and memory.

One endpoint answers as it likes, the others as a server does. Damaged answers are those of
test_server_metrics.py; an answer to a prompt may also never end, or be of gigabytes.
"""

from __future__ import annotations

import contextlib
import json
import random
import resource
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import sightline
from attack.mutate import damage
from attack.test_server_metrics import HOSTILE
from sightline.errors import SightlineError
from sightline.record.collect import server
from sightline.record.collect.server_load import Load, send_load
from support.campaigns import CAMPAIGNS
from support.processor_time import takes_at_most

pytestmark = pytest.mark.timing
OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
TOKEN = b'data: {"choices": [{"text": "t"}]}\n\n'
DONE = b"data: [DONE]\n\n"
MODELS = b'{"data": [{"id": "small"}]}'
ENDPOINTS = ("/metrics", "/v1/models", "/v1/completions", "/start_profile", "/stop_profile")
QUICK = server.Patience(files_s=2.0, gone_s=0.2)


class Served:
    """What each endpoint answers; `odd` is what one of them does instead."""

    def __init__(self, traces: Path, where: str = "", odd: str = "") -> None:
        self.traces, self.where, self.odd = traces, where, odd
        self.stream: bytes | None = None

    def act(self, connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head and (more := connection.recv(65536)):
            head += more
        path = head.split(b" ")[1].decode() if head.count(b" ") > 1 else ""
        if path == self.where:
            HOSTILE[self.odd](connection)
            return
        body = {"/v1/models": MODELS, "/v1/completions": TOKEN + DONE}.get(path, b"")
        if path == "/v1/completions" and self.stream is not None:
            connection.sendall(OK)
            while True:
                connection.sendall(self.stream)
        if path == "/stop_profile":
            self.traces.mkdir(exist_ok=True)
            (self.traces / "rank0.pt.trace.json").write_text('{"traceEvents": []}')
        connection.sendall(OK + body)


@contextlib.contextmanager
def serve(served: Served) -> Iterator[str]:
    ended = threading.Event()

    def handle(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            connection.settimeout(3)
            served.act(connection)

    def listen(listener: socket.socket) -> None:
        while not ended.is_set():
            with contextlib.suppress(OSError):
                connection, _ = listener.accept()
                threading.Thread(target=handle, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.05)
        thread = threading.Thread(target=listen, args=(listener,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


CASES = [(where, odd) for where in ENDPOINTS for odd in HOSTILE]


@pytest.mark.parametrize(("where", "odd"), CASES if CAMPAIGNS else CASES[::5])
def test_one_endpoint_is_hostile(where: str, odd: str, tmp_path: Path) -> None:
    folder = tmp_path / "s.sightline"
    folder.mkdir()
    served = Served(tmp_path / "traces", where, odd)
    began = time.monotonic()
    words = {"load": Load(2, 1, ("a",)), "patience": QUICK}
    with serve(served) as url, contextlib.suppress(SightlineError):
        server.record_server("vllm", url, folder, 0.0, served.traces, lambda _: None, **words)
        assert (folder / "server-0.rank0.json").exists()
    assert time.monotonic() - began < 60
    if (folder / "client.json").exists():
        rows = sightline.open(str(folder / "client.json")).table("served_requests")
        assert rows.height == 2
        assert where != "/v1/completions" or set(rows["status"]) == {"failed"}


@pytest.mark.parametrize(
    "stream", [TOKEN * 64, b"data: " + b"x" * (1 << 20), b"\n" * (1 << 16)], ids=len
)
def test_an_answer_that_does_not_end(stream: bytes, tmp_path: Path) -> None:
    served = Served(tmp_path)
    served.stream = stream
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serve(served) as url:
        began = time.monotonic()
        (row,) = send_load(url, Load(1, 1, ("a",)), lambda _: None)
    assert row["error"]
    assert time.monotonic() - began < 60
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_damaged_clients_logs(tmp_path: Path) -> None:
    """What stands in a run folder may have been damaged since: an answer or a message."""
    dice = random.Random(5)
    rows = [
        {"i": 0, "start": 10.0, "n": 0, "error": "refused"},
        {"i": 1, "start": 11.0, "ttft": 0.1, "itl": [0.01, 0.02], "n": 3, "end": 11.2, "ptok": 5},
    ]
    whole = json.dumps(rows).encode()
    path = tmp_path / "client.json"
    opened = 0
    for _ in range(400 if CAMPAIGNS else 30):
        path.write_bytes(damage(whole, dice, whole[::-1])[1])
        with takes_at_most(10), contextlib.suppress(SightlineError):
            run = sightline.open(str(path))
            served = run.table("served_requests")
            assert set(served["status"]) <= {"completed", "failed"}
            opened += served.height > 0
            run.answer()
    assert opened  # most damage leaves one of the two requests
