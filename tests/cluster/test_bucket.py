"""The store's jobs in object storage, by a server of S3 that nobody here wrote."""

from __future__ import annotations

import itertools
import socket
from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

from sightline.cluster import sealing, shelf
from sightline.cluster.bucket import Bucket, Objects
from sightline.cluster.config import make_config
from sightline.cluster.search import Search, Wanted
from sightline.cluster.store import Keeping, Store
from sightline.errors import InputError, RequestError
from support.cluster_jobs import NOW, push, read_values, start, stop
from support.object_storage import open_bucket, set_environment


@pytest.fixture
def bucket(monkeypatch):
    with open_bucket(monkeypatch) as made:
        yield made


def run_job(store: Store, number: int, hosts=("n1", "n2")) -> str:
    """One hour on a GPU of each node, of which the second does nothing."""
    key = start(store, number, hosts=hosts, gpus=len(hosts))
    push(store, hosts, 60, gpu=lambda host, t: 80.0 if host == hosts[0] else 0.0)
    stop(store, number)
    return key


def leave(store: Store) -> None:
    """As a kill leaves it."""
    store._journal.close()
    store._guard.close()


def list_ids(store: Store) -> list[str]:
    search = Search(store)
    rows, count = search.list_jobs(Wanted())
    search.close()
    assert count == len(rows)
    return sorted(row["job_id"] for row in rows)


def test_jobs_lie_in_the_bucket_and_are_the_same_as_in_a_folder(tmp_path, bucket):
    near, far = Store(tmp_path / "near"), Store(tmp_path / "far", bucket=bucket.url)
    for store in (near, far):
        key = run_job(store, 1)
        store.checkpoint()
    names = bucket.list()
    assert [name.split("/")[0] for name in names] == [
        "checkpoint", "courses", "jobs", "owner", "problems",
    ]  # fmt: skip
    assert not [p for kind in shelf.OF_JOBS for p in (tmp_path / "far").glob(f"{kind}/**/*")]
    for kind in shelf.OF_JOBS:  # as others read it: Polars' own S3 client
        place = "cluster=c1/day=*/*.parquet"
        there = pl.read_parquet(f"{bucket.url}/{kind}/{place}")
        assert there.equals(pl.read_parquet(tmp_path / "near" / kind / place))
    here, there = near.find_job(key), far.find_job(key)
    assert here.row == there.row
    assert here.uses.keys() == there.uses.keys()
    assert {k: u.avg.tolist() for k, u in here.uses.items()} == {
        k: u.avg.tolist() for k, u in there.uses.items()
    }
    assert list_ids(near) == list_ids(far) == ["1"]
    near.close()
    far.close()


def test_it_is_opened_again(tmp_path, bucket):
    store = Store(tmp_path / "s", bucket=bucket.url)
    run_job(store, 1)
    store.close()
    run_job(again := Store(tmp_path / "s", bucket=f"{bucket.url}/"), 2)
    again.checkpoint()
    assert list_ids(again) == ["1", "2"]
    again.close()


def test_nothing_is_lost_while_it_is_away(tmp_path, bucket, monkeypatch):
    """Jobs end, a checkpoint fails; a kill; the next checkpoint has them all, each once."""
    store = Store(tmp_path / "s", bucket=bucket.url)
    first = run_job(store, 1)
    store.checkpoint()
    second = run_job(store, 2)
    real = Objects.put

    def fail(self: Objects, name: str, data: bytes) -> None:
        real(self, name, data)  # the worst: it arrived, and nobody said so
        if name.startswith("problems"):
            raise OSError("the network is away")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="away"):
        patch.setattr(Objects, "put", fail)
        patch.setattr(Objects, "remove", lambda *_: (_ for _ in ()).throw(OSError("away")))
        store.checkpoint()
    assert len([n for n in bucket.list() if n.startswith("jobs/")]) == 2
    assert list_ids(store) == ["1", "2"]
    store.checkpoint()
    assert list_ids(store) == ["1", "2"]
    assert len([n for n in bucket.list() if n.startswith("jobs/")]) == 2
    leave(store)
    again = Store(tmp_path / "s", bucket=bucket.url)
    assert list_ids(again) == ["1", "2"]
    assert again.find_job(first).find_use("mem_used").avg.tolist() == [2e9, 2e9]
    assert again.find_job(second) is not None
    again.close()


