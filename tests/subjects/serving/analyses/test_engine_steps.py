"""The steps of an inference engine as a table."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import MissingDataError
from support.traces import host, kernel, opened


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
