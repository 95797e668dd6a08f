"""What jobs do between the windows of a continuous profile: GPU calls, counted by eBPF."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from record.probe.programs import Target, build_program, needs
from sightline.capture.continuous import Continuous
from sightline.capture.counter import RATES, Rates, sum_counts
from sightline.capture.counting import Counting
from sightline.capture.triggers import Window
from sightline.errors import RequestError
from sightline.history.profiles import read_values, read_windows
from sightline.record.probe.functions import Function, list_functions
from support.many_ranks import Program
from support.nodes import run_node, write_plain


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs("bpf")
    return build_program(tmp_path_factory.mktemp("gpu"))


@pytest.fixture
def counting() -> Iterator[Counting]:
    counting = Counting()
    yield counting
    counting.close()


@pytest.mark.timing
def test_calls_are_counted_between_two_questions(program: Path, counting: Counting) -> None:
    """Of two processes of a job, of which one calls: rates are of one process, a second."""
    assert counting.call_ns > 0
    with Target(program) as busy, Target(program) as idle, Target(program) as other:
        counting.watch({"4711": [busy.pid, idle.pid], "4712": [other.pid]})
        began = time.monotonic()
        for _ in range(40):
            busy.do("a1")  # everything once
        other.do("a1")
        time.sleep(max(1.1 - (time.monotonic() - began), 0))
        rates = counting.take("4711")
        seconds = time.monotonic() - began
        assert set(rates) == {f"between:{name}" for name in RATES}
        # Two launches of a round: one through the runtime, one through the driver.
        assert rates["between:launches"] * 2 * seconds == pytest.approx(80, rel=0.3)
        assert rates["between:collectives"] / rates["between:launches"] == pytest.approx(1.0)
        assert rates["between:failed_calls"] / rates["between:launches"] == pytest.approx(0.5)
        assert rates["between:copied_bytes"] / rates["between:launches"] == pytest.approx(3500)
        assert counting.take("4711") == {}  # less than a second ago
        assert counting.take("unknown") == {}
        time.sleep(1.1)
        again = counting.take("4711")
        assert again["between:launches"] == 0  # what was taken is not counted twice


def test_a_process_that_counts_ends_with_its_daemon(program: Path, counting: Counting) -> None:
    with Target(program) as busy:
        counting.watch({"j": [busy.pid]})
        process = counting._process
        assert process.stdin is not None
        process.stdin.close()  # as when the daemon is killed
        assert process.wait(30) == 0
        assert busy.do("a1") >= 0


def test_what_counts_is_small(program: Path, counting: Counting) -> None:
    """It holds no room for single calls, of which the kernel sends none."""
    assert psutil.Process(counting._process.pid).memory_info().rss < 80 << 20


def test_why_nothing_can_be_counted() -> None:
    """No rights, no answer, no sense: one sentence each."""
    no = [sys.executable, "-c", 'print(\'{"problem": "eBPF cannot be used: so"}\')']
    with pytest.raises(RequestError, match="cannot be counted") as caught:
        Counting(no)
    assert caught.value.why == "eBPF cannot be used: so"
    for command in ([sys.executable, "-c", ""], [sys.executable, "-c", "print('{')"]):
        with pytest.raises(RequestError, match="cannot be counted"):
            Counting(command)
    with pytest.raises(RequestError, match="cannot be counted"):
        Counting(["/no/such/program"])


def test_what_the_runtime_asks_of_the_driver_is_counted_once() -> None:
    functions = list_functions()
    chosen: list[Function] = [functions[n] for n in ("cudaMemcpyAsync", "cuMemcpyHtoDAsync")]
    once = {"entered": 1, "returned": 1, "failed": 0, "lost": 0, "duration_ns": 5, "bytes": 100}
    counts: Any = SimpleNamespace(
        read_totals=lambda: {(1, 0): once, (1, 1): once, (2, 1): once, (2, 9): once},
        read_kernels=lambda: {(1, 0x10): 3, (1, 0x20): 4, (3, 0x10): 1},
    )
    found = sum_counts(counts, chosen)
    assert {pid: own["copied_bytes"] for pid, own in found.items()} == {1: 100, 2: 100, 3: 0}
    assert {pid: own["launches"] for pid, own in found.items()} == {1: 7, 2: 0, 3: 1}


def test_rates_of_processes_that_come_and_go() -> None:
    now = [0.0]
    rates = Rates(lambda: now[0])
    none = dict.fromkeys(RATES, 0)
    rates.begin([1, 2], {1: {**none, "launches": 100}})
    now[0] = 10.0
    rates.begin([1, 3], {1: {**none, "launches": 500}, 3: none})
    now[0] = 10.5
    counts = {1: {**none, "launches": 1150}, 3: {**none, "launches": 70}}
    told = rates.take([1, 2, 3], counts)  # 2 is gone, and 3 ran for half a second
    assert told is not None
    assert told["launches"] == pytest.approx(100)
    now[0] = 12.0
    told = rates.take([1, 3], counts)
    assert told is not None
    assert told["launches"] == pytest.approx(70 / (1.5 + 2.0))


class Counted:
    """What stands for the process that counts."""

    def __init__(self) -> None:
        self.watched: list[dict[str, list[int]]] = []
        self.is_over, self.is_closed = False, False

    def watch(self, jobs: dict[str, list[int]]) -> None:
        self.watched.append(jobs)

    def take(self, job: str) -> dict[str, float]:
        return {"between:launches": 1234.5}

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.timing
@pytest.mark.usefixtures("quick")
def test_a_window_has_what_came_before_it(tmp_path: Path) -> None:
    traces = write_plain(Program(1, steps=4), tmp_path / "job")
    said: list[str] = []
    counted: Any = Counted()
    with run_node(tmp_path / "n") as node:
        windows = Continuous(
            node.node, tmp_path / "h", 600.0, Window(0.1), said.append, counting=counted
        )
        started = node.start(rank=0, trace=traces[0], env={"SLURM_JOB_ID": "a"})
        node.wait_for(1)
        windows.look()
        assert counted.watched == [{"a": [started.pid]}]
        assert windows.take()
        running = node.node.running
        assert running is not None
        assert running.done.wait(60)
        counted.is_over = True
        windows.look()
        windows.look()
        windows.close()
    assert said == [
        "GPU calls are no longer counted between the windows: the counting process ended"
    ]
    assert counted.is_closed
    (run_id,) = read_windows(tmp_path / "h").get_column("run_id").to_list()
    values = read_values(tmp_path / "h", run_id)
    assert values["between:launches"] == 1234.5
    assert values["step_ns"] > 0


def test_what_counts_is_killed(program: Path, counting: Counting) -> None:
    os.kill(counting._process.pid, signal.SIGKILL)
    counting._process.wait()
    assert counting.is_over
    assert counting.take("j") == {}
    counting.watch({"j": [1]})
