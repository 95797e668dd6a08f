"""`sightline.listen()`: a program asks the node's daemon for orders, without Kineto's variable.

Where PyTorch is imported later, its own profiler is told to ask, and this only waits for that.
Where it was imported before, it asks here, and torch.profiler records. A program without PyTorch
asks here, too, and the stacks of its threads are sampled; so they are for two seconds when it gets
SIGUSR2, unless the program has a use of its own for that.

What is asked and answered is what kineto_door describes. Orders are taken from the program's own
user and from root, as the kernel names who sends them, and a trace is only ever a new file in the
folder that the program itself was told to write to.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

from sightline.record.inline import stack_trace
from sightline.record.inline.daemon_socket import fire_trigger
from sightline.record.inline.slow_steps import SlowSteps
from sightline.record.inline.unloaded import without_inductor

_POLL_S = 5.0  # as Kineto
_HEAD = struct.Struct("<Q32s")
_CREDENTIALS = struct.Struct("3i")
_BOTH = 3  # events, activities
_MOST_S = 60.0
_SIGNAL_S = 2.0
_lock = threading.Lock()
_listener: Listener | None = None


class Listener:
    """The thread that asks, and what it is told."""

    def __init__(self, poll_s: float = _POLL_S) -> None:
        self._had_torch = "torch" in sys.modules
        if not self._had_torch:
            os.environ.setdefault("KINETO_USE_DAEMON", "1")
        self._poll_s = poll_s
        self._ends = threading.Event()
        self._busy = threading.Lock()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="sightline-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ask no more."""
        self._ends.set()
        self._thread.join()

    def record(self, seconds: float, path: str, wanted: Mapping[str, bool]) -> None:
        """Record this process into a new file; one recording at a time. Raises OSError."""
        if not self._busy.acquire(blocking=False):
            return
        try:
            if self._had_torch:
                _record_torch(seconds, path, wanted, self._pause)
            else:
                stack_trace.record_stacks(seconds, path, _write_new, self._pause)
        finally:
            self._busy.release()

    def _pause(self, seconds: float) -> None:
        self._ends.wait(seconds)

    def _run(self) -> None:
        folder = os.environ.get("KINETO_IPC_SOCKET_DIR", "").rstrip("/")
        name = f"dynoconfigclient{os.urandom(16).hex()}"
        own = f"{folder}/{name}" if folder else f"\0{name}"
        try:
            with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as asks:
                asks.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
                asks.bind(own)
                try:
                    while not self._is_over():
                        self._ask(asks, f"{folder}/dynolog" if folder else "\0dynolog\0")
                finally:
                    if folder:
                        os.unlink(own)  # noqa: PTH108  # pathlib costs 10 ms
        except OSError:
            return  # there is no folder for sockets, or the system refuses them: nobody can ask

    def _is_over(self) -> bool:
        """PyTorch, which was imported since, asks by itself."""
        return self._ends.is_set() or ("torch" in sys.modules and not self._had_torch)

    def _ask(self, asks: socket.socket, door: str) -> None:
        body = struct.pack("<iiqi", _BOTH, 1, 0, os.getpid())
        orders = b""
        asks.settimeout(min(self._poll_s, 1.0))
        with contextlib.suppress(OSError):  # no daemon listens, or it says nothing
            asks.sendto(_HEAD.pack(len(body), b"req") + body, door)
            orders = _receive(asks)
        if orders:
            self._obey(orders)
        self._ends.wait(self._poll_s)

    def _obey(self, orders: bytes) -> None:
        """Record what is asked for, at the time at which it is."""
        lines = orders.decode("utf-8", "replace").splitlines()
        told = dict(line.split("=", 1) for line in lines if "=" in line)
        try:
            path = name_trace(told["ACTIVITIES_LOG_FILE"])
            seconds = int(told["ACTIVITIES_DURATION_MSECS"]) / 1000
            wait_s = max(int(told["PROFILE_START_TIME"]) / 1000 - time.time(), 0.0)
        except (KeyError, ValueError):
            return
        if path is None or not 0 < seconds <= _MOST_S or wait_s > 10 * _MOST_S:
            return
        self._ends.wait(wait_s)
        wanted = {
            name: told.get(key) == "true"
            for name, key in (
                ("record_shapes", "PROFILE_REPORT_INPUT_SHAPES"),
                ("profile_memory", "PROFILE_PROFILE_MEMORY"),
                ("with_stack", "PROFILE_WITH_STACK"),
            )
        }
        with contextlib.suppress(OSError, RuntimeError):  # the program goes on
            self.record(seconds, path, wanted)


