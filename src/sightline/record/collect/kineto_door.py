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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType

import psutil

from sightline.core.foreign_files import (
    Descriptor,
    Owner,
    act_as,
    find_owner,
    open_file,
    open_folder,
)
from sightline.core.units import format_bytes
from sightline.errors import InputError, RequestError
from sightline.record.probe.processes import Root, find_own_number, is_running, read_environment

POLL_S = 5.0  # IpcFabricConfigClient asks so often
WARM_UP_S = 5.0  # Kineto's own (ACTIVITIES_WARMUP_PERIOD_SECS)
FILES_S = 300.0  # how long a trace is waited for, as of an inference server
# Kineto takes an order up to 1 s after it came, and drops it where its warm-up no longer fits in
# (GenericActivityProfiler, "insufficient time for warmup"); the rest is for a busy machine.
LATE_S = 3.0

_HEAD = struct.Struct("<Q32s")
_ASK = struct.Struct("<i")
_CREDENTIALS = struct.Struct("3i")
_CLIENT = "dynoconfigclient"  # the beginning of the name of a client's own socket
_DAEMON = "dynolog"
_ACTIVITIES = 2
_NAMESPACES = {"net": "net", "mnt": "mount"}  # as nsenter(1) calls them
_FREELY_COPIED = 1 << 20  # bytes: file systems may leave the end of a short file unwritten
QUIET_S = 1.5  # a trace that did not grow for so long is whole, if it ends as one


@dataclass(frozen=True)
class Client:
    """A process that asks for orders."""

    pid: int
    socket: str  # its own, which what it forks has as well, and does not serve
    own_number: int  # as it sees itself, in its container
    address: str  # of the socket at which it looks for a daemon
    folder: str  # where it may write, as it sees it
    owner: Owner  # with whose rights its socket's folder and its files are touched


def name_address(folder: str = "") -> str:
    """Where clients look for a daemon: at an abstract name, or in KINETO_IPC_SOCKET_DIR."""
    return f"{folder}/{_DAEMON}" if folder else f"\0{_DAEMON}\0"


def find_client(pid: int) -> Client | None:
    """The process as one that can be told to record; None where it does not ask for orders.

    Raises psutil.AccessDenied where its files may not be looked at.
    """
    try:
        process = psutil.Process(pid)
        sockets = [str(c.laddr) for c in process.net_connections(kind="unix")]
        owner = find_owner(pid)
    except (psutil.NoSuchProcess, FileNotFoundError, ProcessLookupError):
        return None
    for name in sockets:
        place, _, own = name.strip("@").rpartition("/")
        if own.startswith(_CLIENT):
            address = name_address(place)
            folder = read_environment(pid).get("KINETO_ONDEMAND_TRACE_DIR") or "/tmp"  # noqa: S108
            number = find_own_number(pid)
            return Client(pid, name, number, address, folder.rstrip("/"), owner)
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
    user: int  # likewise
    wants_activities: bool
    answer_to: str | bytes


