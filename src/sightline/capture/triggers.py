"""What makes a capture while nobody looks: something happened, and the moments after are recorded.

A trigger that is armed fires once: then it rests, and with it all others, as one cause mostly sets
off several. One that fires while a capture is in progress (a window of the continuous profile, say)
waits for its end. What happened before cannot be recorded any more; a cause that lasts can.

    signal       the daemon got SIGUSR1
    webhook      somebody who may posted to it (Alertmanager, `sightline watch --webhook`)
    policy       the same, by  sightline watch --policy FILE --run 'sightline capture --fire policy'
    slow-step    a program that listens from within (`sightline.listen()`) became slower
    flight-dump  PyTorch's flight recorder wrote a dump: a collective timed out
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sightline.capture.listeners import has_gpu
from sightline.capture.node import Capture, Node
from sightline.capture.request import CaptureRequest
from sightline.capture.shelf import RUN
from sightline.core.units import format_note
from sightline.errors import InputError, RequestError
from sightline.record.collect.kineto_door import LATE_S, POLL_S, WARM_UP_S

NAMES = ("signal", "webhook", "policy", "slow-step", "flight-dump")
WAIT_S = 600.0  # for the end of a capture: its traces are waited for, and reduced (node, apart)
REST_S = 600.0  # ours: a person looks at the first one meanwhile
# NCCL's RAS (docs.nvidia.com, NCCL, "RAS"): a service of each process, which answers for all.
_RAS, _RAS_S, _RAS_BYTES = ("127.0.0.1", 28028), 5.0, 4 << 20
_MOST_DUMP = 256 << 20


@dataclass(frozen=True)
class Window:
    """What is recorded when nobody says how long."""

    seconds: float = 2.0
    wanted: tuple[str, ...] = ("shapes",)
    job: str | None = None


def make_request(window: Window, now_s: float) -> CaptureRequest:
    """A capture of this node, as soon as all that listen can have heard of it."""
    warm_up_s = WARM_UP_S if has_gpu() else 0.0
    start_ms = round(1000 * (now_s + POLL_S + warm_up_s + LATE_S))
    return CaptureRequest(
        os.urandom(8).hex(), start_ms, window.seconds, warm_up_s, window.job, wanted=window.wanted
    )


class Triggers:
    """Those that are armed. `fire` may be called from any thread."""

    def __init__(
        self,
        node: Node,
        armed: Iterable[str],
        window: Window,
        say: Callable[[str], None],
        *,
        rest_s: float = REST_S,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._window, self._say = node, window, say
        self._armed, self._rest_s, self._now = frozenset(armed), rest_s, now
        self._lock = threading.Lock()
        self._fired: float | None = None
        self._waits = False

    def fire(self, name: str, beside: Iterable[Path] = ()) -> bool:
        """Begin a capture, unless one was fired a moment ago; whether this trigger is armed.

        `beside`: files that go with it.
        """
        if name not in self._armed:
            return False
        files = list(beside)
        with self._lock:
            now = self._now()
            if self._waits or (self._fired is not None and now - self._fired < self._rest_s):
                return True
            made = self._node.running
            if made is None:
                self._begin(name, files)
                return True
            self._waits = True
        self._say(f"{name} fired, and waits for the capture in progress")
        threading.Thread(target=self._wait, args=(made, name, files), daemon=True).start()
        return True

    def _wait(self, made: Capture, name: str, files: list[Path]) -> None:
        made.done.wait(WAIT_S)
        with self._lock:
            self._waits = False
            self._begin(name, files)

    def _begin(self, name: str, files: list[Path]) -> None:
        request = make_request(self._window, time.time())
        try:
            capture = self._node.begin(request, os.geteuid(), lambda _: True, why=name)
        except (RequestError, InputError) as error:
            self._say(f"{name} was fired: {error.what}")
            return
        self._fired = self._now()
        self._say(
            f"{name} was fired: " + format_note(len(capture.listeners), "processes are recorded")
        )
        threading.Thread(target=keep_evidence, args=(capture, files), daemon=True).start()


def keep_evidence(capture: Capture, files: Iterable[Path]) -> None:
    """What else tells of that moment, beside the traces: dumps, and who NCCL says is missing."""
    folder = capture.folder / RUN
    with contextlib.suppress(OSError):
        for file in files:
            if file.stat().st_size <= _MOST_DUMP:
                shutil.copyfile(file, folder / file.name)
        answer = ask_ras()
        if answer:
            (folder / "ncclras.txt").write_bytes(answer)


def ask_ras(address: tuple[str, int] = _RAS) -> bytes:
    """What NCCL's RAS service says of the job; nothing where none listens. Raises OSError."""
    try:
        with socket.create_connection(address, _RAS_S) as asked:
            asked.sendall(b"VERBOSE STATUS\n")
            answer = b""
            while len(answer) < _RAS_BYTES and (piece := asked.recv(1 << 16)):
                answer += piece
            return answer
    except ConnectionRefusedError:
        return b""


# -- a dump of the flight recorder ---------------------------------------------------------------


class Dumps:
    """New files whose names begin as PyTorch's flight recorder is told to call them.

    TORCH_FR_DUMP_TEMP_FILE, before it TORCH_NCCL_DEBUG_INFO_TEMP_FILE; by default
    /tmp/nccl_trace_rank_ (torch/csrc/distributed/c10d/FlightRecorder.cpp). They are written when a
    collective timed out.
    """

    def __init__(self, prefix: str) -> None:
        self._place = Path(prefix)
        self._seen = self._list()

    def look(self) -> list[Path]:
        """Those that were written since the last look."""
        found = self._list()
        new = [path for path in sorted(found) if self._seen.get(path) != found[path]]
        self._seen = found
        return new

    def _list(self) -> dict[Path, tuple[int, int]]:
        found = {}
        for path in self._place.parent.glob(f"{self._place.name}*"):
            with contextlib.suppress(OSError):
                state = path.lstat()
                if path.is_file() and not path.is_symlink() and state.st_size:
                    found[path] = state.st_mtime_ns, state.st_size
        return found
