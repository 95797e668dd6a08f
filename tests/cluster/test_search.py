"""Searching: filters, sorts and sums against a plain pass over the same jobs."""

from __future__ import annotations

import threading
from pathlib import Path

import polars as pl
import pytest

from sightline.cluster.demo import list_month
from sightline.cluster.index import Index
from sightline.cluster.search import SORTS, Search, Wanted
from sightline.cluster.shelf import Folder
from sightline.cluster.store import Store
from sightline.cluster.verdicts import describe
from sightline.errors import RequestError
from support.cluster_jobs import start, stop

pytest.importorskip("duckdb", reason="the extra 'cluster' is not installed")


@pytest.fixture(scope="module")
def held(tmp_path_factory):
    """A store of simulated jobs, and the same jobs as rows of their own."""
    store = Store(tmp_path_factory.mktemp("search") / "s")
    jobs = list(list_month(60, 1_790_000_000))
    assert store.add_jobs(jobs) == 60
    assert store.add_jobs(jobs) == 0  # they are there already
    rows = [{**describe(key, job)[0], "cluster": "demo"} for key, job in jobs]
    search = Search(store)
    yield search, rows
    search.close()
    store.close()


@pytest.mark.parametrize("sort", SORTS)
def test_every_sort_is_a_plain_sort(held, sort):
    search, rows = held
    column = SORTS[sort]
    for ascending in (False, True):
        listed, count = search.list_jobs(Wanted(), sort, ascending=ascending, most=1_000)
        assert count == len(rows) == len(listed)
        values = [row[column] for row in rows if row[column] is not None]
        wanted = sorted(values, reverse=not ascending)
        assert [row[column] for row in listed if row[column] is not None] == wanted
        nulls = len(rows) - len(values)
        assert all(row[column] is None for row in listed[len(values) :])
        assert len(listed) - len(values) == nulls


def test_pages_of_a_list_are_the_list(held):
    search, rows = held
    whole = [row["job_key"] for row in search.list_jobs(Wanted(), "user", most=1_000)[0]]
    parts = [search.list_jobs(Wanted(), "user", most=7, offset=at)[0] for at in range(0, 63, 7)]
    assert [row["job_key"] for part in parts for row in part] == whole
    assert sorted(whole) == sorted(row["job_key"] for row in rows)


def test_filters_and_sums_are_plain_ones(held):
    search, rows = held
    middle = sorted(row["start_ns"] for row in rows)[30]
    host = rows[3]["hosts"][0]
    for wanted, keep in (
        (Wanted(exact=(("user", "ada"),)), lambda r: r["user"] == "ada"),
        (Wanted(exact=(("state", "timeout"),)), lambda r: r["state"] == "timeout"),
        (Wanted(rule="job-idle-gpus"), lambda r: r["worst_rule"] == "job-idle-gpus"),
        (Wanted(since_ns=middle), lambda r: r["start_ns"] >= middle),
        (Wanted(until_ns=middle), lambda r: r["start_ns"] < middle),
        (Wanted(least_s=7_200), lambda r: r["duration_ns"] >= 7_200 * 10**9),
        (Wanted(text="HANGS"), lambda r: "hangs" in r["name"]),
        (Wanted(text=host), lambda r: host in r["hosts"]),
        (Wanted(keys=(rows[5]["job_key"],)), lambda r: r is rows[5]),
        (Wanted(keys=()), lambda r: False),
        (Wanted(only_user="ada"), lambda r: r["user"] == "ada"),
        (
            Wanted(only_user="ada", only_projects=("physics",)),
            lambda r: r["user"] == "ada" or r["project"] == "physics",
        ),
        (Wanted(running=True), lambda r: False),
    ):
        own = [row for row in rows if keep(row)]
        listed, count = search.list_jobs(wanted, most=1_000)
        assert count == len(own), wanted
        assert {row["job_key"] for row in listed} == {row["job_key"] for row in own}
        total = search.sum_all(wanted)
        assert total["jobs"] == len(own)
        for column in ("gpu_hours", "wasted_gpu_hours", "core_hours", "wasted_core_hours"):
            assert total[column] or pytest.approx(sum(row[column] for row in own)) == 0
        owners = search.sum_by(wanted, "user")
        assert sum(row["jobs"] for row in owners) == len(own)
        found = search.sum_rules(wanted)
        assert sum(row["jobs"] for row in found) == sum(bool(r["worst_rule"]) for r in own)


def test_what_is_no_column_is_refused(held):
    search, _ = held
    for ask in (
        lambda: search.list_jobs(Wanted(), "job_key; DROP TABLE kept"),
        lambda: search.list_jobs(Wanted(exact=(("1=1 OR user", "x"),))),
        lambda: search.sum_by(Wanted(), "user, 1"),
        lambda: search.list_values("hosts", Wanted()),
        lambda: search.list_jobs(Wanted(), most=10**6),
    ):
        with pytest.raises(RequestError):
            ask()


def test_an_index_that_is_damaged_is_made_anew(tmp_path: Path):
    store = Store(tmp_path / "s")
    store.add_jobs(list_month(5))
    search = Search(store)
    assert search.list_jobs(Wanted())[1] == 5
    search.close()
    place = tmp_path / "s" / "index.duckdb"
    for damage in (b"no database", place.read_bytes()[:5_000], b""):
        place.write_bytes(damage)
        search = Search(store)
        assert search.list_jobs(Wanted())[1] == 5
        search.close()
    place.unlink()
    Index(tmp_path / "s", "64MB", Folder(tmp_path / "s")).close()
    store.close()


def test_a_part_with_a_damaged_page_hides_no_others(tmp_path: Path):
    """Wherever bytes changed: the jobs of all other parts are listed, and what is lost is said."""
    store = Store(tmp_path / "s")
    store.add_jobs(list_month(10, 1_790_000_000))
    part = store.list_parts("jobs")[0]
    path = tmp_path / "s" / part
    whole = path.read_bytes()
    rows = pl.read_parquet(path).height
    for at in range(4, len(whole) - 400, len(whole) // 25):
        damaged = bytearray(whole)
        damaged[at : at + 8] = bytes(byte ^ 0x55 for byte in damaged[at : at + 8])
        path.write_bytes(damaged)
        (tmp_path / "s" / "index.duckdb").unlink(missing_ok=True)
        search = Search(store)
        count = search.list_jobs(Wanted())[1]
        assert count == 10 or (count == 10 - rows and any(part in said for said in store.losses))
        search.close()
    store.close()


def test_lists_are_of_one_moment_while_jobs_come_and_go(tmp_path: Path):
    """Jobs start, end and are written while threads list them: none is lost or twice there."""
    store = Store(tmp_path / "s")
    search = Search(store)
    failed: list[str] = []
    known = [0]
    ended = threading.Event()

    def look() -> None:
        least = 0
        while not ended.is_set():
            least = max(least, known[0])
            rows, count = search.list_jobs(Wanted(), most=1_000)
            keys = [row["job_key"] for row in rows]
            if len(set(keys)) != len(keys) or len(keys) != count or count < least:
                failed.append(f"{len(set(keys))} of {count}, at least {least}")
            least = count

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(40):
        start(store, number)
        known[0] = number + 1
        if number % 2:
            stop(store, number)
        if number % 5 == 4:
            store.checkpoint()
    ended.set()
    for thread in threads:
        thread.join()
    assert failed == []
    assert search.list_jobs(Wanted())[1] == 40
    search.close()
    store.close()
