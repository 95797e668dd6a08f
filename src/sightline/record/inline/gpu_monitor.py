"""`with sl.gpu_monitor()`: the GPUs sampled while a block of code runs."""

from __future__ import annotations

from typing import Any

from sightline.record.inline import session
from sightline.record.inline.recorder import now
from sightline.record.nvml.library import Unavailable
from sightline.record.nvml.sampling import PERIOD_S, Sampler
from sightline.record.nvml.summary import summarize_samples


class gpu_monitor:  # used as a context manager
    """`with sl.gpu_monitor() as m:` samples the GPUs in the block; `m.summary()` says what it saw.

    The summary has `available` (and `reason` where it is False), `seconds`, and `devices` as
    `summary` gives them. The samples go into the run that is recorded, if one is.
    """

    def __init__(self, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._sampler: Sampler | None = None
        self._reason = "it was not entered"

    def __enter__(self) -> gpu_monitor:
        file = session.open_recorder() if session.state.on else None
        try:
            self._sampler = Sampler(lambda _: file, self._period_s).start()
        except Unavailable as error:
            self._reason = str(error)
        return self

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None:
            self._sampler.stop()

    def summary(self) -> dict[str, Any]:
        """What was seen so far."""
        sampler = self._sampler
        if sampler is None:
            return {"available": False, "reason": self._reason, "devices": []}
        end = sampler.ended if sampler.ended > sampler.began else now()
        return {
            "available": True,
            "reason": None,
            "seconds": (end - sampler.began) / 1e9,
            "cost_seconds": sampler.cost_ns / 1e9,
            "devices": summarize_samples(sampler),
        }
