"""The rings that samples of probes are written to, and what a sample is."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from sightline.record.probe import perf_event as e
from sightline.record.probe.processors import Processor

Array = np.ndarray[Any, Any]

_LOST, _SAMPLE = 2, 9  # include/uapi/linux/perf_event.h: types of records
_RECORD_HEAD, _LOST_BODY = struct.Struct("<IHH"), struct.Struct("<QQ")


def _describe_sample(processor: Processor) -> np.dtype[Any]:
    """A sample up to its piece of the stack."""
    return np.dtype(
        [("type", "<u4"), ("misc", "<u2"), ("size", "<u2"), ("id", "<u8"), ("pid", "<u4"),
         ("tid", "<u4"), ("time", "<u8"),
         # PERF_SAMPLE_RAW: the event's fields behind their size, 8 bytes of which all events have;
         # of a return, the function's address comes first, then where it returned to.
         ("raw_size", "<u4"), ("common", "V8"), ("address", "<u8"), ("second", "<u8"),
         ("padding", "V4"), ("abi", "<u8"),
         ("registers", "<u8", (len(processor.sampled),)), ("stack_size", "<u8")]
    )  # fmt: skip


class SampleRing(e.Ring):
    """The ring of one processor that events write samples of one size to."""

    def __init__(self, event: int, size: int, stack: int, processor: Processor) -> None:
        super().__init__(event, size)
        self.lost = 0
        head = _describe_sample(processor)
        self._sample = np.dtype(
            [("head", head), ("stack", "<u8", (stack // 8,)), ("dynamic_size", "<u8")]
        )

    def take(self) -> Iterator[Array]:
        """All samples, copied; what was lost is counted."""
        content = self.take_bytes()
        count = len(content)
        at, step = 0, self._sample.itemsize
        while at + 8 <= count:
            rows = np.frombuffer(content, self._sample, (count - at) // step, at)
            good = (rows["head"]["type"] == _SAMPLE) & (rows["head"]["size"] == step)
            whole = int(np.argmin(good)) if not good.all() else len(rows)
            if whole:
                yield rows[:whole]
                at += whole * step
                continue
            kind, _, size = _RECORD_HEAD.unpack_from(content.data, at)
            if kind == _LOST:
                self.lost += _LOST_BODY.unpack_from(content.data, at + 8)[1]
            at += max(size, 8)
