"""Links, clocks, temperature and modes of a GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from sightline.core.units import format_bytes
from sightline.health.check import FAIL, UNCHECKED, WARN, Check, Verdict, fail, find_reason, warn
from sightline.health.node import ELSEWHERE, Gpu, Node

# nvml.h, nvmlClocksEventReason*: hardware slowdown, its thermal part, the power brake.
_BRAKE, _HW_THERMAL, _HW_SLOWDOWN, _SW_THERMAL = 0x80, 0x40, 0x8, 0x20
# A sibling that is so much hotter has another reason than its load: ours; eight H100 of one healthy
# machine at one load differ by up to 9 C (tests' fake has 7).
_HOTTER_C = 15
_BUSY_PCT = 1  # idle GPUs lower the generation of their link to save power
_HELD_BYTES = 1_000_000_000
_DRIVER = "NVIDIA's driver: nvidia-smi -q"


def _judge_width(node: Node) -> Iterator[Verdict]:
    yield from _judge_link(node, "pcie_width", "PCIe lanes", lambda gpu: True)


def _judge_generation(node: Node) -> Iterator[Verdict]:
    def works(gpu: Gpu) -> bool:
        return gpu.values.get("utilization", 0) >= _BUSY_PCT

    yield from _judge_link(node, "pcie_generation", "as PCIe generation", works)


def _judge_link(
    node: Node, fact: str, words: str, is_judged: Callable[[Gpu], bool]
) -> Iterator[Verdict]:
    """Below a sibling fails; below what GPU and slot can do warns: a server may be built so."""
    known = [gpu for gpu in node.gpus if {fact, f"{fact}_max"} <= gpu.values.keys()]
    if not node.gpus:
        yield Verdict(UNCHECKED, find_reason(node, fact))
    for gpu in node.gpus:
        if gpu not in known:
            why = gpu.lost or gpu.missing.get(fact) or gpu.missing.get("*") or ELSEWHERE
            yield Verdict(UNCHECKED, why, f"GPU {gpu.number}")
            continue
        now, most = gpu.values[fact], gpu.values[f"{fact}_max"]
        siblings = [other.values[fact] for other in known if other.name == gpu.name]
        if not 0 < now < most or not is_judged(gpu):
            continue
        where = f"GPU {gpu.number}"
        if max(siblings) > now:
            yield Verdict(FAIL, f"{now:.0f} {words}, its siblings {max(siblings):.0f}", where)
        else:
            yield Verdict(WARN, f"{now:.0f} {words} where {most:.0f} are possible", where)


def _judge_nvlinks(node: Node) -> Iterator[Verdict]:
    """Links that are down, where a sibling has more of them up."""
    ups = {gpu.number: gpu.values.get("nvlinks_up") for gpu in node.gpus}
    most = max((up for up in ups.values() if up is not None), default=None)
    if most is None:
        yield Verdict(UNCHECKED, find_reason(node, "nvlinks_up"))
        return
    for number, up in ups.items():
        if up is not None and up < most:
            yield Verdict(FAIL, f"{up:.0f} of {most:.0f} NVLinks are up", f"GPU {number}")


def _judge_nvlink_errors(gpu: Gpu) -> Verdict | None:
    count = gpu.values["nvlink_recoveries"]
    return warn(f"NVLinks recovered {count:.0f} times from errors") if count > 0 else None


def _judge_brake(gpu: Gpu) -> Verdict | None:
    bits = int(gpu.values["clock_reasons"])
    return fail("the power brake lowers its clocks") if bits & _BRAKE else None


def _judge_slowdown(gpu: Gpu) -> Verdict | None:
    bits = int(gpu.values["clock_reasons"])
    if bits & (_HW_THERMAL | _HW_SLOWDOWN) and not bits & _BRAKE:
        return fail("the hardware lowers its clocks" + (", for heat" if bits & _HW_THERMAL else ""))
    return warn("the driver lowers its clocks, for heat") if bits & _SW_THERMAL else None


def _judge_siblings(node: Node) -> Iterator[Verdict]:
    known = {
        gpu.number: gpu.values["temperature"] for gpu in node.gpus if "temperature" in gpu.values
    }
    if len(known) < 3:
        yield Verdict(UNCHECKED, "fewer than three GPUs have a temperature")
        return
    middle = statistics.median(known.values())
    for number, celsius in known.items():
        if celsius > middle + _HOTTER_C:
            text = f"{celsius:.0f} C, its siblings {middle:.0f} C"
            yield Verdict(WARN, text, f"GPU {number}")


def _judge_limit(gpu: Gpu) -> Verdict | None:
    now, usual = gpu.values["power_limit"], gpu.values["power_limit_default"]
    return warn(f"its power limit is {now:.0f} W instead of {usual:.0f}") if now < usual else None


def _judge_persistence(gpu: Gpu) -> Verdict | None:
    return None if gpu.values["persistence"] else warn("persistence mode is off")


def _judge_ecc_mode(gpu: Gpu) -> Verdict | None:
    now, later = gpu.values["ecc_mode"], gpu.values["ecc_mode_pending"]
    if now != later:
        return warn(
            f"ECC is {'on' if now else 'off'}, and {'on' if later else 'off'} after a reset"
        )
    return None if now else warn("ECC is off: memory errors go unseen")


def _judge_mig(gpu: Gpu) -> Verdict | None:
    now, later = gpu.values["mig_mode"], gpu.values["mig_mode_pending"]
    if now != later:
        return warn("MIG mode changes at the next reset")
    if now and not gpu.instances:
        return warn("MIG mode is on, and there is no instance: no program can use this GPU")
    return None


def _judge_held(gpu: Gpu) -> Verdict | None:
    used = gpu.values["memory_used"]
    if used < _HELD_BYTES or gpu.processes or gpu.values.get("mig_mode"):
        return None
    return warn(f"{format_bytes(int(used))} of its memory are in use, and no process has them")


def _judge_zombies(node: Node) -> Iterator[Verdict]:
    if not any("processes" in gpu.values for gpu in node.gpus):
        yield Verdict(UNCHECKED, find_reason(node, "processes"))
    for gpu in node.gpus:
        for pid in gpu.processes:
            state = node.texts.get(f"process {pid}")
            if state in ("Z", "D", "gone"):
                what = {"Z": "a zombie", "D": "stuck in the kernel", "gone": "gone"}[state]
                yield Verdict(
                    FAIL, f"process {pid}, which holds it, is {what}", f"GPU {gpu.number}"
                )


CHECKS = (
    Check(
        "pcie-width",
        "lanes of the link to the host",
        "fewer than a sibling fails, than GPU and slot can have warns",
        _DRIVER,
        "reseat the GPU or its riser, unless the server is built so; check again under load",
        judge_node=_judge_width,
    ),
    Check(
        "pcie-generation",
        "speed of the link to the host",
        "while the GPU works: lower than a sibling fails, than GPU and slot can have warns",
        _DRIVER,
        "look for AER errors in the kernel log; reseat the GPU",
        judge_node=_judge_generation,
    ),
    Check(
        "nvlink-state",
        "NVLinks that are up",
        "fewer than a sibling has",
        "gpud, component nvlink",
        "look for XID 74; reset the GPU; restart the fabric manager",
        judge_node=_judge_nvlinks,
    ),
    Check(
        "nvlink-errors",
        "NVLinks that recovered from errors",
        "any recovery",
        "DCGM's health checks: NVLink recovery errors fail",
        "look for XID 74; compare with siblings; have the board examined if they grow",
        ("nvlink_recoveries",),
        _judge_nvlink_errors,
    ),
    Check(
        "power-brake",
        "whether the board's power brake holds the clocks down",
        "at all",
        "nvml.h, nvmlClocksEventReasonHwPowerBrakeSlowdown",
        "check power supplies and the rack's power limit",
        ("clock_reasons",),
        _judge_brake,
    ),
    Check(
        "slowdown",
        "clocks lowered by hardware or for heat",
        "hardware slowdown fails, the driver's thermal one warns",
        "gpud, component hw-slowdown; nvml.h",
        "check fans, air flow, cooling plates and the inlet temperature",
        ("clock_reasons",),
        _judge_slowdown,
    ),
    Check(
        "temperature",
        "one GPU against its siblings",
        f"{_HOTTER_C} C above their median",
        "ours: more than load explains among GPUs of one machine",
        "check this GPU's fan, heat sink or cold plate",
        judge_node=_judge_siblings,
    ),
    Check(
        "power-limit",
        "the power limit in force",
        "below the default",
        _DRIVER,
        "nvidia-smi -i N -pl WATTS, unless the limit is intended",
        ("power_limit", "power_limit_default"),
        _judge_limit,
    ),
    Check(
        "persistence-mode",
        "whether the driver stays loaded without a program",
        "off",
        "NVIDIA Driver Persistence",
        "start nvidia-persistenced, or  nvidia-smi -pm 1",
        ("persistence",),
        _judge_persistence,
    ),
    Check(
        "ecc-mode",
        "whether errors of the memory are corrected",
        "off, or another after a reset",
        _DRIVER,
        "nvidia-smi -e 1, then reset the GPU",
        ("ecc_mode", "ecc_mode_pending"),
        _judge_ecc_mode,
    ),
    Check(
        "mig-mode",
        "MIG mode and instances",
        "a change that waits, or no instance",
        "NVIDIA MIG user guide",
        "sightline mig plans instances; nvidia-smi -i N -mig 0 switches it off",
        ("mig_mode", "mig_mode_pending"),
        _judge_mig,
    ),
    Check(
        "memory-held",
        "memory in use without a process",
        "a gigabyte",
        "ours: a driver keeps less on an idle GPU",
        "end what is left of a job in other containers; reset the GPU",
        ("memory_used", "processes"),
        _judge_held,
    ),
    Check(
        "zombies",
        "processes that hold a GPU and do not run",
        "a zombie, one that is gone or stuck in the kernel",
        "gpud, component processes",
        "end its parent; reboot if it is stuck in the kernel",
        judge_node=_judge_zombies,
    ),
)
