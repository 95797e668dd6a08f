"""iterations: what is marked, what ranges say, and what the order of the kernels shows."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.timeline.iterations import find_period
from support.ask import rows
from support.traces import Event, copy, host, kernel, opened, step


def _loop(count: int, names: str, at: int = 100, pause: int = 50) -> list[Event]:
    """Kernels of 10 µs without a gap, one for each letter, and a pause before each round."""
    made = []
    for _ in range(count):
        at += pause
        for letter in names:
            made.append(kernel(letter, at, 10))
            at += 10
    return made


def test_marks_come_before_all_else(tmp_path: Path) -> None:
    """Kernels repeat every 90 µs, but the program says what its steps are."""
    run = opened(tmp_path, [step(1, 0, 200), step(2, 200, 300), *_loop(8, "abcd")])
    assert rows(run, "iterations", "step", "duration_ns", "source", "confidence") == [
        ("ProfilerStep#1", 200_000, "marks", "high"),
        ("ProfilerStep#2", 300_000, "marks", "high"),
    ]


@pytest.mark.parametrize("name", ["step {}", "iteration_{}", "batch={}"])
def test_ranges_begin_iterations(tmp_path: Path, name: str) -> None:
    """Three ranges of 20 µs, 100 µs apart: from start to start, the last one to its own end."""
    marks = [host("user_annotation", name.format(i), 100 * i, 20) for i in range(3)]
    run = opened(tmp_path, [*marks, kernel("a", 5, 300)])
    assert rows(run, "iterations", "start_ns", "duration_ns", "source") == [
        (0, 100_000, "ranges"),
        (100_000, 100_000, "ranges"),
        (200_000, 20_000, "ranges"),
    ]


def test_an_engines_ranges_end_where_they_end(tmp_path: Path) -> None:
    """Behind its step an inference engine may wait for requests; its steps are of any phase."""
    names = ("EXTEND bs=1 toks=9", "DECODE bs=8", "DECODE bs=8")
    marks = [host("user_annotation", f"step[{n}]", 100 * i, 20) for i, n in enumerate(names)]
    assert rows(opened(tmp_path, marks), "iterations", "start_ns", "duration_ns", "source") == [
        (100_000 * i, 20_000, "engine ranges") for i in range(3)
    ]


def test_an_optimizer_ends_iterations(tmp_path: Path) -> None:
    """Three of 20 µs, 100 µs apart: from end to end; when the first began nothing tells."""
    marks = [host("user_annotation", "Optimizer.step#SGD.step", 100 * i, 20) for i in range(3)]
    run = opened(tmp_path, [*marks, kernel("a", 5, 300)])
    assert rows(run, "iterations", "start_ns", "duration_ns") == [
        (0, 20_000),
        (20_000, 100_000),
        (120_000, 100_000),
    ]


def test_order_of_kernels(tmp_path: Path) -> None:
    """Six rounds of a, b, b, c: they begin at a, which alone follows a pause and comes once."""
    run = opened(tmp_path, _loop(6, "abbc"))
    found = rows(run, "iterations", "step", "start_ns", "duration_ns", "source", "match_pct")
    assert found == [
        *[(f"found #{i}", 150_000 + 90_000 * i, 90_000, "kernel order", 100.0) for i in range(5)],
        # Behind the last one no other begins: it ends with its operations.
        ("found #5", 600_000, 40_000, "kernel order", 100.0),
    ]
    assert rows(run, "iterations", "confidence")[0] == ("low",)  # nothing of it is done once


@pytest.mark.parametrize(
    ("rounds", "copied", "confidence"), [(6, 6, "medium"), (600, 1, "low")]
)  # in each round, or in one of so many that they are as good as equal
@pytest.mark.parametrize("name", ["Memcpy HtoD (Pinned -> Device)", "[CUDA memcpy Host-to-Device]"])
def test_input_is_copied_once_an_iteration(
    tmp_path: Path, name: str, rounds: int, copied: int, confidence: str
) -> None:
    events = _loop(rounds, "abbc")
    for e in [e for e in events if e["name"] == "c"][1 : 1 + copied]:
        e.update(cat="gpu_memcpy", name=name)
    found = rows(opened(tmp_path, events[4:]), "iterations", "confidence", "match_pct")
    assert found[0][0] == confidence
    assert found[0][1] > 99.5


def test_layers_are_no_iterations(tmp_path: Path) -> None:
    """Five rounds of e, 30 times l m n, h: three places apart 97 % are alike, 92 apart all."""
    run = opened(tmp_path, _loop(5, "e" + "lmn" * 30 + "h", pause=0))
    assert rows(run, "iterations", "duration_ns") == [(920_000,)] * 5


def test_uploaded_parameters_hide_no_iterations(tmp_path: Path) -> None:
    """300 copies before four such rounds are alike at any short distance."""
    rounds = _loop(4, "e" + "lmn" * 30 + "h", pause=0)
    upload = [
        copy("Memcpy HtoD (Pageable -> Device)", 0.1 * i, 0.05, 4_000_000) for i in range(300)
    ]
    found = rows(opened(tmp_path, [*upload, *rounds]), "iterations", "duration_ns", "match_pct")
    assert found == [(920_000, 100.0)] * 4


def test_a_round_that_was_cut_off_is_no_iteration(tmp_path: Path) -> None:
    events = _loop(6, "abbc")
    assert len(rows(opened(tmp_path, events[:-1]), "iterations", "step")) == 5


@pytest.mark.parametrize("seed", range(5))
def test_random_order_has_no_period(seed: int) -> None:
    dice = random.Random(seed)
    codes = pl.Series([dice.randrange(10) for _ in range(3000)], dtype=pl.UInt64)
    assert find_period(codes) is None


@pytest.mark.parametrize("seed", range(5))
def test_period_among_kernels_that_come_and_go(seed: int) -> None:
    """20 rounds of 60 kernels in a random order that repeats; one kernel in 200 is another one."""
    dice = random.Random(seed)
    order = [dice.randrange(12) for _ in range(60)]
    codes = [99 if dice.random() < 0.005 else c for _ in range(20) for c in order]
    found = find_period(pl.Series(codes, dtype=pl.UInt64))
    assert found is not None
    assert found[0] == 60
    assert 97 < found[1] < 100


def test_two_rounds_are_no_period(tmp_path: Path) -> None:
    assert rows(opened(tmp_path, _loop(2, "abcde")), "iterations", "step") == []


def test_steady_window_of_found_iterations(tmp_path: Path) -> None:
    """The first of six is left out: four rounds of 90 µs and the last of 40, 40 µs of each busy."""
    run = opened(tmp_path, _loop(6, "abbc")).with_window("steady")
    assert rows(run, "breakdown", "window_ns", "compute_ns") == [(400_000, 200_000)]


# Recordings with five marked steps or more, and all of their kernels in the same order.
MARKED = (
    ("ranges", "facebookresearch__HolisticTraceAnalysis/trace_diff/control/control.json.gz"),
    ("kernel order", "facebookresearch__HolisticTraceAnalysis/trace_diff/control/control.json.gz"),
    ("kernel order", "pytorch__kineto/tb_plugin/samples/resnet50_num_workers_0/"
                     "worker0.1623143089861.pt.trace.json.gz"),
    pytest.param("kernel order", "facebookresearch__HolisticTraceAnalysis/df_index_resolver/"
                 "df_index_resolver.json.gz", marks=pytest.mark.campaign),
    pytest.param("kernel order", "facebookresearch__HolisticTraceAnalysis/"
                 "negative_queue_length_values_check/rank0.json.gz", marks=pytest.mark.campaign),
)  # fmt: skip


@pytest.mark.corpus
@pytest.mark.parametrize(("source", "name"), MARKED)
def test_found_steps_are_the_marked_ones(
    name: str, source: str, corpus: Path, tmp_path: Path
) -> None:
    """Without its marks a real recording has iterations as long as those that it marks, ± 2 %."""
    path = corpus / "kineto" / name
    marked = sightline.open(str(path)).ask("iterations")
    assert set(marked["source"]) == {"marks"}
    told = json.loads(gzip.decompress(path.read_bytes()))
    hidden = "Profiler" if source == "ranges" else ("Profiler", "Optimizer")
    left = [e for e in told["traceEvents"] if not str(e.get("name")).startswith(hidden)]
    found = opened(tmp_path, left).ask("iterations")
    assert set(found["source"]) == {source}
    length = marked["start_ns"].diff().median()
    assert found["duration_ns"].median() == pytest.approx(length, rel=0.02)
