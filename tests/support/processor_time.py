"""Bounds that hold on any machine: of processor time, of which other programs take none."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager


def read_processor_time() -> float:
    """Seconds of this process and of those that it waited for, so far."""
    return time.process_time() + sum(os.times()[2:4])  # children's user and system


@contextmanager
def takes_at_most(seconds: float) -> Iterator[None]:
    """Fail where what is done inside took more, in this process and those that it waited for."""
    before = os.times()
    yield
    took = sum(os.times()[:4]) - sum(before[:4])  # user, system, and both of children
    assert took < seconds, f"took {took:.1f} s of processor time, at most {seconds} s are allowed"
