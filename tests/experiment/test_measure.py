"""One run: how long, how it ended, what it printed."""

from __future__ import annotations

import os
import re

import pytest

from sightline.errors import RequestError
from sightline.experiment.measure import (
    Ruler,
    explain_failure,
    read_pattern,
    run_program,
)
from sightline.experiment.variants import Variant


def _shell(script: str, **environment: str) -> Variant:
    return Variant("A", ("sh", "-c", script), environment)


def test_a_run_with_its_environment() -> None:
    ruler = Ruler(re.compile(r"n=(\d+)"))
    outcome = run_program(_shell("echo n=1; echo n=$COUNT", COUNT="42"), ruler)
    assert (outcome.value, outcome.code) == (42.0, 0)
    assert outcome.wall_ns > 0
    assert outcome.peak_bytes > 0


def test_time_is_the_value_without_a_pattern() -> None:
    outcome = run_program(_shell(":"), Ruler())
    assert outcome.value == outcome.wall_ns


def test_failures_say_code_and_last_words() -> None:
    outcome = run_program(_shell("echo no such layer >&2; echo '^^^' >&2; exit 7"), Ruler())
    assert (outcome.value, outcome.code) == (None, 7)
    error = explain_failure(_shell("exit 7"), outcome, 2, Ruler())
    assert "exit code 7 in run 3, after 2 good ones: no such layer" in str(error)
    assert run_program(_shell("exit 7"), Ruler(any_code=True)).value is not None


def test_signals_are_codes_as_shells_have_them() -> None:
    assert run_program(_shell("kill -9 $$"), Ruler()).code == 137


@pytest.mark.parametrize("printed", ["nothing", "n=-1", "n=0", "n=nan", "n=inf"])
def test_no_value(printed: str) -> None:
    ruler = Ruler(re.compile(r"n=(\S+)"))
    outcome = run_program(_shell(f"echo {printed}"), ruler)
    assert outcome.value is None
    assert "printed no value" in str(explain_failure(_shell("x"), outcome, 0, ruler))


def test_a_run_that_hangs_is_ended_with_all_that_it_started() -> None:
    """The shell waits for its child, which would run for an hour."""
    ruler = Ruler(re.compile("child=([0-9]+)"), timeout_s=0.2)
    outcome = run_program(_shell("sleep 3600 & echo child=$!; wait"), ruler)
    assert outcome.timed_out
    assert outcome.value is None
    assert "ended after 0.2 s" in str(explain_failure(_shell("x"), outcome, 0, ruler))


def test_a_program_that_prints_much_does_not_wait() -> None:
    """More than a pipe holds, of which the end is kept."""
    script = "head -c 3000000 /dev/zero | tr '\\0' x >&2; echo; echo n=5"
    assert run_program(_shell(script), Ruler(re.compile(r"n=(\d)"))).value == 5


def test_what_it_leaves_behind_is_not_waited_for() -> None:
    """A child that holds the pipe for longer ends with this test."""
    outcome = run_program(_shell("sleep 60 & echo n=$!"), Ruler(re.compile(r"n=(\d+)")))
    assert outcome.value is not None
    os.kill(int(outcome.value), 9)  # it is still there


@pytest.mark.parametrize("text", ["n=[0-9]+", "(a)(b)", "n=("])
def test_patterns_without_one_group(text: str) -> None:
    with pytest.raises(RequestError, match="--value"):
        read_pattern(text)
