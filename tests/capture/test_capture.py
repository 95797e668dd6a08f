"""From a capture that is asked for to who is slow: real processes, which ask as Kineto does."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import sightline as sl
from sightline.capture import late
from sightline.capture import node as nodes
from sightline.capture.apart import Apart
from sightline.capture.controller import Wanted, capture, look_around
from sightline.capture.keeper import Keeper
from sightline.capture.node import Node
from sightline.capture.request import CaptureRequest
from sightline.capture.server import UnixServer
from sightline.core.units import format_ns
from sightline.errors import InputError, RequestError
from sightline.fleet.answer import judge_ranks
from sightline.fleet.read import reduce_recordings
from support.many_ranks import HOST, Cause, Program
from support.nodes import OwnNode, run_node, write_plain

pytestmark = [pytest.mark.timing, pytest.mark.usefixtures("quick")]
SHORT = Wanted(seconds=0.1, warm_up_s=0.0)


def keep_raw(folder: Path, facts: dict[str, Any]) -> str | None:
    """What stands for the reduction where traces say nothing."""
    return None


def record(node: OwnNode, folder: Path, wanted: Wanted = SHORT) -> Any:
    folder.mkdir(exist_ok=True)
    return capture(look_around([node.ask()]), wanted, folder, node.said.append)


def request(**changes: Any) -> CaptureRequest:
    start_ms = round(1000 * (time.time() + 0.5))
    return CaptureRequest(**{"id": "0" * 16, "start_ms": start_ms, "seconds": 0.1,
                             "warm_up_s": 0.0, **changes})  # fmt: skip


def test_two_nodes_name_the_late_rank(tmp_path: Path) -> None:
    """Ranks 0 to 3 of a job; 2 is late by 0.5 ms a step, as was planted."""
    job = Program(4, steps=6, causes=(Cause(HOST, 2, 500_000),))
    traces = write_plain(job, tmp_path / "job")
    out = tmp_path / "out"
    out.mkdir()
    with run_node(tmp_path / "a", name="a") as one, run_node(tmp_path / "b", name="b") as two:
        for rank, trace in enumerate(traces):
            env = {"WORLD_SIZE": "4", "SLURM_JOB_ID": "4711"}
            (one if rank < 2 else two).start(rank=rank, trace=trace, env=env)
        one.wait_for(2)
        two.wait_for(2)
        found = look_around([one.ask(), two.ask()])
        assert [len(node.listeners) for node in found] == [2, 2]
        wanted = Wanted(job="4711", seconds=0.1, warm_up_s=0.0)
        outcome = capture(found, wanted, out, one.said.append)
        starts = {p.read_orders()["PROFILE_START_TIME"] for p in [*one.programs, *two.programs]}
        assert outcome.problems == []
        assert (one.left, two.left) == ([], [])
        for node in (one, two):  # for which nobody waits
            (kept,) = node.shelf.list_folders()
            while not (kept / "fingerprint").exists():
                time.sleep(0.05)
    # On one machine their clocks are one; nodes are told the same ms, or the next one.
    assert max(map(int, starts)) - min(map(int, starts)) <= 1
    assert outcome.uncertainty_ns < 50_000_000, format_ns(outcome.uncertainty_ns)
    worst = outcome.answer.verdict.stragglers.row(0, named=True)
    assert (worst["ranks"], worst["cause"]) == ([2], "host late")
    # The folder says the same, and its traces open: the worst rank's is one of them.
    again = judge_ranks(reduce_recordings([str(out)]))
    assert again.verdict.stragglers.row(0, named=True)["ranks"] == [2]
    assert any(path.name.startswith("rank2-") for path in outcome.files)
    assert sl.open(str(out)).rows("device_ops") > 0


def test_who_listens(tmp_path: Path) -> None:
    with run_node(tmp_path) as node:
        env = {"SLURM_JOB_ID": "7", "CUDA_VISIBLE_DEVICES": "2,3", "LOCAL_RANK": "1"}
        program = node.start(rank=5, env={**env, "WORLD_SIZE": "8"})
        node.wait_for(1)
        (listener,) = node.ask().ask_data("GET", "/v1/node")["listeners"]
    assert (listener["pid"], listener["rank"], listener["job"]) == (program.pid, 5, "7")
    assert (listener["gpu"], listener["world_size"]) == ("3", 8)


def test_some_processes(tmp_path: Path) -> None:
    with run_node(tmp_path / "n", reduce=keep_raw) as node:
        chosen, other = node.start(rank=0), node.start(rank=1)
        node.wait_for(2)
        told = Wanted(seconds=0.1, warm_up_s=0.0, pids=(chosen.pid,), traces="all")
        outcome = record(node, tmp_path / "out", told)
        assert [one["pid"] for one in outcome.nodes[0].state["expected"]] == [chosen.pid]
        assert other.process.poll() is None
        with pytest.raises(RequestError, match="none of these processes listens"):
            record(node, tmp_path / "out", Wanted(seconds=0.1, warm_up_s=0.0, pids=(1,)))


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"dies": True}, "ended before it wrote its trace"),
        ({"hangs": True}, "wrote no trace"),
        ({"link": True}, "wrote no trace"),
    ],
)
def test_one_that_fails_beside_one_that_does_not(
    tmp_path: Path, told: dict[str, Any], problem: str
) -> None:
    with run_node(tmp_path / "n", reduce=keep_raw, trace_s=0.5) as node:
        node.start(rank=0)
        node.start(rank=1, **told)
        node.wait_for(2)
        outcome = record(node, tmp_path / "out", Wanted(seconds=0.1, warm_up_s=0.0, traces="all"))
    (text,) = outcome.problems
    assert "rank 1" in text
    assert problem in text
    assert [path.name.split("-")[0] for path in outcome.files] == ["rank0"]


@pytest.mark.parametrize("told", [{"slow_s": 1.5}, {"busy_s": 1.5, "slow_s": 0.1}])
def test_a_trace_that_comes_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: dict[str, Any]
) -> None:
    """Nobody waits for it any more: it is removed when it comes, or before it is whole."""
    monkeypatch.setattr(late, "LOOK_S", 0.05)
    with run_node(tmp_path / "n", reduce=keep_raw, trace_s=0.5) as node:
        program = node.start(rank=0, **told)
        node.wait_for(1)
        outcome = record(node, tmp_path / "out")
        assert "wrote no trace" in outcome.problems[0]
        program.read_orders()
        assert program.process.stdout is not None
        assert program.process.stdout.readline() == "gone\n"  # it writes to the end, and in vain
        assert node.left == []


def test_a_trace_that_came_after_its_daemon_ended(tmp_path: Path) -> None:
    with run_node(tmp_path, reduce=keep_raw, trace_s=0.5) as node:
        node.start(rank=0, hangs=True)
        node.wait_for(1)
        node.ask().ask_data("POST", "/v1/captures", request().encode())
        running = node.node.running
        assert running is not None
        assert running.done.wait(20)
        ((place, name, _),) = running.describe()["missing"]
        (Path(place) / f"{name}.tmp").write_text("{")
        (Path(place) / name).write_text("{")
        Node(node.keeper, node.shelf, node.said.append)
        assert node.left == []
        assert len(node.shelf.list_folders()) == 1  # it is done, and kept


def test_one_that_is_stopped(tmp_path: Path) -> None:
    with run_node(tmp_path / "n", reduce=keep_raw) as node:
        program = node.start(rank=3)
        node.wait_for(1)
        os.kill(program.pid, signal.SIGSTOP)
        outcome = record(node, tmp_path / "out")
        assert node.left == []
    (text,) = outcome.problems
    assert "rank 3" in text
    assert "did not contact the daemon in time: it hangs, is stopped" in text


def test_nobody_listens(tmp_path: Path) -> None:
    with run_node(tmp_path / "n") as node:
        with pytest.raises(RequestError, match="no process listens") as caught:
            record(node, tmp_path / "out")
        assert "KINETO_USE_DAEMON=1" in str(caught.value.hint)
        node.start(rank=0, env={"SLURM_JOB_ID": "7"})
        node.wait_for(1)
        with pytest.raises(RequestError, match="no process of job 8 listens") as caught:
            record(node, tmp_path / "out", Wanted(job="8"))
        assert caught.value.why == "those that listen belong to 7"


def test_a_door_that_another_daemon_has(tmp_path: Path) -> None:
    with run_node(tmp_path) as node:
        with pytest.raises(RequestError, match="another daemon tells PyTorch's profiler"):
            Keeper([str(node.sockets)])
        with pytest.raises(RequestError, match="another daemon listens at"):
            UnixServer(node.sockets / "daemon.sock", node.api, for_all=False)
        node.ask().ask_data("GET", "/v1/clock")  # and the first one goes on


def test_one_capture_at_a_time_and_each_once(tmp_path: Path) -> None:
    with run_node(tmp_path, reduce=keep_raw) as node:
        node.start(rank=0)
        node.wait_for(1)
        asked = node.ask()
        told = [asked.ask_data("POST", "/v1/captures", request().encode()) for _ in range(2)]
        assert told[0]["id"] == told[1]["id"]  # sent twice, and one capture
        with pytest.raises(RequestError, match="a capture is in progress"):
            asked.ask_data("POST", "/v1/captures", request(id="1" * 16).encode())
        running = node.node.running
        assert running is not None
        assert running.done.wait(20)
        with pytest.raises(RequestError, match="a capture with this id exists already"):
            asked.ask_data("POST", "/v1/captures", request().encode())
        with pytest.raises(RequestError, match="too late") as caught:
            asked.ask_data("POST", "/v1/captures", request(id="2" * 16, start_ms=1000).encode())
        assert "its start was" in str(caught.value.why)
        assert asked.ask_data("GET", "/v1/captures")["captures"][0]["state"] == "done"


def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with run_node(tmp_path / "n", reduce=keep_raw) as node:
        node.start(rank=0)
        node.wait_for(1)
        monkeypatch.setattr(node.shelf, "least_free", 1 << 60)
        with pytest.raises(RequestError, match="no node began") as caught:
            record(node, tmp_path / "out")
        assert "there is no room for a capture" in str(caught.value.why)
        monkeypatch.setattr(node.shelf, "least_free", 0)

        def fill(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(nodes, "take_trace", fill)
        outcome = record(node, tmp_path / "out")
        assert outcome.problems == [
            f"node: rank 0 (process {node.programs[0].pid}): no space left on device"
        ]


def test_a_daemon_that_was_killed(tmp_path: Path) -> None:
    """The next one removes what it left where programs wrote, and on its own shelf."""
    with run_node(tmp_path, reduce=keep_raw) as node:
        program = node.start(rank=0)
        node.wait_for(1)
        node.ask().ask_data("POST", "/v1/captures", request().encode())
        running = node.node.running
        assert running is not None
        (place, name, _) = running.describe()["written"][0]
        assert running.done.wait(20)
        state = {**running.describe(), "state": "waiting"}  # as it was when it was killed
        (running.folder / "state.json").write_text(json.dumps(state))
        (Path(place) / name).write_text("{")
        (Path(place) / "other.json").write_text("{}")
        Node(node.keeper, node.shelf, node.said.append)
        assert node.left == ["other.json"]
        assert node.shelf.list_folders() == []
        assert program.process.poll() is None


def test_who_asked_goes_away(tmp_path: Path) -> None:
    """A capture goes on without its controller, and its place is kept for who asks later."""
    with run_node(tmp_path, reduce=keep_raw) as node:
        node.start(rank=0)
        node.wait_for(1)
        asked = node.ask()
        asked.ask_data("POST", "/v1/captures", request().encode())
        asked.close()
        running = node.node.running
        assert running is not None
        assert running.done.wait(20)
        state = node.ask().ask_data("GET", f"/v1/captures/{'0' * 16}")
        assert (state["state"], state["told"], state["problems"]) == ("done", 1, [])
        assert node.left == []
        with pytest.raises(RequestError, match="no such capture"):
            node.ask().ask_data("GET", f"/v1/captures/{'3' * 16}")


def test_a_node_that_does_not_answer(tmp_path: Path) -> None:
    with run_node(tmp_path / "n", reduce=keep_raw) as node:
        node.start(rank=0)
        node.wait_for(1)
        gone = node.ask()
        gone = type(gone)(type(gone.address)("gone", tmp_path / "no.sock"))
        found = look_around([gone, node.ask()])
        assert "no daemon listens at gone" in str(found[0].problem)
        (tmp_path / "out").mkdir()
        wanted = Wanted(seconds=0.1, warm_up_s=0.0, traces="all")
        outcome = capture(found, wanted, tmp_path / "out", node.said.append)
        assert len(outcome.files) == 1
        assert any("no daemon listens" in text for text in outcome.problems)


def test_reduction_that_fails_is_said(tmp_path: Path) -> None:
    """A process of its own reduces; what it says last is why."""
    (tmp_path / "run.sightline").mkdir()
    said = Apart().reduce(tmp_path, {"no": "mark"})
    assert said is not None
    assert said.startswith("the ranks could not be reduced")


def test_nothing_is_reduced_when_the_daemon_ends(tmp_path: Path) -> None:
    apart = Apart()
    said: list[str | None] = []
    work = threading.Thread(target=lambda: said.append(apart.reduce(tmp_path, {})))
    work.start()
    while not apart._running and not said:
        time.sleep(0.01)
    apart.close()
    work.join(20)
    assert not work.is_alive()
    assert apart.reduce(tmp_path, {}) == "the ranks could not be reduced: the daemon ends"


def test_nothing_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    with run_node(tmp_path / "n", reduce=keep_raw) as node:
        (node.shelf.folder / ("5" * 16)).write_text("")
        with pytest.raises(InputError, match="cannot keep a capture"):
            node.shelf.make("5" * 16)


def test_programs_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A daemon that is not root's neither lists them nor tells them to write a file."""
    with run_node(tmp_path / "n", reduce=keep_raw) as node:
        monkeypatch.setattr(node.keeper, "user", 12_345)
        node.start(rank=0)
        time.sleep(0.3)
        assert node.keeper.list_listeners() == []
        with pytest.raises(RequestError, match="no process listens"):
            record(node, tmp_path / "out")
        assert node.left == []


def test_another_user_asks(tmp_path: Path) -> None:
    """Who may connect to root's socket records their own processes, and reads their own."""
    with run_node(tmp_path, reduce=keep_raw) as node:
        node.start(rank=0)
        node.wait_for(1)
        other, own = os.geteuid() + 1, os.geteuid()
        assert node.api.answer("GET", "/v1/node", b"", other).data["listeners"] == []
        refused = node.api.answer("POST", "/v1/captures", request().encode(), other)
        assert (refused.status, refused.data["error"]) == (
            409,
            "these processes belong to another user",
        )
        assert node.api.answer("POST", "/v1/triggers/webhook", b"", other).status == 403
        assert node.api.answer("POST", "/v1/captures", request().encode(), own).status == 202
        running = node.node.running
        assert running is not None
        seen = [node.api.answer("POST", "/v1/captures", request().encode(), other).status]
        seen.append(node.api.answer("GET", f"/v1/captures/{'0' * 16}", b"", other).status)
        assert running.done.wait(20)
        seen.append(node.api.answer("GET", f"/v1/captures/{'0' * 16}/ranks", b"", other).status)
        assert seen == [404, 404, 404]
        assert node.api.answer("GET", "/v1/captures", b"", other).data == {"captures": []}
