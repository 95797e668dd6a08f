"""Another power limit that was recorded took less energy for the same work.

Symptom
    GPUs run at their highest limit, and nobody knows what a lower one would cost.

Why it hurts
    Near its highest clock a GPU pays more energy for each instruction: power rises with clock and
    with the square of the voltage.

Evidence
    Two or more power limits in the recording of one GPU, each for a minute and more of busy time,
    with the joules for each cycle of its busiest pipe (`sightline stats energy_of_work`). The gain
    is what the work done at the costlier limit would have saved at the other, with the bounds of
    the meter that favor it least. How much longer it takes is told, too.

    No limit is judged that was not recorded. Where the memory's traffic for each cycle differs by
    more than a tenth, it was other work, and nothing is said.

Threshold
    Over 5 % of the measured energy (TraceLens agent, 2026-08: its threshold for time), and more
    than the meter may be wrong.

Fix
    nvidia-smi -pl WATTS (as root, until the next boot).

False positives
    Jobs that have to end as early as possible.

References
    NVIDIA NVML API Reference, nvmlDeviceSetPowerManagementLimit; Zeus (You, Chung, Chowdhury,
    NSDI 2023), which searches the limit by trying them.
"""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from sightline.core.model.declare import Finding, Rule
from sightline.core.model.run import Run
from sightline.diagnosis.build import NOTABLE_PCT, Advice, build_finding
from sightline.subjects.energy.rules._regimes import (
    Choice,
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
from sightline.timeline.device_use import BUSY, DEVICE, measure_all

RULE = Rule("cap-advice", "A lower power limit took less energy")


def check(run: Run) -> Iterator[Finding]:
    """At most one finding over all devices."""
    choices = []
    for device, regimes in list_regimes(run, "power_limit_w"):
        for used in regimes:
            lower = [r for r in regimes if r.setting < used.setting]
            choice = choose_regime({n: device[n] for n in DEVICE}, used, lower)
            if choice is not None:
                choices.append(choice)
    gain = sum(c.saved_j for c in choices)
    if choices and 100 * gain >= NOTABLE_PCT * measure_all(run):
        yield _make_finding(run, choices, gain)


def _make_finding(run: Run, choices: list[Choice], gain: float) -> Finding:
    cost = sum(c.used.energy_j for c in choices)
    devices = pl.DataFrame([c.device for c in choices])
    limit = max(c.used.setting for c in choices)
    best = max(choices, key=lambda c: c.saved_j).best.setting
    rows = run.ask("energy_of_states").join(devices.unique(), on=DEVICE, how="semi")
    longer = sum(c.extra_s for c in choices) / sum(c.used.seconds for c in choices)
    return build_finding(
        RULE,
        f"Work of {name_gpus(devices)} at a limit of {limit:.0f} W took "
        f"{write_share(run, cost)}; at {best:.0f} W the same work took at least "
        f"{100 * gain / cost:.0f} % less, and {_write_slowdown(longer)}.",
        show_stretches(rows.filter(pl.col("state") == BUSY), list_evidence(choices, "W")),
        Advice(
            fix=f"nvidia-smi -pl {best:.0f}, if the longer run time is acceptable",
            verify="sightline stats energy_of_work AFTER: j_per_tcycle",
            cause="near its highest clock a GPU uses more energy per instruction",
            sources=("Zeus, NSDI 2023", "NVML API Reference: power management limit"),
        ),
        price=price_energy(run, cost, gain),
        method="the recorded work at the recorded limit that took least, by the least favorable "
        "bounds of the measurement",
        confidence=rate_confidence(choices),
    )


def _write_slowdown(longer: float) -> str:
    return "no longer" if longer < 0.005 else f"{100 * longer:.0f} % longer"
