"""waiting-line: what threads wait in, by samples of all threads less those of threads that ran."""

from __future__ import annotations

from pathlib import Path

import sightline
from sightline.core.model.declare import Finding
from sightline.core.model.run_folder import WALL_TIME
from support.profiles import PY_SPY, Stack, write_profile
from support.rules import answers

LOOP = ("_run", "/usr/lib/python3.11/asyncio/events.py", 80)
SERVE = ("worker", "server.py", 11)
PARSE = ("parse", "server.py", 5)
SELECT = ("select", "/usr/lib/python3.11/selectors.py", 468)


def judge(folder: Path, *stacks: tuple[Stack, float, float]) -> list[Finding]:
    """What is said of stacks, with their seconds in all and those in which they ran."""
    files = (
        write_profile(
            folder / "a.cpu.speedscope.json", {s: ran for s, _, ran in stacks if ran}, PY_SPY
        ),
        write_profile(
            folder / "a.wall.speedscope.json", {s: all_ for s, all_, _ in stacks}, WALL_TIME
        ),
    )
    return answers(sightline.open(*files, same_job=True), "waiting-line")


def test_a_call_that_sleeps_in_the_event_loop(tmp_path: Path) -> None:
    """Of 5 s the loop sleeps for 3 in line 11, parses for 1, and has nothing to do for 0.9."""
    (found,) = judge(
        tmp_path, ((LOOP, SERVE), 3.1, 0.1), ((LOOP, PARSE), 1.0, 1.0), ((SELECT,), 0.9, 0.0)
    )
    assert found.title == "The event loop is blocked"
    assert "holds the event loop for 60.0 % of the sampled time, 3.000 s" in found.summary
    assert "worker (server.py:11)" in found.summary
    assert "to_thread" in (found.fix or "")
    assert found.gain_ns == 3_000_000_000


def test_a_program_that_sleeps_in_a_line(tmp_path: Path) -> None:
    (found,) = judge(tmp_path, ((SERVE,), 3.0, 0.0), ((PARSE,), 1.0, 1.0))
    assert found.title == "A thread waits in one line"
    assert found.gain_ns is None


def test_a_loop_that_waits_for_its_clients(tmp_path: Path) -> None:
    """The selector is where a loop waits that has nothing to do."""
    assert judge(tmp_path, ((SELECT,), 4.0, 0.0), ((LOOP, PARSE), 1.0, 1.0)) == []


def test_under_a_tenth(tmp_path: Path) -> None:
    assert judge(tmp_path, ((LOOP, SERVE), 0.45, 0.0), ((LOOP, PARSE), 4.55, 4.55)) == []