class Door:
    """The daemon's socket, in a folder of `owner`. Raises RequestError where a daemon is there."""

    def __init__(self, address: str, owner: Owner) -> None:
        self._owner = owner
        self._folder: Descriptor | None = None  # where the socket's file is
        self._name = os.path.basename(address)  # noqa: PTH119  # an address, which may have no path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            if address.startswith("\0"):
                self._socket.bind(address)
            else:
                # Of another user, too: who asks, the kernel says. The file gets the rights that the
                # socket has before it is bound (unix(7)): none are changed by name afterwards.
                os.fchmod(self._socket.fileno(), 0o666)
                self._folder = act_as(owner, partial(self._bind_file, address))
        except OSError as error:
            self._socket.close()
            raise _explain(error, address) from error

    def _bind_file(self, address: str) -> Descriptor:
        """Make the socket's file; its folder. Clients see the address as it is bound."""
        folder = open_folder(str(Path(address).absolute().parent))
        before = os.umask(0)
        try:
            try:
                self._socket.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or not self._remove_stale(folder, address):
                    raise
                self._socket.bind(address)
        finally:
            os.umask(before)
        return folder

    def _remove_stale(self, folder: Descriptor, address: str) -> bool:
        """Remove the socket's file of a daemon that was killed; whether it was one's."""
        state = os.stat(self._name, dir_fd=folder.number, follow_symlinks=False)
        if not stat.S_ISSOCK(state.st_mode):
            return False
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as asked:
            try:
                asked.connect(address)
            except ConnectionRefusedError:  # a file that nobody is bound to (unix(7))
                os.unlink(self._name, dir_fd=folder.number)
                return True
            except OSError:
                pass
        return False

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
        senders = [
            _CREDENTIALS.unpack(said[: _CREDENTIALS.size])
            for level, what, said in control
            if (level, what) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
            and len(said) >= _CREDENTIALS.size
        ]
        if kind != b"req" or not senders:
            return None
        (wanted,) = _ASK.unpack_from(data, _HEAD.size)
        pid, user, _ = senders[0]
        return Request(pid, user, bool(wanted & _ACTIVITIES), sender)

    def answer(self, request: Request, orders: str = "") -> bool:
        """Send orders, or that there are none; whether it could be sent."""
        body = orders.encode()
        try:
            with _hold_sender(request) as address:
                self._socket.sendto(_HEAD.pack(len(body), b"req") + body, address)
        except OSError:
            return False  # it has ended meanwhile, or its address leads to somebody else
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
        folder = self._folder
        if folder is not None:
            with contextlib.suppress(OSError):
                act_as(self._owner, lambda: os.unlink(self._name, dir_fd=folder.number))


@contextlib.contextmanager
def _hold_sender(request: Request) -> Iterator[str | bytes]:
    """The address of who asks; of a file, one that leads to this socket of theirs and no other.

    What root sends is believed by services that anybody may send to. Raises OSError.
    """
    if not isinstance(request.answer_to, str):
        yield request.answer_to  # of no file
        return
    held = Descriptor(os.open(request.answer_to, os.O_PATH | os.O_CLOEXEC))
    state = os.fstat(held.number)
    if not stat.S_ISSOCK(state.st_mode) or state.st_uid != request.user:
        raise PermissionError(errno.EPERM, "it is another user's socket", request.answer_to)
    yield held.path


def _explain(error: OSError, address: str) -> RequestError:
    if error.errno == errno.EADDRINUSE:
        return RequestError(
            "another daemon tells PyTorch's profiler what to record",
            why="its socket, dynolog, is taken",
            hint="Let it record:  sightline capture   or, of dynolog,  dyno gputrace --pids P\n"
            "Beside it:  --door DIR, for programs with KINETO_IPC_SOCKET_DIR=DIR  (docs/fleet.md)",
        )
    return RequestError(
        "PyTorch's profiler cannot be reached",
        why=f"{address.strip(chr(0))}: {(error.strerror or str(error)).lower()}",
    )


@dataclass(frozen=True)
class Order:
    """What is to be recorded; `wanted`: of shapes, memory, stacks.

    Of so many `steps`, where they are more than 0, and no time: from the next iteration on whose
    number `align` divides, so that ranks that hear of it one after another begin with the same one.
    """

    name: str  # of the trace, without its ending and the process's number
    seconds: float
    warm_up_s: float = WARM_UP_S
    wanted: Sequence[str] = ()
    steps: int = 0
    align: int = 1

    def write(self, client: Client, start_ms: int) -> str:
        """The lines that make a client record from a moment on, in ms of the epoch."""
        length = {
            "PROFILE_START_TIME": start_ms,
            "ACTIVITIES_WARMUP_PERIOD_SECS": round(self.warm_up_s),
            "ACTIVITIES_DURATION_MSECS": round(1000 * self.seconds),
        }
        steps = {
            "PROFILE_START_ITERATION": 0,
            "PROFILE_START_ITERATION_ROUNDUP": self.align,
            "ACTIVITIES_ITERATIONS": self.steps,
        }
        lines = {
            "ACTIVITIES_LOG_FILE": f"{client.folder}/{self.name}.json",
            **(steps if self.steps else length),
            "PROFILE_REPORT_INPUT_SHAPES": str("shapes" in self.wanted).lower(),
            "PROFILE_PROFILE_MEMORY": str("memory" in self.wanted).lower(),
            "PROFILE_WITH_STACK": str("stacks" in self.wanted).lower(),
        }
        return "".join(f"{key}={value}\n" for key, value in lines.items())


