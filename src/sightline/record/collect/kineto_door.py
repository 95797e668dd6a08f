"""The door through which PyTorch's profiler lets a daemon in: a running program is told to record.

A process that was started with KINETO_USE_DAEMON=1 asks a daemon every five seconds, by datagram,
whether it is to record. Whoever binds the daemon's socket may answer. A message is the length of
its body, a type of 32 bytes, and the body; "req" asks with a number (bit 0: for events, bit 1: for
activities), the job and the process with its ancestors, and is answered with the lines of a
configuration, or with nothing. (pytorch/kineto, libkineto/src/IpcFabricConfigClient.cpp, Config.cpp
and src/output_json.cpp; facebookincubator/dynolog, dynolog/src/ipcfabric; tried with torch 2.13.)
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import shutil
import socket
import stat
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from types import TracebackType

import psutil

from sightline.errors import InputError, RequestError
from sightline.record.probe.processes import Root, find_own_number, is_running, read_environment

POLL_S = 5.0  # IpcFabricConfigClient asks so often
WARM_UP_S = 5.0  # Kineto's own (ACTIVITIES_WARMUP_PERIOD_SECS)
FILES_S = 300.0  # how long a trace is waited for, as of an inference server
# Kineto takes an order up to 1 s after it came, and drops it where its warm-up no longer fits in
# (GenericActivityProfiler, "insufficient time for warmup"); the rest is for a busy machine.
_LATE_S = 3.0

_HEAD = struct.Struct("<Q32s")
_ASK = struct.Struct("<i")
_CREDENTIALS = struct.Struct("3i")
_CLIENT = "dynoconfigclient"  # the beginning of the name of a client's own socket
_DAEMON = "dynolog"
_ACTIVITIES = 2
_NAMESPACES = {"net": "net", "mnt": "mount"}  # as nsenter(1) calls them
_QUIET_S = 1.5  # a trace that did not grow for so long is whole, if it ends as one


@dataclass(frozen=True)
class Client:
    """A process that asks for orders."""

    pid: int
    socket: str  # its own, which what it forks has as well, and does not serve
    own_number: int  # as it sees itself, in its container
    address: str  # of the socket at which it looks for a daemon
    folder: str  # where it may write, as it sees it
    user: int


def find_client(pid: int) -> Client | None:
    """The process as one that can be told to record; None where it does not ask for orders.

    Raises psutil.AccessDenied where its files may not be looked at.
    """
    try:
        process = psutil.Process(pid)
        sockets = [str(c.laddr) for c in process.net_connections(kind="unix")]
        user = process.uids().effective
    except psutil.NoSuchProcess:
        return None
    for name in sockets:
        place, _, own = name.strip("@").rpartition("/")
        if own.startswith(_CLIENT):
            address = f"{place}/{_DAEMON}" if place else f"\0{_DAEMON}\0"
            folder = read_environment(pid).get("KINETO_ONDEMAND_TRACE_DIR") or "/tmp"  # noqa: S108
            number = find_own_number(pid)
            return Client(pid, name, number, address, folder.rstrip("/"), user)
    return None


def find_obstacle(client: Client) -> str | None:
    """Why the client would not be heard from here, or None: it may be in another container."""
    kind = "net" if client.address.startswith("\0") else "mnt"
    try:
        if os.stat(f"/proc/{client.pid}/ns/{kind}") == os.stat(f"/proc/self/ns/{kind}"):  # noqa: PTH116
            return None
    except OSError:
        return "it has ended"
    inside = f"nsenter --{_NAMESPACES[kind]}=/proc/{client.pid}/ns/{kind}"
    return f"it is in a container: {inside} sightline attach {client.pid}"


@dataclass(frozen=True)
class Request:
    """What one process asks."""

    pid: int  # as this side sees it: the kernel says it, not the message
    wants_activities: bool
    answer_to: str | bytes


class Door:
    """The daemon's socket. Raises RequestError where a daemon is there already."""

    def __init__(self, address: str) -> None:
        self._path = None if address.startswith("\0") else Path(address)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            self._socket.bind(address)
            if self._path is not None:
                self._path.chmod(0o666)  # of another user, too: who asks, the kernel says
        except OSError as error:
            self._socket.close()
            raise _explain(error, address) from error

    def fileno(self) -> int:
        """For select."""
        return self._socket.fileno()

    def receive(self) -> Request | None:
        """The next message, if it asks for orders; None for every other one."""
        data, control, *_, sender = self._socket.recvmsg(
            1 << 16, socket.CMSG_SPACE(_CREDENTIALS.size)
        )
        if len(data) < _HEAD.size + _ASK.size or not sender:
            return None
        kind = _HEAD.unpack_from(data)[1].split(b"\0")[0]
        pids = [
            _CREDENTIALS.unpack(said[: _CREDENTIALS.size])[0]
            for level, what, said in control
            if (level, what) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
            and len(said) >= _CREDENTIALS.size
        ]
        if kind != b"req" or not pids:
            return None
        (wanted,) = _ASK.unpack_from(data, _HEAD.size)
        return Request(pids[0], bool(wanted & _ACTIVITIES), sender)

    def answer(self, request: Request, orders: str = "") -> bool:
        """Send orders, or that there are none; whether it could be sent."""
        body = orders.encode()
        try:
            self._socket.sendto(_HEAD.pack(len(body), b"req") + body, request.answer_to)
        except OSError:
            return False  # it has ended meanwhile
        return True

    def __enter__(self) -> Door:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()


