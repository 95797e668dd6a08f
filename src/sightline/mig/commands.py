"""A plan as what other tools read: nvidia-smi's commands in order, mig-parted's, Kubernetes'.

Syntax: `nvidia-smi mig --help` (a profile by id, a colon, its first slot), mig-parted's README
(v1, device-filter), NVIDIA's device plugin (resources of the mixed strategy) and DRA driver
(class mig.nvidia.com, attribute profile).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from sightline.mig.planner import CutGpu, Plan

# A plan of more GPUs is of several machines: numbers of GPUs say nothing then.
MOST_OF_ONE_MACHINE = 16
_NEEDS_RESET = ("A30", "A100")  # MIG user guide: since Hopper MIG mode changes without a reset


class Step(NamedTuple):
    """A command, why it is there, and whether its failing stops the rest."""

    words: tuple[str, ...]
    why: str
    may_fail: bool = False


def list_steps(plan: Plan, numbers: list[int] | None = None) -> list[Step]:
    """nvidia-smi's commands for one machine, on the GPUs of these numbers (default: from 0 on)."""
    own = list(range(plan.used)) if numbers is None else numbers[: plan.used]
    groups = list(_assign(plan, own))
    every = ",".join(map(str, own))
    cut = [(gpu, ids) for gpu, ids in groups if gpu.instances]
    whole = [(gpu, ids) for gpu, ids in groups if not gpu.instances]
    steps = [
        Step(
            ("nvidia-smi", "-i", every, "--query-compute-apps=pid,name", "--format=csv,noheader"),
            "must be empty: no program may use these GPUs",
        ),
        Step(("sh", "-c", "echo quit | nvidia-cuda-mps-control"), "MPS must have ended", True),
    ]
    for _, ids in whole:
        steps.append(Step(("nvidia-smi", "-i", ids, "-mig", "0"), "GPUs that stay whole"))
    for gpu, ids in cut:
        why = "MIG mode on"
        if gpu.model.name.startswith(_NEEDS_RESET):
            why += "; this resets the GPU"
        steps.append(Step(("nvidia-smi", "-i", ids, "-mig", "1"), why))
    for _, ids in cut:
        steps.append(
            Step(("nvidia-smi", "mig", "-i", ids, "-dci"), "delete the instances that exist", True)
        )
        steps.append(Step(("nvidia-smi", "mig", "-i", ids, "-dgi"), "", True))
    for gpu, ids in cut:
        words = ("nvidia-smi", "mig", "-i", ids, "-cgi", _write_instances(gpu), "-C")
        steps.append(Step(words, _write_names(gpu)))
    steps.append(Step(("nvidia-smi", "-L"), "the instances, with their UUIDs"))
    return steps


def _assign(plan: Plan, numbers: list[int]) -> Iterator[tuple[CutGpu, str]]:
    """The groups of GPUs that are cut alike, with their numbers."""
    place = 0
    for gpu in plan.gpus:
        yield gpu, ",".join(map(str, numbers[place : place + gpu.count]))
        place += gpu.count


def _write_instances(gpu: CutGpu) -> str:
    """`9:4,14:2,19:0`: larger ones first, as a driver that places greedily needs it."""
    family = gpu.model.family
    ordered = sorted(gpu.instances, key=lambda i: (-family.find_shape(i.key).memory, i.start))
    parts = []
    for one in ordered:
        gi = family.find_shape(one.key).gi
        parts.append(f"{gpu.model.sizes[one.key].name if gi is None else gi}:{one.start}")
    return ",".join(parts)


def _write_names(gpu: CutGpu) -> str:
    return ", ".join(f"{count} x {name}" for name, count in count_names(gpu).items())


def count_names(gpu: CutGpu) -> dict[str, int]:
    """How many instances it has of each profile, the largest first."""
    family = gpu.model.family
    ordered = sorted(gpu.instances, key=lambda i: -family.find_shape(i.key).memory)
    return dict(Counter(gpu.model.sizes[one.key].name for one in ordered))


