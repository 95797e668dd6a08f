"""JAX's profiler server: asked as it is, and stand-ins that answer anything."""

from __future__ import annotations

import importlib.util
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import sightline as sl
from sightline.core.protobuf import parse_message
from sightline.errors import InputError, RequestError
from sightline.record.collect import jax_door
from sightline.record.collect.attach import open_servers
from support.command import sightline

grpc = pytest.importorskip("grpc", exc_type=ImportError)
PROGRAM = """\
import jax, jax.numpy as jnp, socket
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
server = jax.profiler.start_server(port)
x = jnp.ones((8, 8))
step = jax.jit(lambda x: jnp.tanh(x @ x))
step(x).block_until_ready()
print(port, flush=True)
while True:
    x = step(x).block_until_ready()
"""
PROFILE = b"\x22\x01h"  # an XSpace with the name of a host
Work = Callable[[Any], bytes]


@contextmanager
def serve(work: Work, method: str = jax_door.METHOD) -> Iterator[int]:
    """A server of gRPC, which does `work` with each request; the port."""

    class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> Any:
            if details.method != method:
                return None
            return grpc.unary_unary_rpc_method_handler(lambda body, _: work(body))

    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Handler()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None)


def read(body: bytes) -> Any:
    return parse_message(jax_door.MESSAGES["ProfileRequest"], body)


def place_of(body: bytes) -> Path:
    asked = read(body)
    folder = Path(asked.repository_root) / asked.session_id
    folder.mkdir()
    return folder / f"{asked.host_name}.xplane.pb"


def record(port: int, folder: Path, **options: Any) -> Path:
    start_ns = time.time_ns()
    options = {"write_s": 5.0, "wait_s": 0.0, **options}
    return jax_door.record_server(port, folder / "p.xplane.pb", start_ns, 0.1, **options)


def test_what_is_asked_and_kept(tmp_path: Path) -> None:
    asked: list[Any] = []

    def work(body: bytes) -> bytes:
        asked.append(read(body))
        place_of(body).write_bytes(PROFILE)
        return b""

    with serve(work) as port:
        path = jax_door.record_server(
            port, tmp_path / "p.xplane.pb", 7 * 10**18, 0.25, ["stacks"], wait_s=0.0
        )
    assert path.read_bytes() == PROFILE
    (request,) = asked
    assert (request.duration_ms, request.opts.duration_ms) == (250, 250)
    assert request.opts.start_timestamp_ns == 7 * 10**18
    assert (request.opts.version, request.opts.python_tracer_level) == (1, 1)
    assert [p.name for p in tmp_path.iterdir()] == ["p.xplane.pb"]


def write_link(body: bytes) -> bytes:
    place_of(body).symlink_to("/etc/hostname")
    return b""


def write_second_name(body: bytes) -> bytes:
    path = place_of(body)
    other = path.with_name("other")
    other.write_bytes(PROFILE)
    os.link(other, path)
    return b""


def write_folder_link(body: bytes) -> bytes:
    asked = read(body)
    elsewhere = Path(asked.repository_root) / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{asked.host_name}.xplane.pb").write_bytes(PROFILE)
    (Path(asked.repository_root) / asked.session_id).symlink_to(elsewhere)
    return b""


def write_empty(body: bytes) -> bytes:
    place_of(body).touch()
    return b""


@pytest.mark.parametrize(
    ("work", "why"),
    [
        (lambda body: b"", "it could not write"),
        (lambda body: b"\x38\x01", "nothing happened while it recorded"),
        (lambda body: b"\xff\xff\xff", "its answer is malformed"),
        (lambda body: b"\0" * (2 << 20), "its answer is too long"),
        (write_link, "other than a file"),
        (write_second_name, "belongs to another user"),
        (write_folder_link, "other than a file"),
        (write_empty, "0 bytes"),
    ],
)
def test_a_server_that_lies(tmp_path: Path, work: Work, why: str) -> None:
    with serve(work) as port, pytest.raises(InputError) as caught:
        record(port, tmp_path)
    assert why in str(caught.value.why)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_never_answers(tmp_path: Path) -> None:
    ends = threading.Event()

    def wait(body: bytes) -> bytes:
        ends.wait(20)
        return b""

    with serve(wait) as port:
        with pytest.raises(InputError) as caught:
            record(port, tmp_path, write_s=0.3)
        ends.set()
    assert "it did not answer" in str(caught.value.why)
    assert list(tmp_path.iterdir()) == []


def test_another_service_of_grpc(tmp_path: Path) -> None:
    with serve(lambda body: b"", "/other/Method") as port, pytest.raises(InputError) as caught:
        record(port, tmp_path)
    assert "not JAX's profiler" in str(caught.value.why)


def test_what_speaks_no_grpc(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def talk() -> None:
            with listening.accept()[0] as one:
                one.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 10_000)

        threading.Thread(target=talk, daemon=True).start()
        with pytest.raises(InputError, match="did not record"):
            record(listening.getsockname()[1], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_ports() -> None:
    assert jax_door.read_ports("9012, 9013,9012") == [9012, 9013]
    for text in ("", "0", "65536", "localhost:9012", "-1", "9012,", "1e3", "9" * 40, "\u0665"):
        with pytest.raises(RequestError, match="--jax"):
            jax_door.read_ports(text)


def test_a_port_at_which_nobody_listens() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and not listening
        port = taken.getsockname()[1]
        with pytest.raises(RequestError, match="no process listens") as caught:
            open_servers([port])
    assert f"start_server({port})" in str(caught.value.hint)


@pytest.mark.timing
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")
def test_a_program_that_serves_its_profiler(tmp_path: Path) -> None:
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "RANK": "3"}
    words = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as program:
        try:
            assert program.stdout is not None
            port = program.stdout.readline().strip()
            out = tmp_path / "a.sightline"
            done = sightline("attach", "--jax", port, "--for", "200ms", "--no-report", "-o", out)
            assert done.code == 0, done.err
            assert program.poll() is None
        finally:
            program.kill()
    (path,) = out.glob("*.xplane.pb")
    assert path.name.startswith("rank3-")
    assert str(program.pid) in path.name
    ops = sl.open(str(out)).table("host_ops").filter(layer="op")
    assert ops.height > 10
    times = ops.select(span=pl.col("end_ns").max() - pl.col("start_ns").min())
    assert times.item() < 1e9
