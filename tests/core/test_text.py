"""Texts from recordings, made short and harmless."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sightline.core.text import fit_text


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
