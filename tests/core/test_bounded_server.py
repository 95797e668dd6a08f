"""Servers with bounded connections: idle clients cost no one else an answer, or a descriptor."""

from __future__ import annotations

import contextlib
import http.client
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from http.server import HTTPServer
from pathlib import Path

import pytest

from sightline.core.bounded_server import BoundedHandler, BoundedServer


class _Server(BoundedServer, HTTPServer):
    pass


class _Handler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "2000")
        self.end_headers()
        self.wfile.write(b"x" * 2000)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Handler) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.05,))
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def ask(server: _Server) -> int:
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", "/")
        return len(connection.getresponse().read())


def test_idle_clients_cost_no_answer_and_no_descriptor(server: _Server) -> None:
    server.most = 8
    descriptors = len(list(Path("/proc/self/fd").iterdir()))
    with contextlib.ExitStack() as kept:
        for number in range(40):
            client = kept.enter_context(socket.create_connection(server.server_address[:2]))
            client.sendall((b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n")[number % 3])
        assert ask(server) == 2000
        time.sleep(0.2)
        ours = len(list(Path("/proc/self/fd").iterdir())) - descriptors - 40
        assert ours <= 8
        assert ask(server) == 2000


def test_all_of_ours_are_gone_with_their_clients(server: _Server) -> None:
    for _ in range(20):
        ask(server)
    time.sleep(0.2)
    assert server._connections == {}


@pytest.mark.timing
def test_answers_on_a_kept_connection_wait_for_no_timer(server: _Server) -> None:
    """A delayed acknowledgement is 40 ms on Linux."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=5)
    took = []
    with contextlib.closing(connection):
        for _ in range(15):
            began = time.monotonic()
            connection.request("GET", "/")
            connection.getresponse().read()
            took.append(time.monotonic() - began)
    assert statistics.median(took) < 0.02


def test_no_descriptors_left_is_no_busy_loop(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def accept() -> None:
        calls.append(1)
        raise OSError(24, os.strerror(24))

    monkeypatch.setattr(HTTPServer, "get_request", lambda self: accept())
    with socket.create_connection(server.server_address[:2]):
        time.sleep(0.5)
    assert 1 <= len(calls) <= 15
