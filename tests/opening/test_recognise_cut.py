"""What the first 64 kB show is judged, and their end is no end of a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sightline.model.source import HEAD_BYTES, Source
from sightline.opening.recognise import recognise


@pytest.mark.parametrize("shift", range(60))
def test_text_with_a_semicolon_near_the_cut_is_still_json(tmp_path: Path, shift: int) -> None:
    """A Kineto trace whose first line ends nowhere near: the cut falls behind '; 3'."""
    text = "a;b 3 "
    padding = "x" * (HEAD_BYTES - 45 - shift)
    document = {"deviceProperties": [], "pad": padding, "note": text * 20, "traceEvents": []}
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(document))
    assert recognise(Source(path, "trace.json")).name == "kineto"


@pytest.mark.parametrize("first", ["[unknown]", "{lambda}", "[kernel.kallsyms]"])
def test_frames_in_brackets_are_still_stacks(tmp_path: Path, first: str) -> None:
    path = tmp_path / "a.folded"
    path.write_text(f"{first};main;work 12\n")
    assert recognise(Source(path, "a.folded")).name == "collapsed"


@pytest.mark.parametrize("size", [HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1])
def test_one_line_of_stacks_as_long_as_the_head(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.folded"
    path.write_text("main;work 1\n" + "main;" + "w" * (size - 20) + " 1")
    assert recognise(Source(path, "a.folded")).name == "collapsed"
