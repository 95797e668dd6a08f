"""The steps of an inference engine as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import MissingDataError
from support.traces import host, kernel, opened, write


def test_tokens_and_gaps_of_each_step(tmp_path: Path) -> None:
    names = ("execute_context_1(16)_generation_0(0)", "execute_context_0(0)_generation_1(1)")
    run = opened(
        tmp_path, [host("user_annotation", name, 100 * i, 40) for i, name in enumerate(names)]
    )
    table = run.ask("engine_steps")
    columns = ("phase", "prefill_tokens", "decode_tokens", "duration_ns", "gap_ns", "scheduler_ns")
    assert table.select(columns).rows() == [
        ("prefill", 16, 0, 40_000, 0, 0),
        ("decode", 0, 1, 40_000, 60_000, 60_000),
    ]
    # What annotations show is a step: iterations do not last until the next one.
    assert "no_steps" not in [limit["kind"] for limit in run.answer().limits]


def test_a_program_without_an_engine(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="no engine's steps were found"):
        opened(tmp_path, [kernel("k", 0, 9)]).ask("engine_steps")


@pytest.mark.corpus
def test_a_network_without_attention_serves_no_text(corpus: Path) -> None:
    """TensorRT enlarges pictures here: it has no steps of a language model."""
    run = sightline.open(str(corpus / "nsys/JeremyGuo__RealCUGAN-TensorRT/profile.nsys-rep"))
    with pytest.raises(MissingDataError, match="no engine's steps were found"):
        run.ask("engine_steps")


def open_steps(folder: Path, texts: list[str], metrics: str = "") -> sightline.Session:
    events = [host("user_annotation", text, 100 * n, 90) for n, text in enumerate(texts)]
    paths = [write(folder, events)]
    if metrics:
        (folder / "metrics.prom").write_text(metrics)
        paths.append(folder / "metrics.prom")
    return sightline.open(*map(str, paths))


COLUMNS = ("phase", "prefill_requests", "prefill_tokens", "decode_requests", "decode_tokens")
DECODE = "execute_context_0(0)_generation_4(4)"
AGAIN = "execute_context_0(0)_generation_4(133)"  # a preempted request of 130 tokens, and three


def test_a_preempted_request_is_computed_again_and_not_verified(tmp_path: Path) -> None:
    """vLLM counts it among the requests that it continues, with all of its tokens."""
    steps = open_steps(tmp_path, [DECODE] * 5 + [AGAIN]).ask("engine_steps")
    assert steps.select(COLUMNS).rows()[4:] == [("decode", 0, 0, 4, 4), ("mixed", 1, 130, 3, 3)]


def test_few_tokens_again_are_told_from_drafts_by_the_metrics(tmp_path: Path) -> None:
    few = "execute_context_0(0)_generation_4(9)"
    counter = '# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total{e="0"}'
    metrics = f"{counter} 2 1000\n{counter.splitlines()[1]} 3 2000\n"
    for name, texts, told, expected in (
        ("drafted", [DECODE] * 5 + [few], "", ("verify", 0, 0, 4, 9)),
        ("preempted", [DECODE] * 5 + [few], metrics, ("mixed", 1, 6, 3, 3)),
        ("both", [few] * 5 + [DECODE], metrics, ("decode", 0, 0, 4, 4)),
    ):
        (tmp_path / name).mkdir()
        steps = open_steps(tmp_path / name, texts, told).ask("engine_steps")
        assert steps.select(COLUMNS).rows()[-1] == expected, name
        assert name != "both" or steps["phase"].to_list()[:5] == ["verify"] * 5
