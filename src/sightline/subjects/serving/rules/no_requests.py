"""The server has nothing to do: no request is there.

Symptom
    Long gaps between steps of an inference engine.

Why it hurts
    It does not: nothing of the server is slow then. But figures of the whole window, such as how
    busy the GPU is, are of the load and not of the server.

Evidence
    Idle time between steps in which no request was there: by the client's log, else by who decodes
    before and behind the gap (`sightline stats engine_steps`).

Threshold
    5 % of the window (TraceLens agent, 2026-08, of time that no kernel uses).

Fix
    Record under the load that matters.

False positives
    Requests that wait in front of the server, as in a gateway, are not seen.

References
    None.
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.model.declare import Finding, Price, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_ns, format_pct, format_several
from sightline.diagnosis.build import NOTABLE_PCT, Advice, Evidence, build_finding
from sightline.subjects.serving.findings import list_steps, measure_windows
from sightline.timeline import causes

RULE = Rule("no-requests", "The server has no request to run", causes=(causes.NO_REQUEST,))


def check(run: Run) -> Iterator[Finding]:
    """At most one remark over all ranks."""
    steps = list_steps(run)
    if steps is None:
        return
    idle = steps.filter(steps["no_request_ns"] > 0)
    cost = int(idle["no_request_ns"].sum())
    share = 100 * cost / measure_windows(run)[0]
    if share < NOTABLE_PCT:
        return
    yield build_finding(
        RULE,
        f"No request was there for {format_pct(share)} of the window.",
        Evidence([f"{format_several(idle.height, 'gap')} between steps, {format_ns(cost)} in all"]),
        Advice(
            fix="record under the load that matters:  sightline run --server KIND URL --requests "
            "64 --concurrency 16",
            verify="sightline stats engine_steps AFTER: no_request_ns",
        ),
        price=(Price(cost, "ns", min(share, 100.0)), Price(0, "ns", 0.0)),
        severity="info",
    )
