"""Real PyTorch in worker processes, and recordings that a clock ends."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

import sightline as sl
from support import recording

pytestmark = [
    pytest.mark.xdist_group("torch"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed"),
]

# Each worker multiplies by itself: 7 products, and the parent none.
WORKERS = """
import sys, multiprocessing, torch
def work(rank):
    x = torch.ones(4, 4)
    for _ in range(7): torch.mm(x, x)
class Data(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.mm(torch.ones(4, 4), torch.ones(4, 4))
if __name__ == "__main__":
    how = sys.argv[1]
    if how == "mp.spawn":
        torch.multiprocessing.spawn(work, nprocs=int(sys.argv[2]))
    elif how == "loader":
        load = torch.utils.data.DataLoader
        for _ in load(Data(), num_workers=1, multiprocessing_context="spawn"):
            torch.mm(torch.ones(4, 4), torch.ones(4, 4))
    else:
        context = multiprocessing.get_context(how)
        workers = [context.Process(target=work, args=(n,)) for n in range(2)]
        for worker in workers: worker.start()
        for worker in workers: worker.join()
"""
# The main thread waits in C when its time is up; what it multiplies later is not recorded.
WAITING = """
import ctypes, sys, time, torch
x = torch.ones(4, 4)
torch.mm(x, x)
if sys.argv[1] == "sleep": time.sleep(4)
else: ctypes.PyDLL(None).usleep(6_000_000)  # with the GIL
for _ in range(3): torch.mm(x, x)
"""


def record(folder: Path, program: str, how: str, *options: str, workers: int = 2) -> sl.Run:
    (folder / "program.py").write_text(program)
    words = [sys.executable, "-W", "ignore", "program.py", how, str(workers)]
    options = ("--backend", "torch", *options)
    done = recording.run(
        "--no-report", "--backend", "torch", *options, "-o", "t", "--", *words, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return sl.open(str(folder / "t.sightline"))


def count_products(run: sl.Run) -> list[int]:
    """Matrix products of each process, fewest first; of those that made none, nothing."""
    products = run.table("host_ops").filter(name="aten::mm")
    return sorted(products.group_by("rank").len().get_column("len").to_list())


def notes(run: sl.Run, kind: str) -> list[str]:
    return run.table("quality").filter(kind=kind).get_column("text").to_list()


@pytest.mark.campaign
def test_spawned_workers_are_recorded(tmp_path):
    assert count_products(record(tmp_path, WORKERS, "mp.spawn")) == [7, 7]


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["spawn", "forkserver"])
def test_workers_of_other_start_methods(tmp_path, how):
    assert count_products(record(tmp_path, WORKERS, how)) == [7, 7]


@pytest.mark.campaign
def test_forked_workers_are_said_to_be_missing(tmp_path):
    run = record(tmp_path, WORKERS, "fork")
    assert count_products(run) == []
    (row,) = run.table("quality").filter(kind="torch_forked").to_dicts()
    assert row["count"] == 2
    assert "spawn" in row["remedy"]
    assert not list((tmp_path / "t.sightline").glob(".forked*"))


@pytest.mark.campaign
def test_a_process_that_loads_data_is_no_rank(tmp_path):
    run = record(tmp_path, WORKERS, "loader")
    assert count_products(run) == [4]
    assert run.table("recordings").get_column("rank").n_unique() == 1


@pytest.mark.timing
@pytest.mark.campaign
def test_a_recording_ends_in_time_though_the_main_thread_sleeps(tmp_path):
    run = record(tmp_path, WAITING, "sleep", "--seconds", "1")
    assert count_products(run) == [1]
    assert notes(run, "torch_overrun") == []


@pytest.mark.timing
@pytest.mark.campaign
def test_a_recording_that_cannot_end_in_time_says_how_long_it_was(tmp_path):
    run = record(tmp_path, WAITING, "gil", "--seconds", "1")
    assert "instead of 1.0 s" in notes(run, "torch_overrun")[0]
