"""JAX's profiler server: a running program is told to record, over gRPC.

A program that called `jax.profiler.start_server(PORT)` answers `tensorflow.ProfilerService/Profile`
at that port: it records from a moment on, for as long as is asked, and writes one profile where it
is told to (REPOSITORY/SESSION/HOST.xplane.pb), with its own rights; then it answers
(openxla/xla, profiler_service.proto and profiler_options.proto under tsl/profiler/protobuf; tried
with JAX 0.10.2). It asks nobody who they are and listens at all of the machine's addresses: that is
JAX's, and a firewall's to mend. Only this machine's servers are asked here.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from sightline.core.protobuf import DamagedMessageError, declare_messages, parse_message
from sightline.core.units import format_several
from sightline.errors import InputError, RequestError

METHOD = "/tensorflow.ProfilerService/Profile"
LEAD_S = 1.0  # between the question and the start, so that several servers begin together (ours)
WRITE_S = 120.0  # for collecting and writing a profile, when it was recorded
_SESSION, _HOST = "profile", "host"
_HOST_TRACER, _DEVICE_TRACER = 2, 1  # jax.profiler.ProfileOptions' own
_MOST_BYTES = 4 << 30  # of a profile: two of the format's longest messages
_MOST_ANSWER = 1 << 20

MESSAGES = declare_messages(
    """
ProfileRequest: 1 duration_ms uint, 4 opts ProfileOptions, 5 repository_root text,
    6 session_id text, 7 host_name text
ProfileOptions: 2 host_tracer_level uint, 3 device_tracer_level uint,
    4 python_tracer_level uint, 5 version uint, 7 enable_hlo_proto bool,
    8 start_timestamp_ns uint, 9 duration_ms uint
ProfileResponse: 7 empty_trace bool
"""
)


def read_ports(text: str) -> list[int]:
    """The ports of servers on this machine. Raises RequestError."""
    words = [word.strip() for word in text.split(",")]
    if not all(w.isascii() and w.isdecimal() and len(w) < 6 and 0 < int(w) < 65_536 for w in words):
        raise RequestError(
            f"--jax {text} names no ports",
            why="servers of this machine are asked, by their ports: 1 to 65535",
            hint="--jax 9012,9013   for  jax.profiler.start_server(9012)",
        )
    return list(dict.fromkeys(map(int, words)))


def find_server(port: int) -> int:
    """The process that listens at a port of this machine.

    Raises RequestError where nobody does, or somebody whose process may not be looked at.
    """
    there = [
        connection
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr
        and connection.laddr.port == port
    ]
    if not there:
        raise RequestError(
            f"no process listens at port {port}",
            hint=f"in the program:  jax.profiler.start_server({port})",
        )
    pid = next((connection.pid for connection in there if connection.pid), None)
    if pid is None:
        raise RequestError(
            f"the process at port {port} belongs to another user", hint="run as root"
        )
    return pid


def find_library() -> Any:
    """gRPC for Python. Raises RequestError where it is missing."""
    try:
        import grpc
    except ImportError as error:
        raise RequestError(
            "JAX's profiler server is asked by gRPC, and the package grpcio is missing",
            hint="Install it:  pip install 'sightline-gpu[jax]'",
        ) from error
    return grpc


def record_server(
    port: int,
    target: Path,
    start_ns: int,
    seconds: float,
    wanted: Sequence[str] = (),
    *,
    write_s: float = WRITE_S,
    wait_s: float = LEAD_S,
) -> Path:
    """Have the server at a port of this machine record, and keep its profile as `target`.

    `start_ns`: since 1970; `wait_s`: until then. `wanted`: with "stacks" Python's calls, too.
    Raises InputError for whatever else it does.
    """
    grpc = find_library()
    place = Path(tempfile.mkdtemp(prefix=".part-jax-", dir=target.parent))
    try:
        request = make_request(place, start_ns, seconds, wanted)
        answer = _ask(grpc, port, request, wait_s + seconds + write_s)
        written = place / _SESSION / f"{_HOST}.xplane.pb"
        problem = find_problem(place, written, answer)
        if problem is not None:
            raise InputError(f"the profiler server at port {port} left no profile", why=problem)
        written.replace(target)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return target


def make_request(place: Path, start_ns: int, seconds: float, wanted: Sequence[str]) -> bytes:
    """What is asked, as it is sent."""
    request = MESSAGES["ProfileRequest"](
        duration_ms=round(1000 * seconds),
        repository_root=str(place),
        session_id=_SESSION,
        host_name=_HOST,
    )
    options = request.opts
    options.version = 1  # so that what follows counts, and no defaults
    options.host_tracer_level, options.device_tracer_level = _HOST_TRACER, _DEVICE_TRACER
    options.python_tracer_level = int("stacks" in wanted)
    options.enable_hlo_proto = True
    options.start_timestamp_ns, options.duration_ms = start_ns, round(1000 * seconds)
    return bytes(request.SerializeToString())


def _ask(grpc: Any, port: int, request: bytes, most_s: float) -> bytes:
    options = [
        ("grpc.enable_http_proxy", 0),  # it is this machine's
        ("grpc.max_receive_message_length", _MOST_ANSWER),
        ("grpc.enable_retries", 0),  # two questions would be two recordings
    ]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        try:
            return bytes(channel.unary_unary(METHOD)(request, timeout=most_s))
        except grpc.RpcError as error:
            raise InputError(
                f"the profiler server at port {port} did not record",
                why=explain_failure(error.code().name, error.details() or "", most_s),
            ) from error


def explain_failure(code: str, details: str, most_s: float) -> str:
    """Why a call failed, by gRPC's own name for it."""
    known = {
        "UNAVAILABLE": "it does not speak gRPC, or it ended",
        "UNIMPLEMENTED": "a server of gRPC listens there that is not JAX's profiler",
        "DEADLINE_EXCEEDED": f"it did not answer for {most_s:.0f} s",
        "ALREADY_EXISTS": "another profile is being recorded there",
        "RESOURCE_EXHAUSTED": "its answer is too long",
    }
    return known.get(code) or f"{code.lower()}: {details[:200]}"


def find_problem(place: Path, written: Path, answer: bytes) -> str | None:
    """Why what a server answered and wrote is no profile; None where it is one."""
    try:
        told = parse_message(MESSAGES["ProfileResponse"], answer)
    except DamagedMessageError:
        return "its answer is malformed"
    if told.empty_trace:
        return "nothing happened while it recorded, or another profile was being recorded"
    try:
        state = written.lstat()
        folder = written.parent.lstat()
    except OSError:
        return f"it could not write into {place.parent}: it may run as another user"
    users = (os.geteuid(), 0)
    if not stat.S_ISDIR(folder.st_mode) or not stat.S_ISREG(state.st_mode):
        return "it wrote something other than a file"
    if state.st_uid not in users or state.st_nlink != 1:
        return "it wrote a file that belongs to another user"
    if not 0 < state.st_size <= _MOST_BYTES:
        return f"its profile has {format_several(state.st_size, 'byte')}"
    return None
