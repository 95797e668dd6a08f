"""sightline try: real programs, whose value is printed and so known."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.command import sightline

A, B = "sh -c 'echo ms=100'", "sh -c 'echo ms=80'"
VALUE = ("--value", "ms=([0-9]+)", "--no-why", "--seed", "1")


def test_the_answer_first() -> None:
    outcome = sightline("try", *VALUE, A, B)
    assert outcome.code == 0
    assert outcome.out.startswith("The value of B is 20.0 % lower than that of A")
    assert "4 rounds" in outcome.out
    assert max(map(len, outcome.out.splitlines())) <= 80
    assert "A 100  B 80  −20.0 %" in outcome.err


def test_as_data_with_every_run() -> None:
    words = ("--", "sh", "-c", "echo ms=100", "--", "sh", "-c", "echo ms=80")
    outcome = sightline("try", *VALUE, "--more-is-better", "--json", *words)
    data = json.loads(outcome.out)
    assert data["fastest"] == "A"
    assert data["seed"] == 1
    assert [run["value"] for run in data["runs"] if run["variant"] == "B"] == [80.0] * 4
    (pair,) = data["differences"]
    assert (pair["answer"], round(pair["change_pct"], 6)) == ("slower", -20.0)


def test_values_that_are_set() -> None:
    words = ("--set", "n=40,20,30", "--", "sh", "-c", "echo ms={n}")
    outcome = sightline("try", *VALUE, *words)
    assert "n=20 is 50.0 % lower" in outcome.out.replace("The value of ", "")
    assert "Best: n=20, surely." in outcome.out


def test_a_program_that_fails_ends_it(tmp_path: Path) -> None:
    """The second run fails, and it is said which one did, and how."""
    once = f"sh -c 'test ! -e {tmp_path}/x || {{ echo gone >&2; exit 5; }}; : > {tmp_path}/x'"
    outcome = sightline("try", "--no-why", "true", once)
    assert outcome.code == 2
    assert "B failed with exit code 5 in run 2, after 1 good ones: gone." in outcome.said
    ignored = sightline("try", "--no-why", "--ignore-failure", "--runs", "4", "true", once)
    assert ignored.code == 0
    assert "Exit codes: A: 0; B: 5." in ignored.out


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), "there is no program to try"),
        (("true",), "one variant only"),
        (("--runs", "3", A, B), "--runs 3"),
        (("--until", "much", A, B), "--until much"),
        (("--seconds", "-1", A, B), "--seconds -1"),
        (("--more-is-better", A, B), "--more-is-better"),
        (("--value", "x", A, B), "--value x"),
        (("no-such-program", "true"), "no-such-program"),
    ],
)
def test_what_cannot_be_asked(words: tuple[str, ...], expected: str) -> None:
    outcome = sightline("try", *words)
    assert outcome.code == 2
    assert expected in outcome.said


@pytest.mark.timing
def test_an_interrupt_says_what_is_known_and_leaves_no_program(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sightline", "try", "--no-why"]
    variants = [f"sh -c 'echo $$ > {tmp_path}/pid; sleep 0.{n}'" for n in (1, 2)]
    process = subprocess.Popen(
        [*command, *variants], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.stderr.readline()  # two rounds
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "it was interrupted" in " ".join(out.split())
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.timing
def test_an_interrupt_while_recording_says_what_was_measured(tmp_path: Path) -> None:
    """Recorded it waits for a file that is not there, and measured it does not."""
    wait = f'test -z "$SIGHTLINE_RUN" || {{ : > {tmp_path}/begun; sleep 60; }}'
    command = [sys.executable, "-m", "sightline", "try", "--value", "ms=([0-9]+)"]
    variants = [f"sh -c '{wait}; echo ms={n}'" for n in (100, 80)]
    process = subprocess.Popen(
        [*command, *variants], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    end = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "20.0 % lower" in out


PROGRAM = """
import sys, time
def wait_for_data(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
wait_for_data(float(sys.argv[1]))
print("s=" + sys.argv[1])
"""


@pytest.mark.timing
def test_why_names_the_function(tmp_path: Path) -> None:
    """Two programs of plain Python: their sampled functions say what differs."""
    (tmp_path / "p.py").write_text(PROGRAM)
    words = (
        "--set",
        "s=0.1,0.4",
        "--value",
        "s=([0-9.]+)",
        "--",
        sys.executable,
        str(tmp_path / "p.py"),
        "{s}",
    )
    outcome = sightline("try", "--json", *words)
    data = json.loads(outcome.out)
    (pair,) = data["differences"]
    assert pair["answer"] == "slower"
    why = data["why"]
    assert (why["before"], why["after"]) == ("s=0.1", "s=0.4")
    if why["functions"]:  # where the machine lets nobody sample, the problem says so
        assert "wait_for_data" in why["functions"][0]["name"]
    else:
        assert why["problem"]
