"""Texts of engines around their steps, as their sources write them, and what each states."""

from __future__ import annotations

import polars as pl
import pytest

from sightline.timeline.step_annotations import ANY_TEXT, NUMBERS, parse_annotations

TEXTS = {
    "execute_context_2(82)_generation_1(1)": ("vllm", 2, 82, None, 1, 1, None, None),
    "execute_context_0(0)_generation_0(0)": ("vllm", 0, 0, None, 0, 0, None, None),
    "execute_8192_context_9(sq8155sk8430sqsq7475785sqsk7671310)"
    "_generation_37(sq37sk34489sqsq37sqsk34489)": ("vllm", 9, 8155, 8430, 37, 37, 34489, None),
    "execute_new_3_cached_5": ("vllm", 3, None, None, 5, None, None, None),
    "step[EXTEND bs=2 toks=12 c_sqsq=80 c_sqsk=120 c_sk=20]": (
        *("sglang", 2, 12, 20, None, None, None, None),
    ),
    "step[DECODE bs=64]": ("sglang", None, None, None, 64, None, None, None),
    "step[DECODE bs=2 g_sqsq=2 g_sqsk=30 g_sk=30]": (
        *("sglang", None, None, None, 2, None, 30, None),
    ),
    "step[MIXED bs=2 c=1 g=1 c_sq=5 c_sk=8 c_sqsq=25 c_sqsk=40 "
    "g_sq=1 g_sk=12 g_sqsq=1 g_sqsk=12]": (
        *("sglang", 1, 5, 8, 1, 1, 12, None),
    ),
    "[Executor] _forward_step 12: 3 ctx reqs, 5 gen reqs": (
        *("trtllm", 3, None, None, 5, None, None, None),
    ),
    "[Executor] _forward_step 12: 3 ctx reqs, 900 ctx tokens, 5 gen reqs": (
        *("trtllm", 3, 900, None, 5, None, None, None),
    ),
    "executeStep: 1 ctx reqs 7 gen reqs": ("trtllm", 1, None, None, 7, None, None, None),
    "prefill[bs=2 tok=16384 ctx=[8192, 8192]]": ("atom", 2, 16384, None, None, None, None, None),
    "decode[bs=117/128 tok=117]": ("atom", None, None, None, 117, None, None, 128),
}  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_text_states_these_numbers(text: str) -> None:
    (row,) = parse_annotations(pl.Series([text, text])).select("engine", *NUMBERS).rows()
    assert row == TEXTS[text]
    assert pl.Series([text]).str.contains(ANY_TEXT).all()


@pytest.mark.parametrize(
    "text", ["execute_model", "step 7", "decode", "ProfilerStep#3", "capture_128_decode", "prefill"]
)
def test_other_texts_are_no_steps_of_an_engine(text: str) -> None:
    assert parse_annotations(pl.Series([text])).is_empty()
    assert not pl.Series([text]).str.contains(ANY_TEXT).any()


def test_a_number_that_no_64_bits_hold_is_no_step() -> None:
    text = f"execute_context_{'9' * 30}(1)_generation_0(0)"
    assert parse_annotations(pl.Series([text])).is_empty()
