"""hot_stacks: what CPU stacks end in."""

from __future__ import annotations

from pathlib import Path

from sightline.timeline.host_functions import WAIT
from sightline.timeline.hot_stacks import read_hot_stacks
from support import launch_samples
from support.launch_samples import FRAMES
from support.traces import TID, kernel, launched


def test_an_address_is_named_by_its_library(tmp_path: Path) -> None:
    """Three addresses in libgomp are one wait of OpenMP threads; the program's own are none."""
    gomp = [["native", f"0x7f0f03a64b1{i}", None, "/usr/lib64/libgomp.so.1.0.0"] for i in range(3)]
    own = ["native", "0x55e0", None, "/home/ada/prog"]
    frames = [FRAMES[0], *gomp, own]
    samples = [(10 + 5 * i, TID, 1 + i % 4) for i in range(16)]
    nodes = [(-1, 0), *((0, at) for at in range(1, len(frames)))]
    events = launched(0, kernel("a", 10, 500))
    run = launch_samples.opened(tmp_path, samples, events, frames, nodes)
    hot = read_hot_stacks(run)
    assert hot is not None
    waits = hot.list_kind(WAIT)
    assert waits.get_column("function").to_list() == ["[libgomp.so.1.0.0]"]
    assert hot.list_running().get_column("function").to_list() == ["[prog]"]
    assert 4 * hot.list_running().item(0, "value") == hot.total
