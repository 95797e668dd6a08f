"""Jobs whose end never comes: their scheduler's message was lost, and they would run for ever.

A job's time limit is kept by its scheduler: Slurm ends it within `OverTimeLimit` and `KillWait` of
it (slurm.conf), or never where an administrator suspends it or raises the limit. So a job counts as
over a week behind its limit, and after the time in which nothing runs where it has none.
"""

from __future__ import annotations

from collections.abc import Collection

from sightline.cluster.documents import Known

_DAY_NS = 86_400 * 10**9
# Ours: behind the limit; and of jobs without one.
_GRACE_NS, _LONGEST_NS = 7 * _DAY_NS, 400 * _DAY_NS
# Where so many run that new ones would soon be refused, those a day behind their limit are over.
_CROWDED, _CROWDED_GRACE_NS = 100_000, _DAY_NS
STATE = "unknown"  # how it ended


def list_lost(running: Collection[Known], now_ns: int) -> list[tuple[str, int]]:
    """Keys of the jobs that are over by now, and when that was, in ns: at their limit.

    It is not later than the newest job began: where no new ones begin, none needs their place.
    """
    now_ns = min(now_ns, max((known.row["start_ns"] for known in running), default=0))
    grace = _CROWDED_GRACE_NS if len(running) > _CROWDED else _GRACE_NS
    lost = []
    for known in running:
        limit = known.row.get("limit_ns") or 0
        end = known.row["start_ns"] + (limit or _LONGEST_NS)
        if end + (grace if limit else 0) < now_ns:
            lost.append((known.key, end))
    return lost
