"""Memory grows from step to step: blocks of one call stack are never released.

Symptom
    Allocated memory after each step is higher than after the one before, until the program fails.

Why it hurts
    The run ends by running out of memory, hours later and somewhere else.

Evidence
    Bytes that a call stack still holds at the end of each step: their slope (Theil-Sen), and how
    often they rose (sign test). `sightline stats memory_leaks` lists all stacks that grow.

Threshold
    Rises that chance explains in under 5 % of cases: five of five, or more of more; growth over the
    recording of at least 0.1 % of the peak (ours: less is bookkeeping).

Fix
    Keep numbers, not tensors that hold their graph: loss.item() or loss.detach() in sums and logs;
    clear lists, caches and hooks that collect outputs; do not keep the graph (retain_graph).

False positives
    A cache that fills in the first steps and then stops, in a recording that ends before it does.

References
    PyTorch FAQ, "My model reports cuda runtime error(2): out of memory"; Sen, "Estimates of the
    regression coefficient based on Kendall's tau" (1968).
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_bytes, format_note, format_several
from sightline.diagnosis.build import Advice, Evidence, build_finding, price_part
from sightline.subjects.memory.rules._shared import (
    find_device_peaks,
    locate_device,
    name_device,
    select_device,
)

RULE = Rule("memory-leak", "Memory leak")
CHANCE = 0.05
LEAST_PCT = 0.1


def check(run: Run) -> Iterator[Finding]:
    """One finding for the stack of each device that grows most."""
    for device in find_device_peaks(run).iter_rows(named=True):
        growing = select_device(run.ask("memory_leaks"), device).filter(
            pl.col("p_value") < CHANCE,
            pl.col("bytes_per_step") > 0,
            100 * (pl.col("last_bytes") - pl.col("first_bytes"))
            >= LEAST_PCT * device["allocated_bytes"],
        )
        if growing.is_empty():
            continue
        worst = growing.row(0, named=True)
        lost = worst["last_bytes"]
        yield build_finding(
            RULE,
            f"{format_bytes(worst['bytes_per_step'])} more are held on {name_device(device)} after "
            f"each step, allocated by {worst['place'] or 'a stack that was not recorded'}.",
            Evidence(
                [
                    f"{format_several(worst['rises'], 'rise')} and "
                    f"{format_several(worst['falls'], 'fall')} over "
                    f"{format_several(worst['steps'], 'step')}, from "
                    f"{format_bytes(worst['first_bytes'])} to {format_bytes(lost)}",
                    format_note(worst["blocks"], "blocks of it are never released"),
                    *(
                        f"{format_bytes(row['bytes_per_step'])} a step also from {row['place']}"
                        for row in growing.slice(1, 2).iter_rows(named=True)
                    ),
                ],
                where=locate_device(device),
            ),
            Advice(
                fix="keep numbers instead of tensors with their graph (loss.item(), .detach()), "
                "and clear what collects outputs from step to step",
                verify="sightline stats memory_leaks AFTER: no row of this place",
                cause="something keeps a reference to what each step allocates there",
                sources=("PyTorch FAQ: out of memory",),
            ),
            price=price_part(lost, lost, device["allocated_bytes"], "bytes"),
            method="the bytes that this stack held at the end of the last step",
            severity="critical",
        )
