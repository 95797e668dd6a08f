"""PyTorch's own tool on the same snapshots (torch/cuda/_memory_viz.py), figure by figure."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import sightline as sl
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


@pytest.mark.corpus
def test_the_summary_of_segments(corpus: Path, viz: ModuleType) -> None:
    compared = 0
    for path in sorted((corpus / "memory_snapshot").rglob("*.pickle")):
        document = load_plain(path.read_bytes())
        try:
            said = viz.segsum(document)
        except AssertionError:  # a made-up snapshot, whose blocks do not fill its segments
            continue
        total = {
            k: int(v) for k, v in re.findall(r"^total_(reserved|allocated): (\d+)", said, re.M)
        }
        run = sl.open(str(path))
        row = run.ask("fragmentation").row(0, named=True)
        asked = row["active_bytes"] - row["rounding_bytes"]
        assert (row["reserved_bytes"], asked) == (total["reserved"], total["allocated"])
        compared += 1
    assert compared == 5


@pytest.mark.corpus
def test_the_flame_graph_of_blocks(corpus: Path, viz: ModuleType) -> None:
    for path in sorted((corpus / "memory_snapshot").rglob("*.pickle")):
        lines = viz.memory(load_plain(path.read_bytes()), format_flamegraph=lambda text: text)
        theirs = dict.fromkeys(("active", "inactive"), 0)
        for line in lines.splitlines():
            words, _, size = line.rpartition(" ")
            theirs["inactive" if ";inactive" in words else "active"] += int(size)
        blocks = sl.open(str(path)).table("memory_blocks")
        ours = dict.fromkeys(theirs, 0)
        for state, size in blocks.select("state", "bytes").iter_rows():
            ours["inactive" if state == "inactive" else "active"] += size
        assert ours == theirs
