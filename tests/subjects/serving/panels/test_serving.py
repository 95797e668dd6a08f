"""The page of an inference server: each step where it lies, by phase; other programs have none."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import sightline
from sightline.core.page.declare import View
from sightline.errors import MissingDataError
from sightline.subjects.serving.panels.serving import data
from support.traces import kernel, opened
from synth_serving.causes import admit_few, prefill_long_prompts
from synth_serving.kineto import write_client, write_trace


def test_strip_of_steps_and_tables(tmp_path: Path) -> None:
    served = prefill_long_prompts(random.Random(0)).served
    strip, waterfall, *tables = data(View(sightline.open(str(write_trace(served, tmp_path)))))
    assert [strip["kinds"][n] for n in strip["of"]] == [step.phase for step in served.steps]
    first = served.steps[0].start_ns  # of the recording: the range of the first step
    assert strip["start"] == [step.kernels[0].start_ns - first for step in served.steps]
    assert strip["end"] == [step.kernels[-1].end_ns - first for step in served.steps]
    means = dict(zip(waterfall["labels"], waterfall["end"], strict=True))
    assert waterfall["start"] == [0, *waterfall["end"][:-1]]
    assert len(means) == len(waterfall["rows"]) >= 2
    assert {table["title"] for table in tables} >= {"Steps by phase", "Where a token's time goes"}


def test_requests_in_rows(tmp_path: Path) -> None:
    case = admit_few(random.Random(0))
    paths = [write_trace(case.served, tmp_path), write_client(case.served, tmp_path)]
    _, requests, *_ = data(View(sightline.open(*map(str, paths))))
    count = len(case.served.requests)
    assert requests["rows"] == [*range(count)] * 2
    assert len(requests["labels"]) == count
    first, answer = requests["end"][:count], requests["end"][count:]
    assert requests["start"][count:] == first
    assert all(a <= b <= c for a, b, c in zip(requests["start"], first, answer, strict=False))


def test_other_programs(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="no inference server"):
        data(View(opened(tmp_path, [kernel("k", 0, 9)])))
