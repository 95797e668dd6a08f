"""The store: what comes in is found again, whole, also after checkpoints, kills and full disks."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import numpy as np
import pytest

from sightline.cluster import sealing, shelf, store
from sightline.cluster.journal import Gap, Journal, list_files, read_records
from sightline.cluster.points import PointReader
from sightline.cluster.search import Search, Wanted
from sightline.cluster.store import DoubleError, FullError, Keeping, Store
from sightline.errors import InputError, RequestError
from support.cluster_jobs import NOW, push, read_values, start, stop


@pytest.fixture
def kept(tmp_path: Path):
    made = Store(tmp_path / "s")
    yield made
    made.close()


def test_a_job_from_its_start_to_the_archive(kept):
    key = start(kept, 4711, hosts=("n1", "n2"), gpus=2)
    push(kept, ("n1", "n2"), 60, gpu=lambda host, t: 80.0 if host == "n1" else 0.0)
    live = kept.find_job(key)
    stop(kept, 4711)
    waiting = kept.find_job(key)
    kept.checkpoint()
    archived = kept.find_job(key)
    for job in (live, waiting, archived):
        use = job.find_use("acc_utilization", "accelerator")
        assert use.avg.tolist() == [80.0, 0.0]
        assert use.places == (("n1", "0"), ("n2", "0"))
        assert job.find_use("mem_used").avg.tolist() == [2e9, 2e9]  # GB, as rules count in
    np.testing.assert_array_equal(
        waiting.uses["acc_utilization", "accelerator"].values,
        archived.uses["acc_utilization", "accelerator"].values,
    )
    rows, count = Search(kept).list_jobs(Wanted())
    assert (count, rows[0]["worst_rule"], rows[0]["gpu_used_pct"]) == (1, "job-idle-gpus", 40.0)
    # By hand: one hour on two GPUs, one of them idle.
    assert rows[0]["gpu_hours"] == pytest.approx(2.0)
    assert rows[0]["wasted_gpu_hours"] == pytest.approx(1.0)


def test_samples_are_the_same_before_and_after_checkpoints(tmp_path):
    rng = random.Random(5)
    kept = Store(tmp_path / "s")
    sent = {}
    for at in range(200):
        value = rng.random()
        sent[NOW - 2000 + 10 * at] = value
        line = f"cpu_load,hostname=n1 value={value!r} {NOW - 2000 + 10 * at}"
        kept.write_points(PointReader().read(line.encode(), "c1", now_ns=NOW * 10**9))
        if rng.random() < 0.05:
            kept.checkpoint()
        if rng.random() < 0.05:
            kept.close()
            kept = Store(tmp_path / "s")
    assert read_values(kept) == sent
    kept.close()


def test_a_sample_that_comes_twice_counts_once_and_the_last_wins(kept):
    for value in (1.0, 2.0):
        line = f"cpu_load,hostname=n1 value={value} {NOW}"
        kept.write_points(PointReader().read(line.encode(), "c1", now_ns=NOW * 10**9))
        kept.checkpoint()
    assert read_values(kept) == {NOW: 2.0}


def test_a_job_begins_and_ends_once(kept):
    start(kept, 1)
    with pytest.raises(DoubleError):
        start(kept, 1)
    stop(kept, 1)
    with pytest.raises(RequestError, match="no job 1 runs"):
        stop(kept, 1)
    with pytest.raises(DoubleError):
        start(kept, 1)
    kept.checkpoint()
    with pytest.raises(DoubleError):
        start(kept, 1)
    assert Search(kept).list_jobs(Wanted())[1] == 1


def test_a_checkpoint_that_fails_loses_and_doubles_nothing(kept, monkeypatch):
    """Of each step of it: a full disk, then the next one works."""
    wanted = 0
    for step in ("write_samples", "write_jobs", "join_days", "write_checkpoint"):
        wanted += 1
        key = start(kept, wanted)
        push(kept, ("n1",), 3, at=wanted * 100)
        stop(kept, wanted)

        def fail(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
            patch.setattr(sealing, step, fail)
            kept.checkpoint()
        assert kept.find_job(key) is not None
        assert Search(kept).list_jobs(Wanted())[1] == wanted
    kept.checkpoint()
    assert Search(kept).list_jobs(Wanted())[1] == wanted
    assert kept.live_samples == 0
    assert len(read_values(kept)) == 3 * wanted


def test_files_of_a_checkpoint_that_did_not_end_are_not_read(tmp_path, monkeypatch):
    """Killed between its files and its word: the log has all of it."""
    kept = Store(tmp_path / "s")
    start(kept, 1)
    push(kept, ("n1",), 5)
    stop(kept, 1)
    monkeypatch.setattr(Store, "remove_left", lambda self: None)  # no time to clean up
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            kept, "commit_state", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        kept.checkpoint()
    assert kept.disk.list_parts(shelf.JOBS)
    kept._guard.close()
    kept._journal.close()
    monkeypatch.undo()
    again = Store(tmp_path / "s")
    assert Search(again).list_jobs(Wanted())[1] == 1
    assert len(read_values(again)) == 5
    assert not again.disk.list_parts(shelf.JOBS)
    again.close()


def test_many_small_files_of_a_day_become_one(kept, monkeypatch):
    monkeypatch.setattr(sealing, "SCATTERED", 3)
    for number in range(9):
        start(kept, number)
        stop(kept, number)
        kept.checkpoint()
        assert Search(kept).list_jobs(Wanted())[1] == number + 1
    assert len(kept.list_parts(shelf.JOBS)) <= 4
    kept.checkpoint()
    assert len(kept.disk.list_parts(shelf.JOBS)) <= 4  # what was replaced is gone


def test_a_kill_before_replaced_files_are_removed_counts_no_job_twice(kept, monkeypatch, tmp_path):
    """Each checkpoint as a kill leaves it right behind its commit, with all files still there."""
    monkeypatch.setattr(sealing, "SCATTERED", 3)
    drop, killed = Journal.drop, []

    def copy_and_drop(journal: Journal, number: int) -> None:
        killed.append(shutil.copytree(kept.root, tmp_path / f"killed {number}"))
        drop(journal, number)

    monkeypatch.setattr(Journal, "drop", copy_and_drop)
    for number in range(9):
        start(kept, number)
        stop(kept, number)
        kept.checkpoint()
    monkeypatch.undo()
    for number, folder in enumerate(killed):
        again = Store(folder)
        rows, count = Search(again).list_jobs(Wanted())
        assert sorted(row["job_id"] for row in rows) == [str(n) for n in range(number + 1)]
        assert count == number + 1
        again.close()


def test_the_log_is_read_around_its_damage(tmp_path):
    """Of a changed byte the record that it lies in is missing, and is a gap, and no other."""
    journal = Journal(tmp_path, 1)
    for n in range(5):
        journal.sync(journal.append(b"P", bytes([n]) * 50))
    journal.close()
    (_, path), whole = list_files(tmp_path)[0], list_files(tmp_path)[0][1].read_bytes()
    records = [(b"P", bytes([n]) * 50) for n in range(5)]
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        begin = end - end % 59
        rest = [Gap(begin, end - begin, is_end=True)] if end > begin else []
        assert list(read_records(path)) == [*records[: end // 59], *rest]
    for place in range(0, len(whole), 11):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        n = place // 59
        gap = Gap(59 * n, 59, is_end=n == 4)
        assert list(read_records(path)) == [*records[:n], gap, *records[n + 1 :]]


def test_damage_of_the_log_takes_what_it_lies_in_and_is_said(tmp_path):
    """A changed byte in the middle dropped all that was sent after it, without a word."""
    kept = Store(tmp_path)
    for n in range(5):
        push(kept, ("n1",), 1, at=10 * n)
    kept._journal.close()
    kept._guard.close()
    path = list_files(tmp_path / "journal")[0][1]
    whole = path.read_bytes()
    places = [place for place, record in _list_places(whole) if record == b"P"]
    damaged = bytearray(whole)
    damaged[places[2] + 20] ^= 1
    path.write_bytes(damaged)
    kept = Store(tmp_path)
    assert kept.live_samples == 8  # two metrics
    (said,) = kept.losses
    assert "damaged in 1 place" in said
    kept.checkpoint()
    assert path.with_suffix(".damaged").read_bytes() == damaged
    kept.close()
    again = Store(tmp_path)
    assert again.losses == []
    assert len(read_values(again)) == 4
    again.close()


def _list_places(data):
    place = 0
    while place < len(data):
        yield place, data[place + 8 : place + 9]
        place += 8 + int.from_bytes(data[place : place + 4], "little")


def test_series_are_let_go(tmp_path):
    """A series of a node that is gone for ever counted for ever: at 2,000,000 none was taken."""
    kept = Store(tmp_path, Keeping(samples_days=2))
    push(kept, ("n1", "n2"), 1)
    kept.checkpoint()
    push(kept, ("n2",), 1, at=10)
    kept.checkpoint(now_s=time.time() + 3 * 86_400)  # n2 has a sample in memory
    assert (kept.live_series, kept.list_hosts("c1")) == (2, ["n2"])  # two metrics
    push(kept, ("n3", "n1"), 1, at=20)
    assert kept.live_series == 6
    kept._journal.close()  # as after a kill
    kept._guard.close()
    again = Store(tmp_path, Keeping(samples_days=2))
    assert again.list_hosts("c1") == ["n1", "n2", "n3"]
    for host, times in (("n1", 2), ("n2", 2), ("n3", 1)):
        found = again.read_samples("c1", [host], 0, 2**62)
        assert (host, found.height) == (host, 2 * times)
    again.close()


def test_jobs_whose_end_never_comes_are_let_go(tmp_path):
    """They took a place for ever: at 200,000 no job was taken any more."""
    day = 86_400
    kept = Store(tmp_path)
    lost, longer = start(kept, 1, at=NOW), start(kept, 2, at=NOW, walltime=30 * day)
    free = start(kept, 3, at=NOW, walltime=None)
    kept.checkpoint(now_s=NOW + 300 * day)  # nothing began since: none needs their place
    assert {known.key for known in kept.list_live()} == {lost, longer, free}
    last = start(kept, 4, at=NOW + 9 * day)
    kept.checkpoint(now_s=NOW + 9 * day)
    assert {known.key for known in kept.list_live()} == {longer, free, last}
    job = kept.find_job(lost)
    assert (job.row["state"], job.row["end_ns"]) == ("unknown", (NOW + day) * 10**9)
    with pytest.raises(DoubleError, match="ended already"):
        start(kept, 1, at=NOW)
    ahead = start(kept, 5, at=NOW + 90 * day)  # a clock that is wrong ends nobody's job
    kept.checkpoint(now_s=NOW + 10 * day)
    assert {known.key for known in kept.list_live()} == {longer, free, last, ahead}
    kept.close()


def test_a_checkpoint_that_fails_gives_no_number_twice(tmp_path, monkeypatch):
    """The series was let go before; the log behind it gives its number to another one."""
    kept = Store(tmp_path, Keeping(samples_days=2))
    push(kept, ("n1", "n2"), 1)
    kept.checkpoint()

    def fail(*_, **__):
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(kept, "commit_state", fail)
        with pytest.raises(OSError, match="full"):
            kept.checkpoint(now_s=time.time() + 3 * 86_400)
    assert kept.live_series == 0
    push(kept, ("n3", "n2"), 1, at=10)
    kept._journal.close()
    kept._guard.close()
    again = Store(tmp_path, Keeping(samples_days=2))
    found = again.read_samples("c1", ["n1", "n2", "n3"], 0, 2**62)
    found = found.filter(found["metric"] == "cpu_load")
    assert found["host"].to_list() == ["n1", "n2", "n2", "n3"]
    again.close()


def test_old_days_go(tmp_path):
    kept = Store(tmp_path / "s", Keeping(samples_days=2, jobs_days=30))
    day = 86_400
    for number, age in enumerate((0, 1, 5, 40)):
        start(kept, number, at=NOW - age * day - 3600)
        push(kept, ("n1",), 2, at=-age * day)
        stop(kept, number, at=NOW - age * day)
    kept.checkpoint()
    kept.drop_old(NOW * 10**9)
    assert Search(kept).list_jobs(Wanted())[1] == 3
    assert sorted(NOW - t for t in read_values(kept)) == [10, 20, day + 10, day + 20]
    kept.close()


def test_one_service_a_folder(kept):
    with pytest.raises(InputError, match="in use"):
        Store(kept.root)


def test_too_much_that_cannot_be_written_is_refused(kept, monkeypatch):
    monkeypatch.setattr(store, "MOST_UNSAVED", 10)
    with pytest.raises(FullError):
        push(kept, ("n1",), 20)
    monkeypatch.setattr(store, "MOST_UNSAVED", 10**6)
    monkeypatch.setattr(store, "MOST_SERIES", 1)
    with pytest.raises(FullError):
        push(kept, ("n1", "n2"), 1)
    assert read_values(kept) == {}


def test_more_jobs_than_any_cluster_runs_are_refused(kept, monkeypatch):
    """Also of those that ended and wait for a checkpoint, and of a few that are very large."""
    monkeypatch.setattr(store, "MOST_JOBS", 2)
    start(kept, 1)
    start(kept, 2)
    stop(kept, 1)
    with pytest.raises(FullError):
        start(kept, 3)
    kept.checkpoint()
    start(kept, 3)
    monkeypatch.setattr(store, "MOST_JOBS", 100)
    monkeypatch.setattr(store, "MOST_JOB_BYTES", 3000)
    start(kept, 4)
    with pytest.raises(FullError):
        start(kept, 5, hosts=[f"node{n}" for n in range(200)])
    monkeypatch.setattr(store, "MOST_ENDED", 0)
    assert not kept.is_heavy
    stop(kept, 4)
    assert kept.is_heavy


def test_gpus_of_others_on_a_shared_node_are_left_out(kept):
    key = start(kept, 1, gpus=1, accelerators=["0"])
    lines = [
        f"nv_util,hostname=n1,type=accelerator,type-id={gpu} value={value} {NOW - 60 + 10 * at}"
        for at in range(6)
        for gpu, value in ((0, 90), (1, 5))
    ]
    kept.write_points(PointReader().read("\n".join(lines).encode(), "c1", now_ns=NOW * 10**9))
    use = kept.find_job(key).find_use("acc_utilization", "accelerator")
    assert use.places == (("n1", "0"),)
    assert use.mean == 90.0
