"""Bounds that hold on any machine: of processor time, of which other programs take none."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def takes_at_most(seconds: float) -> Iterator[None]:
    """Fail where what is done inside took more, in this process and those that it waited for."""
    before = os.times()
    yield
    took = sum(os.times()[:4]) - sum(before[:4])  # user, system, and both of children
    assert took < seconds, f"took {took:.1f} s of processor time, at most {seconds} s are allowed"
