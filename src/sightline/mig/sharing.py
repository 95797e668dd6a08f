"""Whether MIG, MPS, time-slicing or MPS within an instance suits, and why.

What each can do: NVIDIA's MIG user guide, its MPS documentation (memory protection since Volta, one
fault ends all clients, 48 clients on a device), k8s-device-plugin's README (time-slicing and MPS
exclude each other, no MPS on MIG devices).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sightline.core.units import format_several
from sightline.mig.models import WHOLE, Model
from sightline.mig.planner import Plan
from sightline.mig.wants import Want, list_fitting

MPS_CLIENTS = 48
# What the driver and each client's context take cannot be planned with: ours, 0.5 GB of context
# being the usual size on data-center GPUs.
_CONTEXT_BYTES = 500_000_000
# Several fit one smallest instance: below a third of it the instance is mostly idle (ours).
_SMALL = 1 / 3
_MOST_PACKED = 20_000  # workloads that are packed one by one; of more only the bound is said


class Manner(NamedTuple):
    """A way to share, with what holds for it whatever is shared."""

    name: str
    isolation: str
    cost: str
    limit: str


MANNERS = (
    Manner(
        "MIG",
        "memory, bandwidth, cache and faults, in hardware",
        "SMs and memory that no slice has",
        "7 instances (4 on A30, RTX PRO); fixed sizes; changing them needs idle instances",
    ),
    Manner(
        "MPS",
        "memory only; a fault ends all clients; bandwidth is shared",
        "little; programs run at the same time",
        f"{MPS_CLIENTS} clients of one user; in Kubernetes equal shares only",
    ),
    Manner(
        "time-slicing",
        "none but the processes' own; no limit of memory",
        "a switch of contexts; programs run in turn",
        "memory of all must fit at once; no share is guaranteed",
    ),
    Manner(
        "MPS in MIG",
        "in hardware between instances, as MPS within one",
        "as both",
        "start MPS after the cut, one daemon an instance; not by Kubernetes' device plugin",
    ),
)


class Advice(NamedTuple):
    """GPUs that each way takes (None: it cannot serve all), and which one suits."""

    mig: int | None
    mps: int | None
    time_slicing: int | None
    manner: str
    why: str


def advise_sharing(plan: Plan, model: Model, gpus: int, *, isolate: bool) -> Advice:
    """Which way suits these wants on GPUs of one model."""
    wants = plan.wants
    mig = None if sum(plan.unserved) else plan.used
    mps = _pack(wants, model, gpus, with_sms=True)
    turns = _pack(wants, model, gpus, with_sms=False)
    few = format_several(mig or 0, "GPU")
    if isolate:
        why = "isolation is required, and only MIG has it in hardware"
        if mig is None:
            why += "; not all are served, though: they need more GPUs"
        return Advice(mig, mps, turns, "MIG", why)
    small = [want for want in wants if want.count > 1 and _is_small(want, model)]
    if small:
        name = small[0].name
        why = f"{name} needs less than a third of the smallest instance: several share one by MPS"
        return Advice(mig, mps, turns, "MPS in MIG", why)
    if mig is not None and (mps is None or mig <= mps):
        why = f"{few} serve all, which MPS would not do with fewer; isolation costs nothing here"
        return Advice(mig, mps, turns, "MIG", why.replace("GPU serve", "GPU serves"))
    if mps is not None:
        than = few if mig is not None else "more than there are"
        why = (
            f"it needs {format_several(mps, 'GPU')}, MIG {than}; but all programs must be of one "
            "user, and a fault of one ends all"
        )
        return Advice(mig, mps, turns, "MPS", why)
    if turns is not None:
        why = "together they need more SMs than there are, but their memory fits: each gets slower"
        return Advice(mig, mps, turns, "time-slicing", why)
    return Advice(mig, mps, turns, "MIG", "nothing serves all on these GPUs; MIG serves the most")


def _is_small(want: Want, model: Model) -> bool:
    """Less than a third of the smallest instance in both respects; unknown needs are not small."""
    if want.profile is not None or not want.memory_bytes or not want.sm_share:
        return False
    smallest = min(model.sizes, key=model.get_memory_bytes)
    return want.memory_bytes < _SMALL * model.get_memory_bytes(
        smallest
    ) and want.sm_share < _SMALL * model.get_sm_share(smallest)


def _pack(wants: Sequence[Want], model: Model, gpus: int, *, with_sms: bool) -> int | None:
    """GPUs that the wants fill when they share, largest first; None where they do not fit."""
    room = model.get_memory_bytes(WHOLE)
    needs: list[tuple[int, float]] = []
    for want in wants:
        memory, share = want.memory_bytes, want.sm_share
        if want.profile is not None:
            keys = list_fitting(want, model)
            if not keys:
                return None
            memory, share = model.get_memory_bytes(keys[0]), model.get_sm_share(keys[0])
        needs += [(memory + _CONTEXT_BYTES, share if with_sms else 0.0)] * want.count
    if len(needs) > _MOST_PACKED:
        return None
    used: list[list[float]] = []
    for memory, share in sorted(needs, reverse=True):
        place = next(
            (
                one
                for one in used
                if one[0] + memory <= room and one[1] + share <= 1 and one[2] < MPS_CLIENTS
            ),
            None,
        )
        if place is None:
            if memory > room or len(used) == gpus:
                return None
            place = [0.0, 0.0, 0.0]
            used.append(place)
        place[0], place[1], place[2] = place[0] + memory, place[1] + share, place[2] + 1
    return len(used)
