"""What a change of some work would save, as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sightline.core.model.run import Run
from sightline.errors import RequestError
from sightline.replay.whatif import parse_wish, replay_wishes, select_nodes
from sightline.timeline.segments import select_repeating


def describe_change(run: Run, scale: Sequence[str], remove: Sequence[str]) -> dict[str, Any]:
    """The window as it was and as it would be, ns, and how much of it each selector matched.

    `scale` are KIND:PATTERN=FACTOR, `remove` KIND:PATTERN (see replay/whatif.py). `most_saved_ns`
    is what would be saved if operations waited for others as their times suggest. Of a recording
    with a long start-up it is of what repeats, as the report is. Raises RequestError where nothing
    is asked, or a selector is wrong or matches nothing.
    """
    wishes = [parse_wish(text, scale=True) for text in scale]
    wishes += [parse_wish(text, scale=False) for text in remove]
    if not wishes:
        raise RequestError(
            "nothing was asked for", hint="Add  --scale 'kernel:gemm=0.5'  or  --remove memcpy:HtoD"
        )
    run = select_repeating(run)
    nodes = run.ask("dependencies")
    counts = [int(select_nodes(run, wish, nodes).sum()) for wish in wishes]
    for wish, count in zip(wishes, counts, strict=True):
        if not count:
            raise RequestError(f"'{wish.text}' matches nothing in this recording")
    result, most = replay_wishes(run, wishes)
    saved = result.before_ns - result.after_ns
    return {
        "window_ns": result.before_ns,
        "new_window_ns": result.after_ns,
        "saved_ns": saved,
        "saved_pct": 100 * saved / max(result.before_ns, 1),
        "most_saved_ns": most.before_ns - most.after_ns,
        "changes": [
            {"selector": wish.text, "factor": wish.factor, "matched": count}
            for wish, count in zip(wishes, counts, strict=True)
        ],
    }
