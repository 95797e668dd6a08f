"""host-first-run: operators whose first calls are most of a recording without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent
from support.traces import op, opened

RULE = "host-first-run"


def inference(folder: Path, first: int, usual: int, zeros: int = 0) -> Run:
    """Twenty convolutions of `usual` µs, the first of `first`; before them one fill of `zeros`."""
    events, at = [], 0
    if zeros:
        events.append(op("aten::zeros", at, zeros))
        at += zeros + 10
    for n in range(20):
        length = usual if n else first
        events.append(op("aten::cudnn_convolution", at, length))
        at += length + 10
    return opened(folder, events)


def test_a_first_convolution_and_the_fill_that_made_a_context(tmp_path: Path) -> None:
    (found,) = answers(inference(tmp_path, 300_000, 200, zeros=400_000), RULE)
    assert found.title == "Nothing but a first run"
    assert found.states_limit
    assert found.evidence == (
        "400.0 ms  aten::zeros, once",
        "300.0 ms  aten::cudnn_convolution, the other 19 200.0 µs each",
    )
    assert found.summary.startswith(
        "First calls of 2 operators take 700.0 ms, 99.4 % of the window"
    )


def test_less_than_half_is_a_remark(tmp_path: Path) -> None:
    (found,) = answers(inference(tmp_path, 4_000, 400), RULE)
    assert (found.title, found.severity, found.states_limit) == ("First calls", "info", False)
    assert found.summary.startswith("The first call of 1 operator takes 4.000 ms, ")
    assert found.summary.endswith("it sets up what is used later, and happens once.")
    assert found.gain is None and "leave them out of what is timed" in (found.fix or "")


@pytest.mark.parametrize(
    ("first", "usual", "zeros"),
    [(1_500, 200, 0), (800, 400, 0), (200, 200, 400_000)],
    ids=["7.5 times as long", "a tenth of the window", "a single call alone"],
)
def test_silence(tmp_path: Path, first: int, usual: int, zeros: int) -> None:
    assert_silent(inference(tmp_path, first, usual, zeros), RULE)
