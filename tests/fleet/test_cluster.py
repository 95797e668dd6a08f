"""Ranks read by Dask's workers: the answer of one process, and what is missing where some die."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from sightline.errors import RequestError
from sightline.fleet.read import reduce_recordings
from support.command import sightline
from support.many_ranks import HOST, Cause, Program, write_ranks

distributed = pytest.importorskip("distributed")

from sightline.fleet import cluster  # noqa: E402
from sightline.fleet.cluster import connect_scheduler, reduce_on_cluster  # noqa: E402

QUIET = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    list(write_ranks(Program(16, steps=4, causes=(Cause(HOST, 3, 4e5),), offset_ns=5e7), folder))
    return folder


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    import dask

    # A recording at which two workers die is given up, not one at which four do.
    options = {"n_workers": 2, "threads_per_worker": 1, **QUIET}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(**options) as cluster,
    ):
        yield cluster.scheduler_address


def die_at(path: Path, *, once: Path | None = None) -> distributed.WorkerPlugin:
    """A plug-in by which a worker dies when it opens that recording; or only the first one."""

    class Dies(distributed.WorkerPlugin):
        name = "dies"

        def setup(self, worker: object) -> None:
            from sightline.fleet import read

            opened = read.open_run

            def open_or_die(names: list[str], **told: object) -> object:
                if names == [str(path)] and not (once and once.exists()):
                    if once:
                        once.touch()
                    os._exit(9)
                return opened(names, **told)

            read.open_run = open_or_die

    return Dies()


def test_the_same_answer_as_one_process(folder: Path, address: str) -> None:
    here = sightline("ranks", folder, "--json")
    there = sightline("ranks", folder, "--json", "--scheduler", address)
    assert here.code == there.code == 0
    assert json.loads(there.out) == json.loads(here.out)


@pytest.mark.timing
def test_a_damaged_file_and_workers_that_die(folder: Path, address: str, tmp_path: Path) -> None:
    """One recording is not a recording, one kills each worker that reads it, one the first only."""
    paths = list(write_ranks(Program(9, steps=2), tmp_path))
    paths[7].write_bytes(b"\x00 no recording")
    with connect_scheduler(address) as client:
        client.register_plugin(die_at(paths[2]), name="always")
        client.register_plugin(die_at(paths[5], once=tmp_path / "died"), name="once")
        found = reduce_on_cluster([str(path) for path in paths], client)
        client.unregister_worker_plugin("always")
        client.unregister_worker_plugin("once")
    assert (tmp_path / "died").exists()
    assert [rank.rank for rank in found.ranks] == [0, 1, 3, 4, 5, 6, 8]
    lost = dict(found.lost)
    assert lost.keys() == {str(paths[2]), str(paths[7])}
    assert "workers died while they read it" in lost[str(paths[2])]
    kept = [str(path) for n, path in enumerate(paths) if n not in (2, 7)]
    for here, there in zip(reduce_recordings(kept).ranks, found.ranks, strict=True):
        assert there.rows.equals(here.rows)


def test_what_is_lost_with_its_worker_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scheduler says that a packet is lost before another worker has made it anew."""
    first, second = Mock(status="finished"), Mock(status="finished")
    second.status = "lost"

    def wait(futures: set[object], **told: object) -> tuple[set[object], set[object]]:
        if first not in futures:
            second.status = "finished"
        return futures, set()

    monkeypatch.setattr(distributed, "wait", wait)
    client = SimpleNamespace(as_current=nullcontext)
    fetched = list(cluster._fetch(client, [first, second], 1.0))
    assert fetched == [(first, first.result()), (second, second.result())]


@pytest.mark.timing
@pytest.mark.campaign
def test_no_worker_is_left(tmp_path: Path) -> None:
    """The only worker dies at the last recordings: the rest is read, and those are named."""
    paths = list(write_ranks(Program(24, steps=1), tmp_path))
    command = ["-m", "distributed.cli.dask_worker", "--no-nanny", "--no-dashboard"]
    with distributed.LocalCluster(n_workers=0, **QUIET) as cluster:
        worker = subprocess.Popen(
            [sys.executable, *command, cluster.scheduler_address], stderr=subprocess.DEVNULL
        )
        with connect_scheduler(cluster.scheduler_address) as client:
            client.register_plugin(die_at(paths[23]))
            try:
                found = reduce_on_cluster(
                    [str(path) for path in paths], client, patience_s=1, together=2, branches=2
                )
            finally:
                worker.kill()
        worker.wait(30)
    assert len(found.ranks) >= 4
    assert len(found.ranks) + len(found.lost) == 24
    assert str(paths[23]) in dict(found.lost)
    assert {why for _, why in found.lost} == {"it was not read: no worker was left"}


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--scheduler", "tcp://127.0.0.1:9"), "no Dask scheduler answers at tcp://127.0.0.1:9"),
        (("--slurm", "gpu"), "there is no Slurm on this machine"),
        (("--workers", "3"), "--workers says how many jobs"),
    ],
)
def test_what_is_not_there(folder: Path, monkeypatch, words: tuple[str, ...], what: str) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sightline.fleet.cluster.ANSWER_S", 0.5)
    outcome = sightline("ranks", folder, *words)
    assert outcome.code == 2
    assert what in outcome.err


def test_without_dask(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(RequestError, match="needs Python's package distributed"):
        connect_scheduler("tcp://head:8786").__enter__()


SBATCH = """#!/bin/sh
[ "$1" = --test-only ] && { [ "$2" = --partition=gpu ] && exit 0;
    echo "sbatch: error: invalid partition specified: $2" >&2; exit 1; }
cp "$1" "$0.$$"; sh "$0.$$" >/dev/null 2>&1 </dev/null & echo "Submitted batch job $!"
"""


@pytest.mark.timing
def test_jobs_of_slurm(folder: Path, tmp_path: Path, monkeypatch) -> None:
    """A Slurm of two scripts, whose jobs run here."""
    pytest.importorskip("dask_jobqueue")
    for name, text in (("sbatch", SBATCH), ("scancel", '#!/bin/sh\nkill "$@"\n')):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    # A Python in a folder whose name has a blank, in a script that a shell reads.
    python = tmp_path / "a blank" / "python"
    python.parent.mkdir()
    python.write_text(f"#!/bin/sh\nexec '{sys.executable}' \"$@\"\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    refused = sightline("ranks", folder, "--slurm", "nope")
    assert (refused.code, "specified: --partition=nope" in refused.err) == (2, True)
    done = sightline("ranks", folder, "--json", "--slurm", "gpu", "--workers", "1")
    assert done.code == 0
    assert json.loads(done.out) == json.loads(sightline("ranks", folder, "--json").out)


@pytest.mark.timing
def test_a_report_is_read_by_the_same_workers(folder: Path, address: str) -> None:
    ranks = sightline("ranks", folder)
    report = sightline("report", str(folder / "*.json.gz"), "--scheduler", address)
    assert (report.code, report.out) == (0, ranks.out)
    refused = sightline("report", folder, "--scheduler", address, "--window", "steady")
    assert refused.code == 2
    assert "--window is not for many ranks" in refused.err
