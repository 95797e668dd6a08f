"""A thread that only waits, while the one that launches is silent, waits for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from sightline.replay.whatif import parse_wish, replay_wishes
from sightline.timeline.lent_waits import list_lent_waits
from support.ask import rows
from support.traces import TID, host, kernel, launched, opened

WAITER = TID + 7


def steps(folder: Path, *, busy: bool = False, times: int = 4) -> Run:
    """Kernels of 1, 2, 3, … ms; another thread synchronizes with each, then the next is launched.

    `busy`: the launching thread goes on to call the runtime meanwhile.
    """
    events, at = [], 0
    for i in range(times):
        takes = 1000 * (i + 1)
        events.append(launched(at, kernel(f"k{i % 2}", at + 10, takes)))
        events.append(host("cuda_runtime", "cudaStreamSynchronize", at + 20, takes, tid=WAITER))
        if busy:
            events.append(host("cuda_runtime", "cudaGetLastError", at + 500, 2))
        at += takes + 200
    return opened(folder, [*events, launched(at, kernel("last", at + 10, 50))])


def halve(run: Run, kernels: str) -> int:
    """How many µs shorter the window is with these kernels twice as fast."""
    gain, _ = replay_wishes(run, [parse_wish(f"{kernels}=0.5", scale=True)])
    return gain.ns // 1000


def test_the_launching_thread_waits_with_it(tmp_path: Path) -> None:
    """Half of 1 + 2 + 3 + 4 ms; what lies between kernels is due to the waits."""
    run = steps(tmp_path)
    lent = list_lent_waits(run)
    assert lent.get_column("tid").to_list() == [TID] * 4
    assert halve(run, "kernel:k") == 5_000
    assert {cause for (cause,) in rows(run, "idle_gaps", "cause")} == {"host_sync"}


@pytest.mark.parametrize(("busy", "times"), [(True, 4), (False, 2)], ids=["busy", "twice"])
def test_a_thread_that_waits_for_itself(tmp_path: Path, busy: bool, times: int) -> None:
    """The other one calls on meanwhile, or was silent by chance."""
    assert list_lent_waits(steps(tmp_path, busy=busy, times=times)).is_empty()