def test_a_kill_between_its_files_and_its_word(tmp_path, bucket, monkeypatch):
    store = Store(tmp_path / "s", bucket=bucket.url)
    run_job(store, 1)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Objects, "remove", lambda *_: (_ for _ in ()).throw(OSError("away")))
        patch.setattr(
            store, "commit_state", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        store.checkpoint()
    assert [n for n in bucket.list() if n.startswith("jobs/")]
    leave(store)
    again = Store(tmp_path / "s", bucket=bucket.url)
    assert not [n for n in bucket.list() if n.startswith("jobs/")]
    assert list_ids(again) == ["1"]
    again.close()
    assert len([n for n in bucket.list() if n.startswith("jobs/")]) == 1


def test_many_files_of_a_day_become_one_and_old_days_go(tmp_path, bucket, monkeypatch):
    monkeypatch.setattr(sealing, "SCATTERED", 3)
    store = Store(tmp_path / "s", Keeping(jobs_days=7), bucket=bucket.url)
    for number in range(9):
        start(store, number)
        stop(store, number)
        store.checkpoint()
    assert list_ids(store) == [str(n) for n in range(9)]
    store.checkpoint()
    assert len([n for n in bucket.list() if n.startswith("jobs/")]) <= 4
    store.drop_old((NOW + 86_400) * 10**9)
    assert store.drop_old((NOW + 9 * 86_400) * 10**9)
    assert list_ids(store) == []
    assert [n for n in bucket.list() if "/" in n] == []
    store.close()


def test_what_a_folder_has_moves_in(tmp_path, bucket):
    store = Store(tmp_path / "s")
    key = run_job(store, 1)
    store.close()
    moved = Store(tmp_path / "s", bucket=f"{bucket.url}/site")
    assert list_ids(moved) == ["1"]
    assert moved.find_job(key) is not None
    assert not moved.disk.list_parts(shelf.JOBS)
    assert len(read_values(moved)) == 60  # samples stay
    moved.close()
    with pytest.raises(InputError, match=r"lie in s3://jobs-\d+/site") as caught:
        Store(tmp_path / "s")
    assert 'bucket = "s3://' in (caught.value.hint or "")
    with pytest.raises(InputError, match="lie in"):
        Store(tmp_path / "s", bucket=bucket.url)


def test_one_store_writes_to_a_bucket(tmp_path, bucket):
    store = Store(tmp_path / "s", bucket=bucket.url)
    run_job(store, 1)
    store.checkpoint()
    with pytest.raises(InputError, match="archive of another service") as caught:
        Store(tmp_path / "t", bucket=bucket.url)
    assert "--take-over" in (caught.value.hint or "")
    assert list_ids(store) == ["1"]
    other = Store(tmp_path / "u")
    run_job(other, 5)
    other.close()
    with pytest.raises(InputError, match="jobs of its own"):
        Store(tmp_path / "u", bucket=bucket.url, take_over=True)
    store.close()


def test_another_machine_goes_on_where_one_is_gone(tmp_path, bucket):
    """With the jobs that ran at its last checkpoint; the first one writes nothing any more."""
    gone = Store(tmp_path / "gone", bucket=bucket.url)
    run_job(gone, 1)
    running = start(gone, 2)
    gone.checkpoint()
    taken = Store(tmp_path / "new", bucket=bucket.url, take_over=True)
    assert list_ids(taken) == ["1", "2"]
    assert taken.find_job(running).row["state"] == "running"
    run_job(taken, 3)
    stop(taken, 2)
    taken.checkpoint()
    before = bucket.list()
    run_job(gone, 4)
    with pytest.raises(OSError, match="another service has taken it over"):
        gone.checkpoint()
    assert bucket.list() == before
    taken.close()
    leave(gone)
    again = Store(tmp_path / "new", bucket=bucket.url)
    assert list_ids(again) == ["1", "2", "3"]
    again.close()
    with pytest.raises(InputError, match="archive of another service"):
        Store(tmp_path / "gone", bucket=bucket.url)


def test_of_stores_that_claim_a_bucket_at_a_time_one_has_it(tmp_path, bucket):
    def claim(number: int) -> Store | None:
        try:
            return Store(tmp_path / str(number), bucket=bucket.url)
        except InputError as error:
            assert "archive of another service" in str(error)
            return None

    with ThreadPoolExecutor(6) as pool:
        stores = [store for store in pool.map(claim, range(6)) if store is not None]
    assert len(stores) == 1
    run_job(stores[0], 1)
    stores[0].close()
    first, second = Bucket(bucket.url), Bucket(bucket.url)
    marks = first.read_owner()[1], second.read_owner()[1]
    assert (first.write_owner("a", marks[0]), second.write_owner("b", marks[1])) == (True, False)


MOMENTS = 8  # writes of a checkpoint: three files, three that are joined, its word; and none


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_a_store_that_is_taken_over_while_it_writes(tmp_path, bucket, monkeypatch, moment):
    """At each of its writes: what it committed before counts, and nothing that it writes later."""
    monkeypatch.setattr(sealing, "SCATTERED", 1)  # what it joins, it would remove
    old = Store(tmp_path / "old", bucket=bucket.url)
    for number in (1, 2):
        run_job(old, number)
        old.checkpoint()
    running = start(old, 3)
    old.checkpoint()
    run_job(old, 4)
    real = {"put": Objects.put, "put_over": Objects.put_over}
    steps, taken = itertools.count(), []

    def write(how: str):
        def do(self, name, data, *mark):
            if old._bucket is not None and self is old._bucket._objects and next(steps) == moment:
                taken.append(Store(tmp_path / "new", bucket=bucket.url, take_over=True))
                run_job(taken[0], 5)
                taken[0].checkpoint()
            return real[how](self, name, data, *mark)

        return do

    monkeypatch.setattr(Objects, "put", write("put"))
    monkeypatch.setattr(Objects, "put_over", write("put_over"))
    if moment == MOMENTS - 1:  # it has no more writes than those before
        old.checkpoint()
        assert not taken
        leave(old)
        return
    with pytest.raises(OSError):  # or a file that it had written is gone
        old.checkpoint()
    assert taken
    for again in (old.checkpoint, old.drop_old):
        with pytest.raises(OSError, match="another service has taken it over"):
            again()
    leave(old)
    taken[0].checkpoint()
    assert list_ids(taken[0]) == ["1", "2", "3", "5"]
    leave(taken[0])
    new = Store(tmp_path / "new", bucket=bucket.url)
    assert list_ids(new) == ["1", "2", "3", "5"]
    assert new.find_job(running).row["state"] == "running"
    stop(new, 3)
    new.close()
    # No file is left that does not count.
    files = [name for name in bucket.list() if name.startswith("jobs/")]
    held = sealing.unpack_checkpoint(bucket.get("checkpoint"), "")
    assert set(files) - set(held["dropped"]) == set(
        shelf.list_counted(files, held["number"], held["dropped"], held["gaps"])
    )


def test_a_kill_while_a_bucket_is_taken_over(tmp_path, bucket, monkeypatch):
    old = Store(tmp_path / "old", bucket=bucket.url)
    run_job(old, 1)
    old.checkpoint()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(
            Bucket, "write_checkpoint", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
        )
        Store(tmp_path / "new", bucket=bucket.url, take_over=True)
    new = Store(tmp_path / "new", bucket=bucket.url, take_over=True)
    assert list_ids(new) == ["1"]
    new.close()
    leave(old)


def test_an_answer_that_was_lost_is_no_other_owner(tmp_path, bucket, monkeypatch):
    store = Store(tmp_path / "s", bucket=bucket.url)
    run_job(store, 1)
    real = Objects.put_over

    def lose(self, name, data, mark):
        real(self, name, data, mark)
        raise OSError("the network is away")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="away"):
        patch.setattr(Objects, "put_over", lose)
        store.checkpoint()
    store.checkpoint()
    assert list_ids(store) == ["1"]
    store.close()


def test_a_server_that_does_not_answer_is_said(tmp_path, monkeypatch):
    pytest.importorskip("obstore")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        set_environment(monkeypatch, f"http://127.0.0.1:{free.getsockname()[1]}")
    with pytest.raises(OSError, match=r"^s3://jobs: [^\n]+$"):
        Bucket("s3://jobs")
    with pytest.raises(InputError, match="s3://jobs cannot be used") as caught:
        Store(tmp_path / "s", bucket="s3://jobs")
    assert "AWS_ENDPOINT_URL" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "url", ["https://a/b", "s3://", "s3://a b", "s3://x/../y z", "s3://key:word@host/b", 's3://a"b']
)
def test_what_is_no_bucket_is_refused(tmp_path, url):
    with pytest.raises(RequestError, match="`bucket` is"):
        make_config({"cluster": "c1", "bucket": url}, tmp_path)
