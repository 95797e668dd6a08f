"""Texts from recordings, made short and harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.text import begin_lower, fit_text, fit_texts


@given(st.text(max_size=200), st.integers(2, 100))
def test_fit_never_exceeds_its_width_and_holds_nothing_that_steers_a_terminal(text, width):
    fitted = fit_text(text, width)
    assert len(fitted) <= width
    assert fitted.isprintable()


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (60, "vectorized_elementwise_kernel<GeluCUDAKernelImpl>"),
        (40, "vectorized_elementw…<GeluCUDAKernelImpl>"),
        (29, "vectoriz…<GeluCUDAKernelImpl>"),
        (28, "vectorized_element…rnelImpl>"),
    ],
)
def test_a_name_is_cut_before_its_template_arguments(width, shown):
    assert fit_text("vectorized_elementwise_kernel<GeluCUDAKernelImpl>", width) == shown


def test_texts_that_differ_where_they_are_cut_are_told_apart() -> None:
    buckets = [
        f"vllm:time_to_first_token_seconds_bucket, le={le}, model_name=m" for le in (0.5, 10)
    ]
    fitted = fit_texts([*buckets, buckets[0], "short"], 32)
    assert fitted[0] == fitted[2]
    assert fitted[0] != fitted[1]
    assert "le=0.5" in fitted[0]
    assert "le=10" in fitted[1]
    assert fitted[3] == "short"
    assert all(len(text) <= 32 for text in fitted)


@given(st.lists(st.text(max_size=60), max_size=6), st.integers(4, 40))
def test_fitted_texts_are_no_wider(texts: list[str], width: int) -> None:
    assert all(len(text) <= width for text in fit_texts(texts, width))


def test_a_sentence_within_another_keeps_its_acronym() -> None:
    assert begin_lower("GPU idle: start-up") == "GPU idle: start-up"
    assert begin_lower("The host waits") == "the host waits"
    assert begin_lower("A") == "a"
    assert begin_lower("") == ""


def test_names_of_one_word_that_a_cut_would_make_one_are_told_apart() -> None:
    start, end = "trt_turing_h1688cudnn_256x64_ldg8_relu_exp_", "_nhwc_linkable_tn_v1"
    fitted = fit_texts([f"{start}interior{end}", f"{start}small{end}"], 40)
    assert "interior" in fitted[0]
    assert "small" in fitted[1]
    assert all(len(text) <= 40 for text in fitted)