def listen(*, watch_steps: bool = False, poll_s: float = _POLL_S) -> None:
    """Let the node's daemon record this program (docs/fleet.md); once is enough.

    With `watch_steps` the daemon's trigger slow-step is fired where the steps of the first torch
    optimizer become slower than they use to be. Best called before PyTorch is imported.
    """
    global _listener
    with _lock:
        if _listener is not None:
            return
        _listener = Listener(poll_s)
        if threading.current_thread() is threading.main_thread():
            _heed_signal(_listener)
        if watch_steps:
            _watch_optimizer()


def name_trace(asked: str) -> str | None:
    """Where Kineto would write a trace of this process; None outside the program's own folder."""
    folder = (os.environ.get("KINETO_ONDEMAND_TRACE_DIR") or "/tmp").rstrip("/")  # noqa: S108
    place, _, name = asked.rpartition("/")
    stem, dot, ending = name.rpartition(".")
    if place != folder or not dot or not stem or ending != "json":
        return None
    return f"{folder}/{stem}_{os.getpid()}.json"


def _receive(asks: socket.socket) -> bytes:
    """The orders in an answer of the own user's or root's daemon."""
    data, control, *_ = asks.recvmsg(1 << 16, socket.CMSG_SPACE(_CREDENTIALS.size))
    users = [
        _CREDENTIALS.unpack(said[: _CREDENTIALS.size])[1]
        for level, what, said in control
        if (level, what) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS)
    ]
    if not users or users[0] not in (0, os.geteuid()) or len(data) < _HEAD.size:
        return b""
    size, kind = _HEAD.unpack_from(data)
    body = data[_HEAD.size :]
    return body if kind.rstrip(b"\0") == b"req" and size == len(body) else b""


def _write_new(path: str, text: str) -> None:
    """A file that was not there; it appears whole under its name."""
    part = f"{path}.part"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(part, flags, 0o600), "w") as file:
        file.write(text)
    os.rename(part, path)  # noqa: PTH104  # pathlib costs 10 ms


def _record_torch(seconds: float, path: str, wanted: Mapping[str, bool], pause: Any) -> None:
    import torch
    from torch.profiler import profile

    options: dict[str, Any] = dict(wanted)
    # Only so the other threads' operators are recorded; torch has it from 2.4 on.
    with contextlib.suppress(AttributeError, TypeError):
        options["experimental_config"] = torch._C._profiler._ExperimentalConfig(
            profile_all_threads=True
        )
    recorded = profile(**options)
    with without_inductor(torch):
        recorded.start()
    try:
        pause(seconds)
    finally:
        recorded.stop()
    part = f"{path}.part.json"
    recorded.export_chrome_trace(part)
    os.rename(part, path)  # noqa: PTH104  # pathlib costs 10 ms


def _heed_signal(listener: Listener) -> None:
    """SIGUSR2 records, where the program has no use of its own for it."""
    if signal.getsignal(signal.SIGUSR2) is not signal.SIG_DFL:
        return

    def begin(*_: object) -> None:
        path = os.path.abspath(f"capture-{os.getpid()}-{time.time_ns()}.json")  # noqa: PTH100
        threading.Thread(
            target=listener.record, args=(_SIGNAL_S, path, {"record_shapes": True}), daemon=True
        ).start()

    signal.signal(signal.SIGUSR2, begin)


def _watch_optimizer() -> None:
    """Time the first optimizer's steps, where PyTorch is there to be asked."""
    torch: Any = sys.modules.get("torch")
    if torch is None:
        return
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps, first, last = SlowSteps(), [0], [0]

    def note(optimizer: object, *_: object) -> None:
        first[0] = first[0] or id(optimizer)
        if id(optimizer) != first[0]:
            return
        now = time.perf_counter_ns()
        if last[0] and steps.add(now - last[0]):
            threading.Thread(target=fire_trigger, args=("slow-step",), daemon=True).start()
        last[0] = now

    register_optimizer_step_post_hook(note)
