"""What a sample costs the program: measured on work of our own, with and without samples."""

from __future__ import annotations

import threading
import time
from hashlib import sha256

from sightline.errors import RequestError
from sightline.record.sampling.events import Events

_HZ = 10_000  # enough samples in a few ms
_WORK = bytes(1 << 20)  # some ms of hashing, in C, without Python's lock
_ROUNDS = 5


def measure_sample_cost() -> int | None:
    """ns of CPU time that a sample takes from the sampled thread; None where it cannot be told.

    The fastest of several rounds with samples and without, in turn, as others use the processor.
    """
    try:
        events = Events(_HZ)
        events.attach([threading.get_native_id()])
    except RequestError:
        return None
    try:
        return _compare(events)
    finally:
        events.close()


def _compare(events: Events) -> int | None:
    with_samples, without, count = [], [], 0
    for _ in range(_ROUNDS):
        events.enable()
        before, _ = events.read_counts()
        with_samples.append(_time_work())
        spent = events.read_counts()[0] - before
        events.disable()
        count = max(count, spent // events.period_ns)
        without.append(_time_work())
    if not count:
        return None
    return max(round((min(with_samples) - min(without)) / count), 0)


def _time_work() -> int:
    began = time.thread_time_ns()
    sha256(_WORK)
    return time.thread_time_ns() - began
