"""An inference server's part of the answer, and of the screen."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

import sightline
from sightline.views.terminal.screen import render_screen
from support.served import BENCH
from support.traces import kernel, opened
from synth_serving.causes import prefill_long_prompts
from synth_serving.kineto import write_client, write_trace


def test_one_screen_of_a_server(tmp_path: Path) -> None:
    served = prefill_long_prompts(random.Random(0)).served
    paths = (write_trace(served, tmp_path), write_client(served, tmp_path))
    answer = sightline.open(*map(str, paths)).answer()
    screen = render_screen(answer).plain
    assert max(map(len, screen.splitlines())) <= 80
    decoded = sum(s.decode for s in served.steps if s.phase == "decode")
    count = sum(s.phase == "decode" for s in served.steps)
    (line,) = (line for line in screen.splitlines() if line.startswith("decode "))
    assert line.split()[1:3] == [f"{count:,}", f"{decoded:,}"]
    assert "Steps of vLLM, by its annotations" in screen
    assert "A token of a running request takes" in screen
    assert "time to first token (requests)" in screen


def test_a_benchmark_with_details_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps(BENCH))
    screen = render_screen(sightline.open(str(path)).answer()).plain
    assert "time to first token (requests)" in screen
    assert "(benchmark)" not in screen


def test_other_programs_have_no_such_part(tmp_path: Path) -> None:
    assert opened(tmp_path, [kernel("k", 0, 9)]).answer().serving == {}


def test_a_histogram_without_its_sum_has_no_mean(tmp_path: Path) -> None:
    name = "vllm:time_to_first_token_seconds"
    bounds = ("0.001", "0.005", "0.01", "0.02", "0.04", "+Inf")
    lines = [f'{name}_bucket{{le="{le}"}} {10 * n}' for n, le in enumerate(bounds)]
    path = tmp_path / "metrics.prom"
    path.write_text("\n".join([f"# TYPE {name} histogram", *lines, ""]))
    [row] = sightline.open(str(path)).ask("serving_load").to_dicts()
    assert (row["mean"], row["count"]) == (None, 50)
    assert row["p50"] == pytest.approx(15.0)
