"""Hostile requests to a node's daemon: cut, changed, flooded, replayed, by others and in order.

Whatever comes: no capture begins, no file is written or read, and the daemon answers the next one.
"""

from __future__ import annotations

import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attack.mutate import damage
from sightline.capture import keeper
from sightline.capture.request import CaptureRequest, decode_request
from sightline.capture.server import NetServer
from sightline.capture.signing import sign_request
from sightline.errors import RequestError
from support.campaigns import CAMPAIGNS
from support.nodes import OwnNode, run_node

pytestmark = pytest.mark.timing
ROUNDS = 3000 if CAMPAIGNS else 150
FLOOD = 1000 if CAMPAIGNS else 100
TOKEN = "0123456789abcdef"
SECRET = b"a word that lies outside"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OwnNode]:
    monkeypatch.setattr(keeper, "POLL_S", 60.0)
    (tmp_path / "secret").write_bytes(SECRET)
    with run_node(tmp_path / "n", reduce=lambda folder, facts: None) as node:
        node.start(rank=0)
        node.wait_for(1)
        yield node


def far(node: OwnNode) -> tuple[NetServer, tuple[str, int]]:
    server = NetServer("127.0.0.1", 0, node.api, TOKEN, None)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server, server.server_address[:2]  # type: ignore[return-value]


def whole(start_s: float = 30.0) -> CaptureRequest:
    return CaptureRequest("a" * 16, round(1000 * (time.time() + start_s)), 0.1, 0.0)


def write_request(method: str, path: str, body: bytes, headers: dict[str, str]) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def send(place: Any, data: bytes) -> bytes:
    """What comes back; nothing of what is cut off is waited for."""
    family = socket.AF_INET if isinstance(place, tuple) else socket.AF_UNIX
    with socket.socket(family, socket.SOCK_STREAM) as asked:
        asked.settimeout(5)
        answer = b""
        with suppress(OSError):
            asked.connect(place)
            asked.sendall(data)
            asked.shutdown(socket.SHUT_WR)
            while piece := asked.recv(1 << 16):
                answer += piece
        return answer


def assert_well(node: OwnNode) -> None:
    assert node.ask().ask_data("GET", "/v1/node")["capturing"] is None
    assert node.shelf.list_folders() == []
    assert node.left == []


def test_damaged_requests_without_a_signature(node: OwnNode) -> None:
    """Of a whole request, everything changed or cut: who does not know the token is not heard."""
    rng = random.Random(3)
    server, place = far(node)
    try:
        body = whole().encode()
        signed = sign_request("another token, as long", "POST", "/v1/captures", body)
        seed = write_request("POST", "/v1/captures", body, signed)
        for _ in range(ROUNDS):
            _, made = damage(seed, rng, seed)
            answer = send(place, made)
            assert b" 20" not in answer.split(b"\r\n")[0], made
            assert SECRET not in answer
    finally:
        server.shutdown()
        server.server_close()
    assert_well(node)


def test_a_request_that_was_overheard(node: OwnNode) -> None:
    """Sent again as it was, with another body, and to another path: refused."""
    server, place = far(node)
    try:
        signed = sign_request(TOKEN, "GET", "/v1/node", b"")
        request = write_request("GET", "/v1/node", b"", signed)
        assert send(place, request).startswith(b"HTTP/1.1 200")
        body = whole().encode()
        for data in (
            request,
            write_request("GET", "/v1/captures", b"", signed),
            write_request("POST", "/v1/captures", body, signed),
        ):
            assert send(place, data).startswith(b"HTTP/1.1 403")
        named = request.replace(b"Host: 127.0.0.1", b"Host: evil.example")
        assert send(place, named).startswith(b"HTTP/1.1 403")  # a page of the web
    finally:
        server.shutdown()
        server.server_close()
    assert_well(node)


