"""All stacks of a run, from whatever its recordings hold."""

from __future__ import annotations

from sightline.core.model.run import Run
from sightline.errors import MissingDataError, RequestError
from sightline.flames import device_samples, energy, recorded, scaled, timeline
from sightline.flames.stacks import UNITS, Stacks, order_stacks, unite_stacks


def build_stacks(run: Run) -> Stacks:
    """Every weight that the run can give. Raises MissingDataError where there is none."""
    parts: list[Stacks] = []
    if run.rows("device_ops"):
        on_device = timeline.stack_device_time(run)
        parts.append(scaled.open_kernels(run, on_device) if run.rows("pc_samples") else on_device)
        parts.append(timeline.stack_idle_time(run))
        if run.rows("counters"):
            parts += energy.stack_energy(run)
    if run.rows("cpu_samples"):
        parts.append(recorded.stack_samples(run))
    elif run.rows("host_ops"):
        parts.append(timeline.stack_cpu_time(run))
    if run.rows("stack_weights"):
        parts.append(recorded.stack_weights(run))
    if run.rows("memory_events"):
        parts.append(recorded.stack_peak_memory(run))
    if run.rows("pc_samples"):
        parts.append(device_samples.stack_stalls(run))
    if not parts:
        raise MissingDataError(
            "there is nothing to draw a flame graph of",
            why=f"the recording has {', '.join(run.present()) or 'no rows'}",
        )
    return order_stacks(unite_stacks(parts))


# What a person may call a weight: joules are counted as whole microjoules.
_ALIASES = {"energy_j": "energy_uj"}


def choose_weight(stacks: Stacks, wanted: str | None) -> str:
    """The weight to draw: the wanted one, else the first of UNITS that is not zero."""
    have = [w for w in [*UNITS, *stacks.weights] if w in stacks.weights and stacks.total(w)]
    if wanted is None:
        if not have:
            raise MissingDataError("all weights of the recording's stacks are zero")
        return have[0]
    wanted = _ALIASES.get(wanted, wanted)
    if wanted not in stacks.weights:
        raise RequestError(
            f"the recording gives no weight '{wanted}'",
            why=f"it gives {', '.join(dict.fromkeys(have)) or 'none'}",
        )
    return wanted
