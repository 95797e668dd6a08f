"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sightline.core.whole_file import write_beside, write_whole
from support import traces as t
from support.command import sightline

COMMAND = [sys.executable, "-m", "sightline.doors.cli.main"]


def test_the_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.write_bytes(b"old")

    def fail_in_the_middle() -> None:
        with write_beside(target) as part:
            part.write_bytes(b"ne")
            raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        fail_in_the_middle()
    assert target.read_bytes() == b"old"
    write_whole(target, b"new")
    assert target.read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_the_mode_stays_and_links_lead_where_they_led(tmp_path: Path) -> None:
    target, link = tmp_path / "a", tmp_path / "b"
    target.write_bytes(b"old")
    target.chmod(0o640)
    link.symlink_to("a")
    write_whole(link, b"new")
    assert (link.is_symlink(), target.read_bytes()) == (True, b"new")
    assert target.stat().st_mode & 0o777 == 0o640
    write_whole(link, b"own", through_links=False)
    assert (link.is_symlink(), link.read_bytes(), target.read_bytes()) == (False, b"own", b"new")


def test_pipes_and_devices_are_written_to(tmp_path: Path) -> None:
    write_whole(Path(os.devnull), b"nothing")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, b"data")
    assert os.read(reader, 10) == b"data"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.fixture
def little_room() -> Callable[[], None]:
    """No file may grow beyond 8 kB: what a full disk does (setrlimit(2))."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["report", "{}", "-o"], "out.html"),
        (["export", "{}", "--to", "chrome", "-o"], "out.json"),
        (["export", "{}", "--to", "perfetto", "-o"], "out.perfetto-trace"),
        (["export", "{}", "--to", "csv", "-o"], "device_ops.csv"),
        (["export", "{}", "--to", "parquet", "-o"], "device_ops.parquet"),
        (["flame", "{}", "-o"], "out.html"),
    ],
)
def test_a_full_disk_costs_no_old_file(
    tmp_path: Path, little_room: Callable[[], None], words: list[str], name: str
) -> None:
    old = tmp_path / name
    old.write_bytes(b"old" * 3000)
    target = tmp_path if name.startswith("device_ops") else old
    kernels = [t.kernel(f"kernel {os.urandom(9).hex()}", n * 10, 5) for n in range(2000)]
    trace = t.write(tmp_path, kernels, "trace.json.gz")
    asked = [*(w.format(trace) for w in words), str(target)]
    # The first time fills the cache, which has room of its own.
    assert sightline("stats", "kernels", trace).code == 0
    done = subprocess.run(
        [*COMMAND, *asked], capture_output=True, text=True, preexec_fn=little_room, check=False
    )
    assert done.returncode == 2, done.stderr
    assert f"cannot write {old}" in " ".join(done.stderr.split())
    assert old.read_bytes() == b"old" * 3000
    assert not list(tmp_path.glob(".*"))
