"""What a server says in its log while it is recorded, on the clock of its trace."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

import sightline
from sightline.errors import InputError
from sightline.record.collect.server_log import ServerLog, move_stamps, tells_load, tells_steps

BEGAN = datetime(2026, 12, 31, 23, 59, 58, tzinfo=UTC)
STEP = (
    "[core.py:402] Iteration({n}): {c} context requests, {t} context tokens, {g} generation "
    "requests, {g} generation tokens, iteration elapsed time: {ms} ms"
)


def write_step(stamp: str, n: int, *, prompts: int = 0, tokens: int = 0, decodes: int = 0) -> str:
    text = STEP.format(n=n, c=prompts, t=tokens, g=decodes, ms=1.5 + n)
    return f"(EngineCore pid=8) INFO {stamp} {text}\n"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("12-31 23:59:59", "01-01 00:00:01"),  # the same zone
        ("01-01 08:59:59", "01-01 09:00:01"),  # Tokyo: a year ahead
        ("12-31 18:29:59", "12-31 18:30:01"),  # five hours and a half behind
    ],
)
def test_stamps_of_any_zone_are_moved_onto_the_clock(first: str, second: str) -> None:
    moved = move_stamps(write_step(first, 0) + write_step(second, 1), BEGAN)
    assert [line.split(" INFO ")[1][:19] for line in moved.splitlines()] == [
        "2026-12-31 23:59:59",
        "2027-01-01 00:00:01",
    ]


def test_stamps_with_a_year_and_none() -> None:
    assert move_stamps("[2027-01-01 01:00:00 TP0] Decode batch.", BEGAN) == (
        "[2027-01-01 00:00:00 TP0] Decode batch."
    )
    assert move_stamps("INFO 13-41 99:00:00 [a.py:1] x\nno stamp\n", BEGAN) == (
        "INFO 13-41 99:00:00 [a.py:1] x\nno stamp\n"
    )


def test_only_what_was_written_since_is_read_and_gives_the_steps(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text(write_step("11-29 10:00:00", 0, prompts=1, tokens=99))
    held = ServerLog(log)
    with log.open("a") as file:
        file.write(write_step("11-29 10:00:07", 1, prompts=1, tokens=16))
        file.write(write_step("11-29 10:00:07", 2, prompts=1, tokens=30, decodes=1))
        file.write(write_step("11-29 10:00:08", 3, decodes=2))
        file.write(write_step("11-29 10:00:08", 4))
    text = held.read()
    assert tells_load(text)
    assert tells_steps(text)
    kept = tmp_path / "server.log"
    kept.write_text(text)
    run = sightline.open(str(kept))
    columns = ("step", "phase", "prefill_tokens", "decode_requests", "duration_ns", "start_ns")
    assert run.ask("engine_steps").select(columns).rows() == [
        (0, "prefill", 16, 0, 2_500_000, None),
        (1, "mixed", 30, 1, 3_500_000, None),
        (2, "decode", 0, 2, 4_500_000, None),
        (3, "empty", 0, 0, 5_500_000, None),
    ]
    assert run.ask("engine_steps")["source"].unique().to_list() == ["iteration log"]
    assert "no_year" not in run.table("quality")["kind"].to_list()


def test_a_log_that_was_begun_anew_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "serve.log"
    log.write_text("x" * 1000)
    held = ServerLog(log)
    log.write_text("no stamp\n")
    assert held.read() == "no stamp\n"
    assert not tells_load(held.read())


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("pipe", "it is not a file"), ("none.log", "no such file or directory")):
        with pytest.raises(InputError, match="cannot read the server's log") as error:
            ServerLog(tmp_path / name)
        assert error.value.why == why
