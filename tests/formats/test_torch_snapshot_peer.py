"""PyTorch's own tool on the same snapshots (torch/cuda/_memory_viz.py), figure by figure."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import sightline as sl
from support.corpus import list_recordings, name_recording
from support.differences import compare_figures
from support.plain_pickle import load_plain


@pytest.fixture(scope="module")
def viz() -> ModuleType:
    """The peer, which needs nothing else of torch; its sizes in bytes instead of rounded."""
    found = importlib.util.find_spec("torch")
    if found is None or found.origin is None:
        pytest.skip("torch is not installed")
    path = Path(found.origin).parent / "cuda" / "_memory_viz.py"
    spec = importlib.util.spec_from_file_location("_memory_viz", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.Bytes = int
    return module


# Made up by hand: its blocks do not fill its segments, which the peer does not accept.
MADE_UP = "memory_snapshot/facebookresearch__mosaic/test/snapshots/output.pickle"
every_snapshot = pytest.mark.parametrize(
    "path", list_recordings("memory_snapshot/**/*.pickle"), ids=name_recording
)


@pytest.mark.corpus
@every_snapshot
def test_the_summary_of_segments(path: Path, viz: ModuleType) -> None:
    document = load_plain(path.read_bytes())
    if name_recording(path) == MADE_UP:
        with pytest.raises(AssertionError):
            viz.segsum(document)
        return
    total = {
        k: int(v)
        for k, v in re.findall(
            r"^total_(reserved|allocated): (\d+)", viz.segsum(document), re.MULTILINE
        )
    }
    row = sl.open(str(path)).ask("fragmentation").row(0, named=True)
    ours = (row["reserved_bytes"], row["active_bytes"] - row["rounding_bytes"])
    theirs = (total["reserved"], total["allocated"])
    compare_figures(path, "bytes reserved and allocated", ours, theirs)


@pytest.mark.corpus
@every_snapshot
def test_the_flame_graph_of_blocks(path: Path, viz: ModuleType) -> None:
    lines = viz.memory(load_plain(path.read_bytes()), format_flamegraph=lambda text: text)
    theirs = dict.fromkeys(("active", "inactive"), 0)
    for line in lines.splitlines():
        words, _, size = line.rpartition(" ")
        theirs["inactive" if ";inactive" in words else "active"] += int(size)
    blocks = sl.open(str(path)).table("memory_blocks")
    ours = dict.fromkeys(theirs, 0)
    for state, size in blocks.select("state", "bytes").iter_rows():
        ours["inactive" if state == "inactive" else "active"] += size
    compare_figures(path, "bytes of blocks by state", ours, theirs)
