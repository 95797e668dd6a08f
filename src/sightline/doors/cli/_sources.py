"""What `watch` and `top` share: their period, the sources, and the word that there is no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightline.record.monitor.sources import Found

_LEAST_S = 0.1


def read_period_s(text: str, option: str = "--period") -> float:
    """The time between two rounds in seconds. Raises RequestError where it is too short."""
    from sightline.core.units import parse_duration_ns
    from sightline.errors import RequestError

    period_s = parse_duration_ns(text) / 1e9
    if period_s < _LEAST_S:
        raise RequestError(f"{option} {text} is too short", why=f"{_LEAST_S}s is the least")
    return period_s


@contextmanager
def open_places(names: list[str] | None = None) -> Iterator[list[Found]]:
    """The places that can be read, or why not; their sources are closed at the end."""
    from sightline.record.monitor.sources import open_sources

    found = open_sources(names)
    try:
        yield found
    finally:
        for place in found:
            if place.source is not None:
                place.source.close()


def say_no_gpu(found: list[Found]) -> None:
    """On standard error why no place has a GPU."""
    import sys

    from sightline.record.monitor.sources import explain_no_gpu

    lines = ["No GPU can be read here, only the host:", *explain_no_gpu(found)]
    print("\n".join(lines), file=sys.stderr, flush=True)
