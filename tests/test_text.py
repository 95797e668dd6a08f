"""Texts from recordings, made short and harmless."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sightline.text import fit_text


@given(st.text(max_size=200), st.integers(2, 100))
def test_fit_never_exceeds_its_width_and_holds_nothing_that_steers_a_terminal(text, width):
    fitted = fit_text(text, width)
    assert len(fitted) <= width
    assert fitted.isprintable()
