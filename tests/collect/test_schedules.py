"""Schedules of what is recorded."""

from __future__ import annotations

import os

import pytest

from sightline.inline import timing


@pytest.mark.parametrize("text", ["1:2", "a:b:c", "1:1:0", "-1:0:1", ""])
def test_a_schedule_that_is_none_is_refused(text):
    with pytest.raises(ValueError, match="is no schedule"):
        timing.steps_of(text)
    assert timing.steps_of("2:1:5") == [2, 1, 5]
    assert os.environ.get("SIGHTLINE_RUN") is None
