"""A node's daemon inside the test, at a folder of sockets of its own, and programs that ask it."""

from __future__ import annotations

import gzip
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from sightline.capture.api import Api, Rules
from sightline.capture.client import Address, Client
from sightline.capture.keeper import Keeper
from sightline.capture.node import Node
from sightline.capture.server import UnixServer
from sightline.capture.shelf import Shelf
from support.asking import Program, place_sockets
from support.many_ranks import Program as Job
from support.many_ranks import write_ranks

GIGABYTE = 1 << 30


class OwnNode:
    """One of them. What it says is in `said`."""

    def __init__(self, sockets: Path, folder: Path, stack: ExitStack, **options: Any) -> None:
        self.sockets, self.folder, self.said = sockets, folder, list[str]()
        self.programs: list[Program] = []
        self._stack = stack
        self.keeper = Keeper([str(sockets)])
        stack.callback(self.keeper.close)
        self.shelf = Shelf(folder / "kept", GIGABYTE, options.pop("most", 5), least_free=0)
        name, relay = options.pop("name", "node"), options.pop("relay", None)
        self.node = Node(self.keeper, self.shelf, self.said.append, **options)
        stack.callback(self.node.close)
        self.api = Api(self.node, name, Rules(), relay=relay)
        self.server = UnixServer(sockets / "daemon.sock", self.api, for_all=False)
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        stack.callback(self.server.server_close)
        stack.callback(self.server.shutdown)
        stack.callback(self._end_programs)

    def start(self, **told: Any) -> Program:
        """A program that asks this node for orders, which it has heard once."""
        traces = self.folder / "traces"
        traces.mkdir(exist_ok=True)
        self.programs.append(Program(self.sockets, traces, **told))
        return self.programs[-1]

    def wait_for(self, count: int) -> None:
        """Until so many programs have asked."""
        while len(self.keeper.list_listeners()) < count:
            threading.Event().wait(0.01)

    def ask(self) -> Client:
        """Who asks this node."""
        asked = Client(Address("node", self.sockets / "daemon.sock"), 10)
        self._stack.callback(asked.close)
        return asked

    @property
    def left(self) -> list[str]:
        """What lies where programs write."""
        return sorted(p.name for p in (self.folder / "traces").iterdir())

    def _end_programs(self) -> None:
        for program in self.programs:
            with suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
            program.process.wait()
            assert program.process.stdout is not None
            program.process.stdout.close()


@contextmanager
def run_node(folder: Path, **options: Any) -> Iterator[OwnNode]:
    """A daemon, until the block ends; nothing of it is left then."""
    folder.mkdir(exist_ok=True)
    with place_sockets() as sockets, ExitStack() as stack:
        yield OwnNode(sockets, folder, stack, **options)


def write_plain(job: Job, folder: Path) -> list[str]:
    """The traces of a job, unpacked: what its programs will write."""
    folder.mkdir()
    made = []
    for path in write_ranks(job, folder):
        plain = folder / path.name.removesuffix(".gz")
        plain.write_bytes(gzip.decompress(path.read_bytes()))
        made.append(str(plain))
    return made
