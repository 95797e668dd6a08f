"""Recordings through a pipe: standard input, named pipes, process substitutions."""

from __future__ import annotations

import gzip
import os
import threading
from pathlib import Path

import pytest

from sightline.core.model.cache_folder import find_cache_folder
from support.command import sightline

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(scope="module")
def plain() -> bytes:
    return gzip.decompress((EXAMPLES / "simulated-dataloader.json.gz").read_bytes())


@pytest.fixture
def pipe_in(monkeypatch):
    """Puts bytes into standard input, as a program before the pipe does."""

    ends = []

    def put(data: bytes) -> None:
        end, start = os.pipe()
        threading.Thread(target=_fill, args=(start, data), daemon=True).start()
        ends.append(os.fdopen(end))
        monkeypatch.setattr("sys.stdin", ends[-1])

    yield put
    for end in ends:
        end.close()


def _fill(start: int, data: bytes) -> None:
    with os.fdopen(start, "wb") as pipe:
        pipe.write(data)


def make_pipe(path: Path, data: bytes) -> str:
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(data,), daemon=True).start()
    return str(path)


def test_standard_input_is_the_main_job(plain, pipe_in, tmp_path):
    (tmp_path / "standard-input").write_bytes(plain)
    pipe_in(plain)
    streamed = sightline("-")
    assert streamed.code == 0, streamed.err
    assert streamed.out == sightline(tmp_path / "standard-input").out


@pytest.mark.parametrize("packed", [gzip.compress, bytes])
def test_each_command_reads_it(plain, pipe_in, packed, tmp_path):
    (tmp_path / "plain.json").write_bytes(plain)
    pipe_in(packed(plain))
    streamed = sightline("stats", "kernels", "-", "--format", "csv")
    assert (
        streamed.out
        == sightline("stats", "kernels", tmp_path / "plain.json", "--format", "csv").out
    )
    assert streamed.code == 0


def test_two_named_pipes_are_compared(plain, tmp_path):
    sides = [make_pipe(tmp_path / name, plain) for name in ("before", "after")]
    outcome = sightline("compare", *sides, "--format", "json")
    assert outcome.code == 0, outcome.err


def test_one_pipe_that_is_named_twice_is_read_once(plain, pipe_in):
    pipe_in(plain)
    assert sightline("compare", "-", "-", "--format", "json").code == 0


def test_what_came_is_gone_at_the_end(plain, pipe_in, monkeypatch):
    ends: list = []
    monkeypatch.setattr("atexit.register", lambda function, *given: ends.append((function, given)))
    pipe_in(plain)
    assert sightline("-").code == 0
    ((remove, (work,)),) = [end for end in ends if end[0].__name__ == "remove_scratch"]
    assert work.is_relative_to(find_cache_folder())
    assert [file.name for file in work.iterdir()] == ["standard-input"]
    remove(work)
    assert not work.parent.exists()


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "it is empty"), (b"no recording at all", "its content is of no known format")],
)
def test_an_error_names_what_was_typed(pipe_in, data, reason):
    pipe_in(data)
    outcome = sightline("-")
    assert outcome.code == 2
    assert f"cannot read standard input: {reason}" in outcome.said


def test_a_terminal_is_no_pipe(monkeypatch):
    main, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        outcome = sightline("-")
    os.close(main)
    assert outcome.code == 2
    assert "nothing comes through standard input" in outcome.said
    assert "zstdcat trace.json.zst | sightline -" in outcome.said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_disk_without_room_is_named(plain, tmp_path, monkeypatch):
    opened = Path.open

    def open_full(path, mode="r", *more, **named):
        return (
            opened(Path("/dev/full"), "wb") if mode == "xb" else opened(path, mode, *more, **named)
        )

    pipe = make_pipe(tmp_path / "full", plain)
    monkeypatch.setattr(Path, "open", open_full)
    outcome = sightline(pipe)
    assert outcome.code == 2
    assert "no space left on device" in outcome.said
    assert "SIGHTLINE_CACHE=FOLDER" in outcome.said