def tell_clients(
    clients: Sequence[Client], order: Order, *, most_s: float = 2 * POLL_S + LATE_S
) -> tuple[list[Client], int]:
    """Give each the order as it asks: those that took it, and when they begin, in ms of the epoch.

    Several begin at the same moment, as late as the last of them needs. Ends after `most_s` at the
    latest. Raises RequestError where there is another daemon.
    """
    missing = {client.pid: client for client in clients}
    told: list[Client] = []
    lead_s = order.warm_up_s + LATE_S
    start_ms = round(1000 * (time.time() + POLL_S + lead_s)) if len(clients) > 1 else 0
    with contextlib.ExitStack() as stack:
        owners = {client.address: client.owner for client in clients}
        doors = [stack.enter_context(Door(*place)) for place in sorted(owners.items())]
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
    client: Client,
    root: Root,
    name: str,
    target: Path,
    *,
    most_s: float = FILES_S,
    period_s: float = 0.1,
) -> None:
    """Wait for the trace of a client, and move it to `target`. Raises InputError.

    It is looked for every `period_s`. `root` is the client's, opened before: the trace is there,
    too, when the process has ended.
    """
    # Kineto puts the process's number into the name.
    name = f"{name}_{client.own_number}.json"
    wait = partial(_wait_for_trace, client, root, name, most_s, period_s)
    folder = act_as(client.owner, wait)
    part = target.with_name(f".{target.name}.part")
    try:
        trace = act_as(client.owner, lambda: open_file(name, folder, {client.owner.user}))
        _check_length(os.fstat(trace.number), target.parent)
        with open(trace.path, "rb") as source, part.open("wb") as copy:  # noqa: PTH123  # held
            shutil.copyfileobj(source, copy, 1 << 20)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            act_as(client.owner, lambda: os.unlink(name, dir_fd=folder.number))


def _check_length(trace: os.stat_result, folder: Path) -> None:
    """Raises InputError where a trace has more holes than bytes, or does not fit into the folder.

    A file of any length takes no room where it is: copied, it would fill the disk.
    """
    stored = trace.st_blocks * 512  # stat(2)
    if trace.st_size > _FREELY_COPIED and stored < trace.st_size // 2:
        why = f"only {format_bytes(trace.st_size)} of its {format_bytes(stored)} were written"
        raise InputError("the trace is not a profiler's", why=why)
    if trace.st_size > shutil.disk_usage(folder).free:
        raise InputError("the disk has no room for the trace", why=format_bytes(trace.st_size))


def _wait_for_trace(
    client: Client, root: Root, name: str, most_s: float, period_s: float
) -> Descriptor:
    """The folder in which the trace is whole; called with the client's rights."""
    limit, seen, quiet = time.monotonic() + most_s, -1, time.monotonic()
    while True:
        runs = is_running(client.pid)  # asked first: what it wrote last is there then
        folder, size, is_whole = _look_for_trace(client, root, name)
        if size != seen:
            seen, quiet = size, time.monotonic()
        if folder is not None and is_whole:
            # Kineto renames a trace when it is whole; older versions wrote under its name.
            if not runs or time.monotonic() - quiet >= QUIET_S:
                return folder
        elif not runs or time.monotonic() > limit:
            how = "ended before it wrote its trace" if not runs else "wrote no trace"
            raise InputError(
                f"process {client.pid} {how}", why=f"there is no whole {client.folder}/{name}"
            )
        time.sleep(period_s)


def _look_for_trace(client: Client, root: Root, name: str) -> tuple[Descriptor | None, int, bool]:
    """Its folder, its size in bytes (-1: there is none of theirs), and whether it is whole."""
    folder = None
    with contextlib.suppress(OSError):
        folder = open_folder(client.folder, root)
        trace = open_file(name, folder, {client.owner.user})
        size = os.fstat(trace.number).st_size
        end = os.pread(trace.number, 64, max(size - 64, 0))
        return folder, size, end.rstrip().endswith(b"}")
    return folder, -1, False
