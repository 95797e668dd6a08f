"""Files that need no reading beside another one, which holds the same and more."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.opening.recognise import drop_superseded


@pytest.mark.parametrize(
    ("kept", "left_out"),
    [
        ("run.sqlite", "run.nsys-rep"),
        ("run.nsys-rep", "run.qdstrm"),
        ("host.example.xplane.pb", "host.example.trace.json.gz"),  # as JAX's profiler leaves them
    ],
)
def test_of_one_name_the_one_that_holds_more(kept: str, left_out: str) -> None:
    other = Path("a/other.trace.json.gz")
    files = [Path("a", kept), Path("a", left_out), other]
    assert drop_superseded(files) == [Path("a", kept), other]
    elsewhere = [Path("a", kept), Path("b", left_out)]
    assert drop_superseded(elsewhere) == elsewhere
