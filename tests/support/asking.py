"""A program that asks for orders as Kineto does, written from the description of its messages.

Its own process, since the kernel says who asks. What it does when it is told to record is said by
its second argument; the orders that it got are its output, a line of JSON.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAM = """\
import json, os, socket, struct, sys, time, uuid
folder, told = sys.argv[1], json.loads(sys.argv[2])
own = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
own.bind(f"{folder}/dynoconfigclient{uuid.uuid4()}")
own.settimeout(1.0)
print("ready", flush=True)
if told.get("forks") and os.fork() == 0:
    time.sleep(60)
    os._exit(0)
busy = told.get("busy", 0)
while True:
    # Kind, number of processes, job, and the processes; 3: for events and for activities.
    body = struct.pack("<iiq2i", 1 if busy > 0 else 3, 2, 0, os.getpid(), os.getppid())
    noise = told.get("noise", [])
    try:
        for text in noise:
            own.sendto(bytes.fromhex(text), f"{folder}/dynolog")
        own.sendto(struct.pack("<Q32s", len(body), b"req") + body, f"{folder}/dynolog")
        answer = own.recv(1 << 16)
    except OSError:
        time.sleep(0.02)
        continue
    size, kind = struct.unpack_from("<Q32s", answer)
    assert kind.rstrip(b"\\0") == b"req" and size == len(answer) - 40, answer
    busy -= 1
    if size:
        break
    time.sleep(0.02)
orders = dict(line.split("=", 1) for line in answer[40:].decode().splitlines())
print(json.dumps({**orders, "asked": -busy}), flush=True)
if told.get("dies"):
    os._exit(0)
time.sleep(max(0, int(orders["PROFILE_START_TIME"]) / 1000 - time.time()))
path = orders["ACTIVITIES_LOG_FILE"][:-5] + f"_{os.getpid()}.json"
trace = {"schemaVersion": 1, "host_name": "node17", "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": os.getpid(), "tid": 1, "ts": 5,
     "dur": 7, "args": {"External id": 1}}]}
text = open(told["trace"]).read() if told.get("trace") else json.dumps(trace)
if told.get("hangs"):
    time.sleep(60)
time.sleep(told.get("busy_s", 0))
if told.get("slow_s"):  # as Kineto writes: under another name until it is whole
    with open(path + ".tmp", "w") as file:
        file.write(text[:20])
    time.sleep(told["slow_s"])
    try:
        os.rename(path + ".tmp", path)
    except FileNotFoundError:
        print("gone", flush=True)
    time.sleep(60)
if told.get("link"):
    with open(path + ".other", "w") as file:
        file.write(text)
    os.symlink(path + ".other", path)
else:
    with open(path, "w") as file:
        file.write(text[:20])
        file.flush()
        time.sleep(0.3)
        file.write(text[20:])
if told.get("ends"):
    os._exit(0)
time.sleep(60)
"""


class Program:
    """One of them, at its socket's folder."""

    def __init__(self, folder: Path, traces: Path, *, user: int | None = None, **told: Any) -> None:
        """`user`: run it as this user, in whose groups it is alone."""
        python = sys.executable if user is None else find_shared_python()
        who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.process = subprocess.Popen(
            [python, "-c", PROGRAM, str(folder), json.dumps(told)],
            **who,
            stdout=subprocess.PIPE,
            env={
                "KINETO_ONDEMAND_TRACE_DIR": str(traces),
                "RANK": str(told.get("rank", "")),
                **told.get("env", {}),
            },
            text=True,
            start_new_session=True,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.pid = self.process.pid

    def read_orders(self) -> dict[str, Any]:
        """What it was told."""
        assert self.process.stdout is not None
        orders: dict[str, Any] = json.loads(self.process.stdout.readline())
        return orders


def find_shared_python() -> str:
    """A Python that every user may start."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    if found is None:
        pytest.skip("there is no Python that every user may start")
    return found


@contextmanager
def place_sockets() -> Iterator[Path]:
    """A folder for sockets, whose names may have 107 letters in all."""
    with tempfile.TemporaryDirectory(prefix="k") as folder:
        yield Path(folder)
