"""Which process of multiprocessing is the program's, without PyTorch."""

from __future__ import annotations

import multiprocessing
import sys

import pytest

from sightline.record.inline import workers
from sightline.record.inline.session import state


def answer(queue) -> None:
    queue.put(workers.find_worker())


def test_a_worker_is_the_programs():
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    worker = context.Process(target=answer, args=(queue,))
    worker.start()
    assert queue.get() == "program"
    worker.join()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["python", "train.py"], "program"),
        (["python", "-c", "from multiprocessing.spawn ...", "--multiprocessing-fork"], "not yet"),
        (["python", "-c", "from multiprocessing.forkserver import main; main(3)"], "not yet"),
    ],
)
def test_a_worker_that_has_no_work_yet(monkeypatch, line, said):
    monkeypatch.setattr(sys, "orig_argv", line)
    assert workers.find_worker() == said


def test_forked_workers_are_counted_once(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "on", True)
    monkeypatch.setattr(state, "folder", tmp_path)
    monkeypatch.setattr(state, "forked_from", None)
    workers.note_fork()  # its parent was not recorded
    assert workers.count_forks() == 0
    monkeypatch.setattr(state, "forked_from", f"{tmp_path}/.forked-{workers.os.getpid()}")
    workers.note_fork()
    workers.note_fork()
    assert workers.count_forks() == 2
    assert workers.count_forks() == 0
