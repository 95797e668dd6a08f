"""Each trigger fires once on its planted cause, and never in a healthy hour of the test's clock."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sightline.capture import triggers as triggers_module
from sightline.capture.node import Node
from sightline.capture.shelf import Shelf
from sightline.capture.triggers import Dumps, Triggers, Window, ask_ras
from sightline.errors import RequestError

HOUR = 3600


class FakeNode(Node):
    """Begins captures that nobody makes."""

    def __init__(self, folder: Path) -> None:
        self.shelf = Shelf(folder, 1 << 20, 3, least_free=0)
        self.begun: list[str] = []
        self.refuses = False
        self.makes: Any = None

    @property
    def running(self) -> Any:
        """The window of a continuous profile, say."""
        return self.makes

    def begin(self, request: Any, user: int, may: Any, why: str = "asked") -> Any:
        if self.refuses:
            raise RequestError("no process listens")
        if self.makes is not None:
            raise RequestError("a capture is in progress")
        self.begun.append(why)
        return SimpleNamespace(listeners=[], folder=self.shelf.make(request.id), request=request)


@pytest.fixture
def node(tmp_path: Path) -> FakeNode:
    return FakeNode(tmp_path / "kept")


def test_one_cause_sets_off_several_and_is_captured_once(node: FakeNode) -> None:
    said: list[str] = []
    now = 0.0
    triggers = Triggers(node, ["policy", "webhook"], Window(), said.append, now=lambda: now)
    assert triggers.fire("policy")
    assert triggers.fire("webhook")  # a second later, by the same cause
    now = 599.0
    assert triggers.fire("policy")
    assert node.begun == ["policy"]
    now = 601.0
    assert triggers.fire("policy")
    assert node.begun == ["policy", "policy"]


def test_what_is_not_armed_does_nothing(node: FakeNode) -> None:
    triggers = Triggers(node, ["signal"], Window(), lambda text: None)
    assert not triggers.fire("webhook")
    assert node.begun == []


def test_where_nobody_listens_it_stays_armed(node: FakeNode) -> None:
    said: list[str] = []
    triggers = Triggers(node, ["signal"], Window(), said.append)
    node.refuses = True
    assert triggers.fire("signal")
    node.refuses = False
    assert triggers.fire("signal")
    assert node.begun == ["signal"]
    assert said == [
        "signal was fired: no process listens",
        "signal was fired: 0 processes are recorded",
    ]


def test_a_trigger_waits_for_the_window_that_is_being_recorded(node: FakeNode) -> None:
    """It is not lost, and what else its cause sets off meanwhile is captured with it, once."""
    said: list[str] = []
    triggers = Triggers(node, ["signal", "policy"], Window(), said.append)
    node.makes = SimpleNamespace(done=threading.Event())
    assert triggers.fire("signal")
    assert triggers.fire("policy")
    assert node.begun == []
    window, node.makes = node.makes, None
    window.done.set()
    while not node.begun:
        threading.Event().wait(0.01)
    while len(said) < 2:
        threading.Event().wait(0.01)
    assert node.begun == ["signal"]
    assert said == [
        "signal fired, and waits for the capture in progress",
        "signal was fired: 0 processes are recorded",
    ]


def test_a_trigger_does_not_wait_for_ever(node: FakeNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triggers_module, "WAIT_S", 0.05)
    said: list[str] = []
    triggers = Triggers(node, ["signal"], Window(), said.append)
    node.makes = SimpleNamespace(done=threading.Event())
    assert triggers.fire("signal")
    while len(said) < 2:
        threading.Event().wait(0.01)
    assert said[1] == "signal was fired: a capture is in progress"
    node.makes = None
    assert triggers.fire("signal")  # it is armed again
    assert node.begun == ["signal"]


def test_the_last_ones_are_kept(node: FakeNode) -> None:
    now = 0.0
    triggers = Triggers(node, ["signal"], Window(), lambda text: None, now=lambda: now)
    for _ in range(6):
        now += 700
        triggers.fire("signal")
    assert len(node.begun) == 6
    assert len(node.shelf.list_folders()) == 3


def test_a_dump_of_the_flight_recorder(tmp_path: Path) -> None:
    """What lay there before is no news; one that is written again is."""
    old = tmp_path / "nccl_trace_rank_0"
    old.write_bytes(b"x")
    dumps = Dumps(str(tmp_path / "nccl_trace_rank_"))
    assert [dumps.look() for _ in range(HOUR // 5)] == [[]] * (HOUR // 5)
    new = tmp_path / "nccl_trace_rank_3"
    new.write_bytes(b"xy")
    (tmp_path / "other").write_bytes(b"x")
    (tmp_path / "nccl_trace_rank_4").symlink_to(old)
    (tmp_path / "nccl_trace_rank_5").write_bytes(b"")  # not written yet
    assert dumps.look() == [new]
    assert dumps.look() == []
    old.write_bytes(b"xyz")
    assert dumps.look() == [old]


def test_dumps_go_with_the_capture(node: FakeNode, tmp_path: Path) -> None:
    dump = tmp_path / "nccl_trace_rank_3"
    dump.write_bytes(b"xy")
    triggers = Triggers(node, ["flight-dump"], Window(), lambda text: None)
    triggers.fire("flight-dump", [dump])
    (kept,) = node.shelf.list_folders()
    copy = kept / "run.sightline" / dump.name
    for _ in range(500):
        if copy.exists() and copy.stat().st_size:
            break
        threading.Event().wait(0.01)
    assert copy.read_bytes() == b"xy"


@pytest.mark.timing
def test_who_is_missing_says_nccl() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            asked, _ = server.accept()
            with asked:
                assert asked.recv(100) == b"VERBOSE STATUS\n"
                asked.sendall(b"NCCL version 2.27.3 ...")

        thread = threading.Thread(target=answer)
        thread.start()
        assert ask_ras(server.getsockname()) == b"NCCL version 2.27.3 ..."
        thread.join()
        free = server.getsockname()
    assert ask_ras(free) == b""
