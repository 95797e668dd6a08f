"""GPUs race through their work at a high clock, and then idle.

Symptom
    Bursts at the highest clock, with pauses between them that nobody needs.

Why it hurts
    The last part of the clock costs the most energy. Where work waits for the next piece anyway,
    a lower clock takes less energy and ends in time.

Evidence
    On one GPU, under one power limit, two levels of the SM clock with a minute and more of busy
    time each, and the joules for each cycle of its busiest pipe (`sightline stats energy_of_work`);
    and idle time enough for the work of the higher level to take as long as at the lower one. The
    gain is what that work would have saved there, with the bounds of the meter that favour it
    least. Levels that were not recorded are not judged; nor those that the power limit made, since
    the work makes them.

Threshold
    Over 5 % of the measured energy (TraceLens agent, 2026-08: its threshold for time), and more
    than the meter may be wrong.

Fix
    nvidia-smi -lgc MHZ (lock the clock; -rgc gives it back), or a power limit.

False positives
    Answers that are waited for: what ends a request later is not a pause that nobody needs.

References
    Le Sueur and Heiser, "Slow Down or Sleep, That is the Question" (USENIX ATC 2011); NVIDIA NVML
    API Reference, nvmlDeviceSetGpuLockedClocks.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.algebra.scalars import sum_column
from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.core.units import format_hours
from sightline.diagnosis.build import NOTABLE_PCT, Advice, build_finding
from sightline.subjects.energy.rules._regimes import (
    Choice,
    Regime,
    choose_regime,
    list_evidence,
    list_regimes,
    rate_confidence,
)
from sightline.subjects.energy.rules._shared import (
    name_gpus,
    price_energy,
    show_stretches,
    write_share,
)
from sightline.timeline.device_use import BUSY, DEVICE, IDLE, measure_all

RULE = Rule("race-to-idle", "Work at the highest clock, then idle")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    choices = []
    for device, regimes in list_regimes(run, "level_mhz", "power_limit_w"):
        free = [r for r in regimes if not r.limited_pct]
        place = {n: device[n] for n in DEVICE}
        choices += _choose(place, free, _measure_idle_s(run, place))
    gain = sum(c.saved_j for c in choices)
    if choices and 100 * gain >= NOTABLE_PCT * measure_all(run):
        yield _make_finding(run, choices, gain)


def _choose(place: dict[str, int], free: list[Regime], idle_s: float) -> list[Choice]:
    """Slower clocks for the costliest levels, as far as the device's idle time lasts."""
    found = []
    for used in sorted(free, key=lambda r: -r.energy_j):
        lower = [r for r in free if r.setting < used.setting]
        in_time = [r for r in lower if used.work / r.rate - used.seconds <= idle_s]
        choice = choose_regime(place, used, in_time)
        if choice is not None:
            found.append(choice)
            idle_s -= max(0.0, choice.extra_s)
    return found


def _measure_idle_s(run: Run, place: dict[str, int]) -> float:
    states = run.ask("energy_of_states").filter(pl.col("state") == IDLE, **place)
    return sum_column(states, "duration_ns") / 1e9


def _make_finding(run: Run, choices: list[Choice], gain: float) -> Finding:
    cost = sum(c.used.energy_j for c in choices)
    devices = pl.DataFrame([c.device for c in choices])
    rows = run.ask("energy_of_states").join(devices.unique(), on=DEVICE, how="semi")
    idle = sum_column(rows.filter(pl.col("state") == IDLE), "duration_ns")
    best = min(c.best.setting for c in choices)
    return build_finding(
        RULE,
        f"{name_gpus(devices)} worked at up to {max(c.used.setting for c in choices):.0f} MHz, "
        f"which took {write_share(run, cost)}, and idled for {format_hours(idle)}. At "
        f"{best:.0f} MHz, recorded too, the same work took at least {100 * gain / cost:.0f} % less "
        "and fits into the time.",
        show_stretches(rows.filter(pl.col("state") == BUSY), list_evidence(choices, "MHz")),
        Advice(
            fix=f"nvidia-smi -lgc {best:.0f}, if nothing waits for the end of each burst",
            verify="sightline stats energy_of_work AFTER: j_per_tcycle",
            cause="the highest clocks cost the most energy",
            sources=("NVML API Reference: nvmlDeviceSetGpuLockedClocks",),
        ),
        price=price_energy(run, cost, gain),
        method="the recorded work at the recorded clock that took least, by the least favorable "
        "bounds of the measurement; idle power is left out",
        confidence=rate_confidence(choices),
    )
