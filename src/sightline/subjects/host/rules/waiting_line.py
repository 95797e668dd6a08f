"""A line of the program in which a thread sleeps or waits, by stacks of threads that do not run.

Symptom
    A service that answers slowly while its CPU is idle; a loop that takes longer than its work.

Why it hurts
    A call that sleeps or waits holds its thread. In a callback of asyncio's event loop it holds all
    others that the loop serves.

Evidence
    py-spy's samples of all threads, less those of threads that ran, by the program's own line that
    they end in: a call into C there, such as time.sleep, a socket's recv or a lock, has no frame of
    its own. What the standard library waits in (a selector, a queue) is not counted: there a thread
    waits because it has nothing to do.

Threshold
    10 % of what was sampled (ours: as for hot-function), and 0.2 s of it.

Fix
    In an event loop await what waits, or move it to a thread. Else wait for less, or do something
    meanwhile.

False positives
    A thread that is meant to sleep, such as one that polls.

References
    Python documentation, "Developing with asyncio": "Running Blocking Code".
"""

from __future__ import annotations

from collections.abc import Iterator

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule, make_price
from sightline.core.model.run import Run
from sightline.core.text import name_file
from sightline.core.units import format_ns, format_pct
from sightline.diagnosis.build import MAX_ROWS, Advice, Evidence, build_finding
from sightline.timeline.hot_stacks import list_waiting

RULE = Rule("waiting-line", "A thread waits in one line")

LEAST_PCT = 10.0
LEAST_NS = 200_000_000
_MOSTLY = 0.5


def check(run: Run) -> Iterator[Finding]:
    """At most one finding, of a recording without a device's work."""
    if run.rows("device_ops") or not run.rows("stack_weights"):
        return
    lines = list_waiting(run)
    if lines.is_empty():
        return
    first = lines.row(0, named=True)
    whole = max(first["whole"], 1)
    if first["value"] < LEAST_NS or 100 * first["value"] < LEAST_PCT * whole:
        return
    looped = first["looped"] > _MOSTLY * first["value"]
    place = f"{first['function']} ({name_file(first['file'])}:{first['line']})"
    share = format_pct(100 * first["value"] / whole)
    held = sum_column(lines, "looped") if looped else first["value"]
    evidence = [
        f"{format_pct(100 * row['value'] / whole)} {row['function']} "
        f"({name_file(row['file'])}:{row['line']}), {format_ns(row['value'])}"
        for row in lines.head(MAX_ROWS).iter_rows(named=True)
        if 100 * row["value"] >= whole
    ]
    yield build_finding(
        RULE,
        f"A call that waits in {place} holds the event loop for {share} of the sampled time, "
        f"{format_ns(first['value'])}; the loop serves nothing else meanwhile."
        if looped
        else f"A thread waits in {place} for {share} of the sampled time, "
        f"{format_ns(first['value'])}, in a call such as sleep, recv or acquire.",
        Evidence(evidence, rows=lines.head(MAX_ROWS).to_dicts()),
        Advice(
            fix="await the call that waits there (asyncio.sleep, an asynchronous client), or move "
            "it out of the loop: await asyncio.to_thread(…)"
            if looped
            else "wait for less, or overlap the wait: do the next piece of work meanwhile, in a "
            "thread or a process",
            verify="sightline flame AFTER --weight wall_time_ns -o flame.html",
            sources=("Python documentation: Developing with asyncio, Running Blocking Code",),
        ),
        title="The event loop is blocked" if looped else None,
        # What the loop is held by keeps all others: without it, they are served at once.
        price=(make_price(held, "ns"), make_price(held, "ns") if looped else None),
        severity="info",
        confidence="high",
        states_limit=True,
    )