PATHS = (
    *("/v1/captures/../../secret", "/v1/captures/" + "a" * 16 + "/files/..%2f..%2fsecret"),
    *("/v1/captures/" + "a" * 16 + "/files/../state.json", "/", "//", "/v1/triggers/x", "*"),
    *("/v1/captures/" + "A" * 16, "/v1/node?x=1", "/v1/" + "x" * 60_000, "http://h/v1/node"),
)


def test_paths_and_methods(node: OwnNode) -> None:
    place = str(node.sockets / "daemon.sock")
    for path in PATHS:
        for method in ("GET", "POST", "PUT", "DELETE", "CONNECT", "\0"):
            answer = send(place, write_request(method, path, b"{}", {}))
            assert b" 20" not in answer.split(b"\r\n")[0], (method, path)
            assert SECRET not in answer
    assert_well(node)


@pytest.mark.parametrize(
    "length", ["-1", "1e3", "99999999999", "65537", "0x10", "", "+5", "\u0665"]
)
def test_lengths(node: OwnNode, length: str) -> None:
    place = str(node.sockets / "daemon.sock")
    head = f"POST /v1/captures HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
    answer = send(place, head.encode() + b"x" * 100)
    assert answer.startswith(b"HTTP/1.1 413")
    assert_well(node)


def test_a_body_that_is_cut_off_does_nothing(node: OwnNode) -> None:
    body = whole().encode()
    data = write_request("POST", "/v1/captures", body, {})
    for end in range(len(data) - 1, len(data) - len(body), -7):
        assert b" 202 " not in send(str(node.sockets / "daemon.sock"), data[:end])
    assert_well(node)


def test_requests_that_make_no_sense() -> None:
    rng, seed = random.Random(5), whole().encode()
    told = json.loads(seed)
    values: list[Any] = [None, True, -1, 2**70, 1e308, float("nan"), "", "x" * 9999, [], {}, [[]]]
    bodies = [json.dumps({**told, key: value}).encode() for key in told for value in values]
    bodies += [b"", b"[]", b"null", b"[" * 60_000, b'"' + b"x" * 60_000 + b'"']
    bodies += [damage(seed, rng, seed)[1] for _ in range(ROUNDS)]
    for body in bodies:
        with suppress(RequestError):
            request = decode_request(body)
            assert 0 <= request.warm_up_s <= 60
            assert request.steps or 0.1 <= request.seconds <= 60
            assert len(request.wanted) <= 8
            assert set(request.id) <= set("0123456789abcdef")


def test_a_flood_of_connections_that_say_nothing(node: OwnNode) -> None:
    """They take no descriptor from who does say something."""
    place = str(node.sockets / "daemon.sock")
    idle = []
    try:
        for _ in range(FLOOD):
            idle.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            idle[-1].settimeout(5)
            with suppress(BlockingIOError):  # the queue is full for now
                idle[-1].connect(place)
                idle[-1].send(b"GET /v1/no")
        held = sum(1 for _ in Path("/proc/self/fd").iterdir())
        assert held < FLOOD + node.server.most + 60
        node.ask().ask_data("GET", "/v1/clock")
    finally:
        for one in idle:
            one.close()
    assert_well(node)


def test_datagrams_at_the_door(node: OwnNode) -> None:
    """A program's messages, damaged: who asks properly is still heard, and nobody is made up."""
    rng = random.Random(9)
    body = struct.pack("<iiq2i", 3, 2, 0, 1, 1)  # it says that it is process 1
    seed = struct.pack("<Q32s", len(body), b"req") + body
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as own:
        own.bind(str(node.sockets / "dynoconfigclientx"))
        own.setblocking(False)
        for _ in range(ROUNDS):
            _, made = damage(seed, rng, seed)
            with suppress(OSError):  # full for now
                own.sendto(made[:60_000], str(node.sockets / "dynolog"))
            with suppress(OSError):
                own.recv(1 << 16)
    known = {one.pid for one in node.keeper.list_listeners()}
    assert known <= {node.programs[0].pid, os.getpid()}  # the kernel says who asks
    assert_well(node)