def _explain(error: OSError, address: str) -> RequestError:
    if error.errno == errno.EADDRINUSE:
        return RequestError(
            "another daemon tells PyTorch's profiler what to record",
            why="its socket, dynolog, is taken",
            hint="Let it record:  dyno gputrace --pids P   or stop it meanwhile.",
        )
    return RequestError(
        "PyTorch's profiler cannot be reached",
        why=f"{address.strip(chr(0))}: {(error.strerror or str(error)).lower()}",
    )


@dataclass(frozen=True)
class Order:
    """What is to be recorded; `wanted`: of shapes, memory, stacks."""

    name: str  # of the trace, without its ending and the process's number
    seconds: float
    warm_up_s: float = WARM_UP_S
    wanted: Sequence[str] = ()

    def write(self, client: Client, start_ms: int) -> str:
        """The lines that make a client record from a moment on, in ms of the epoch."""
        lines = {
            "ACTIVITIES_LOG_FILE": f"{client.folder}/{self.name}.json",
            "PROFILE_START_TIME": start_ms,
            "ACTIVITIES_WARMUP_PERIOD_SECS": round(self.warm_up_s),
            "ACTIVITIES_DURATION_MSECS": round(1000 * self.seconds),
            "PROFILE_REPORT_INPUT_SHAPES": str("shapes" in self.wanted).lower(),
            "PROFILE_PROFILE_MEMORY": str("memory" in self.wanted).lower(),
            "PROFILE_WITH_STACK": str("stacks" in self.wanted).lower(),
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())


def tell_clients(
    clients: Sequence[Client], order: Order, *, most_s: float = 2 * POLL_S + _LATE_S
) -> tuple[list[Client], int]:
    """Give each the order as it asks: those that took it, and when they begin, in ms of the epoch.

    Several begin at the same moment, as late as the last of them needs. Ends after `most_s` at the
    latest. Raises RequestError where there is another daemon.
    """
    missing = {client.pid: client for client in clients}
    told: list[Client] = []
    lead_s = order.warm_up_s + _LATE_S
    start_ms = round(1000 * (time.time() + POLL_S + lead_s)) if len(clients) > 1 else 0
    with contextlib.ExitStack() as stack:
        doors = [stack.enter_context(Door(a)) for a in sorted({c.address for c in clients})]
        limit = time.monotonic() + most_s
        while missing and (left := limit - time.monotonic()) > 0:
            for door in select.select(doors, [], [], min(left, 1.0))[0]:
                request = door.receive()
                if request is None:
                    continue
                client = missing.get(request.pid)
                if client is None or not request.wants_activities:
                    door.answer(request)
                    continue
                start_ms = start_ms or round(1000 * (time.time() + lead_s))
                if start_ms / 1000 - time.time() < order.warm_up_s:
                    door.answer(request)  # too late to begin with the others
                    del missing[request.pid]
                elif door.answer(request, order.write(client, start_ms)):
                    told.append(missing.pop(request.pid))
            missing = {pid: c for pid, c in missing.items() if is_running(pid)}
    return told, start_ms


def take_trace(
    client: Client, root: Root, name: str, target: Path, *, most_s: float = FILES_S
) -> None:
    """Wait for the trace of a client, and move it to `target`. Raises InputError.

    `root` is the client's, opened before: the trace is there, too, when the process has ended.
    """
    # Kineto puts the process's number into the name.
    source = f"{root.path}{client.folder}/{name}_{client.own_number}.json"
    limit, seen, quiet = time.monotonic() + most_s, -1, time.monotonic()
    while True:
        runs = is_running(client.pid)  # asked first: what it wrote last is there then
        size = _measure(source)
        if size != seen:
            seen, quiet = size, time.monotonic()
        if size > 0 and _ends_as_trace(source, client.user):
            # Kineto renames a trace when it is whole; older versions wrote under its name.
            if not runs or time.monotonic() - quiet >= _QUIET_S:
                break
        elif not runs or time.monotonic() > limit:
            how = "ended before it wrote its trace" if not runs else "wrote no trace"
            raise InputError(
                f"process {client.pid} {how}",
                why=f"there is no whole {client.folder}/{name}_{client.own_number}.json",
            )
        time.sleep(0.1)
    part = target.with_name(f".{target.name}.part")
    try:
        with _open(source, client.user) as trace, part.open("wb") as copy:
            shutil.copyfileobj(trace, copy, 1 << 20)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            os.unlink(source)  # noqa: PTH108  # a text that the kernel resolves


def _measure(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def _ends_as_trace(path: str, user: int) -> bool:
    with contextlib.suppress(OSError), _open(path, user) as trace:
        trace.seek(-min(os.fstat(trace.fileno()).st_size, 64), os.SEEK_END)
        return trace.read().rstrip().endswith(b"}")
    return False


def _open(path: str, user: int) -> BufferedReader:
    """A file that the client wrote: not a link or a pipe, which lead elsewhere."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb")
    state = os.fstat(file.fileno())
    if stat.S_ISREG(state.st_mode) and state.st_uid == user:
        return file
    file.close()
    raise OSError(errno.EPERM, "it is not the program's own file", path)