def write_script(steps: list[Step]) -> str:
    """The commands, a line each, with why behind them."""
    lines = [(_quote(step.words), step.why) for step in steps]
    width = max(len(command) for command, _ in lines)
    return "\n".join(f"{command:<{width}}  # {why}" if why else command for command, why in lines)


def _quote(words: tuple[str, ...]) -> str:
    if words[:2] == ("sh", "-c"):
        return words[2]
    return " ".join(words)


def write_mig_parted(plan: Plan) -> str:
    """mig-parted's configuration: one for the machine, or one for each cut of a fleet."""
    if plan.used <= MOST_OF_ONE_MACHINE:
        entries = []
        for gpu, ids in _assign(plan, list(range(plan.used))):
            entries.append(_describe_devices(gpu, [int(number) for number in ids.split(",")]))
        return _dump({"version": "v1", "mig-configs": {"sightline": entries}})
    configs = {
        f"sightline-{number}-on-{gpu.count}-gpus": [_describe_devices(gpu, "all")]
        for number, gpu in enumerate(plan.gpus, 1)
    }
    return _dump({"version": "v1", "mig-configs": configs})


def _describe_devices(gpu: CutGpu, devices: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "device-filter": [f"0x{pci}10DE" for pci in gpu.model.pci_ids],
        "devices": devices,
        "mig-enabled": bool(gpu.instances),
    }
    if gpu.instances:
        told["mig-devices"] = count_names(gpu)
    return told


def write_device_plugin(plan: Plan) -> str:
    """NVIDIA's device plugin's configuration, and what a container asks for."""
    names = {name for gpu in plan.gpus for name in count_names(gpu)}
    cuts = {(gpu.model.name, tuple(count_names(gpu).items())) for gpu in plan.gpus}
    # `single` has all instances of a node alike, and calls them nvidia.com/gpu.
    is_single = len(names) == 1 and all(gpu.instances for gpu in plan.gpus) and len(cuts) == 1
    strategy = "single" if is_single else "mixed"
    text = _dump({"version": "v1", "flags": {"migStrategy": strategy}})
    for want, resource in _list_resources(plan):
        asked = "nvidia.com/gpu" if is_single or resource is None else f"nvidia.com/mig-{resource}"
        asked = asked.replace("+", ".")  # a resource has no plus sign: 1g.10gb.me
        limits = {"resources": {"limits": {asked: 1}}}
        text += f"---\n# a container of: {want}\n{_dump(limits)}"
    return text


def write_dra(plan: Plan) -> str:
    """A ResourceClaimTemplate for each profile (Kubernetes 1.34, NVIDIA's DRA driver)."""
    documents = []
    for name in sorted({name or "" for _, name in _list_resources(plan)}):
        request: dict[str, Any] = {
            "deviceClassName": "mig.nvidia.com" if name else "gpu.nvidia.com"
        }
        if name:
            chosen = f"device.attributes['gpu.nvidia.com'].profile == '{name}'"
            request["selectors"] = [{"cel": {"expression": chosen}}]
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": request}]}}
        documents.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": f"mig-{name.replace('+', '-')}" if name else "whole-gpu"},
                "spec": {"spec": spec},
            }
        )
    return "---\n".join(_dump(document) for document in documents)


def _list_resources(plan: Plan) -> list[tuple[str, str | None]]:
    """Each want with the profiles that serve it; None: a whole GPU."""
    pairs: dict[tuple[str, str | None], None] = {}
    for gpu in plan.gpus:
        for one in gpu.instances:
            pairs[plan.wants[one.want].name, gpu.model.sizes[one.key].name] = None
        if gpu.whole_for is not None:
            pairs[plan.wants[gpu.whole_for].name, None] = None
    return list(pairs)


def _dump(data: Any) -> str:
    import yaml

    return yaml.safe_dump(data, sort_keys=False, default_flow_style=False)
