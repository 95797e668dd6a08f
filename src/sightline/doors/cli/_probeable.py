"""Whether programs can be probed on this machine, for the doctor: it is tried."""

from __future__ import annotations

from sightline.record.collect.backend import Way

_WHAT = {"bpf": "GPU calls of running programs (eBPF)", "perf": "the same by perf_event"}


def list_probeable() -> list[Way]:
    """Each backend of `sightline probe`, with the reason why it cannot be used."""
    from sightline.record.probe.available import BACKENDS, find_obstacle

    ways = []
    for name in BACKENDS:
        obstacle = find_obstacle(name)
        ways.append(Way(_WHAT[name], obstacle is None, obstacle or "ready"))
    return ways
