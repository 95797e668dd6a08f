"""What an XID means, how bad it is, who acts, and what the driver itself asks for (NVML).

The catalogue is `xids.tsv`; severity and advice follow from its actions by the tables below, and
from nothing else. NVML's recovery action is the driver's own verdict on a GPU, so it is read first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from sightline.core.packaged_rows import read_rows

CRITICAL, WARNING, INFO = "critical", "warning", "info"
CATALOGUE = "https://docs.nvidia.com/deploy/xid-errors/"
MOST_CODE = 9_999  # what a log may claim; the catalogue ends far below


class Action(NamedTuple):
    """What an action of the catalogue asks for: of whom, and whether no new job may start."""

    severity: str
    who: str  # operator, user, driver (nobody acts)
    drain: bool
    text: str  # an imperative, without a full stop


# The names are those of NVIDIA's catalogue; "" is an XID for which it names none.
ACTIONS: Mapping[str, Action] = {
    "IGNORE": Action(INFO, "driver", False, "no action is needed"),
    "RESTART_APP": Action(WARNING, "user", False, "restart the application"),
    "RESET_GPU": Action(CRITICAL, "operator", True, "drain the node and reset the GPU"),
    "RESTART_BM": Action(CRITICAL, "operator", True, "drain and reboot the node"),
    "RESTART_VM": Action(CRITICAL, "operator", True, "drain and restart the virtual machine"),
    "CONTACT_SUPPORT": Action(CRITICAL, "operator", True, "drain the node and contact support"),
    "CHECK_MECHANICALS": Action(
        CRITICAL, "operator", True, "check the GPU's seating, cables and auxiliary power"
    ),
    "UPDATE_SWFW": Action(WARNING, "operator", False, "update driver and firmware"),
    "CHECK_UVM": Action(
        WARNING, "operator", False, "look for other XIDs; if it is the only one, report it"
    ),
    "WORKFLOW_XID_45": Action(
        INFO,
        "driver",
        False,
        "act on the XID before it; if there is none, restart the fabric manager",
    ),
    "WORKFLOW_XID_48": Action(
        CRITICAL,
        "operator",
        True,
        "drain the node: XID 63, 64, 94 or 95 next to it says whether a reset is enough",
    ),
    "WORKFLOW_NVLINK_ERR": Action(
        CRITICAL, "operator", True, "reset the GPU; if it recurs, check the NVLink hardware"
    ),
    "WORKFLOW_NVLINK5_ERR": Action(
        CRITICAL,
        "operator",
        True,
        "follow NVIDIA's NVLink 5 workflow: the sub-code decides between reset and hardware check",
    ),
    "XID_154": Action(
        WARNING, "operator", False, "read the recovery action: nvidia-smi -q, or sightline health"
    ),
}
# Where NVIDIA's catalogue names no action: gpud's suggestion, else its event.
_SUGGESTED: Mapping[str, Action] = {
    "RebootSystem": ACTIONS["RESTART_BM"],
    "HardwareInspection": ACTIONS["CONTACT_SUPPORT"],
    "CheckUserAppAndGPU": ACTIONS["RESTART_APP"],
    "IgnoreNoActionRequired": ACTIONS["IGNORE"],
}
_EVENTS: Mapping[str, Action] = {
    "fatal": ACTIONS["CONTACT_SUPPORT"],
    "warning": Action(WARNING, "operator", False, "look for other XIDs of this GPU"),
    "info": ACTIONS["IGNORE"],
}
_UNKNOWN = Action(
    WARNING, "operator", False, f"it is newer than this catalog; look it up: {CATALOGUE}"
)


class Xid(NamedTuple):
    """A row of the catalogue."""

    code: int
    mnemonic: str
    description: str
    immediate: str
    investigate: str
    event: str
    suggested: tuple[str, ...]

    @property
    def action(self) -> Action:
        """What is asked for at once."""
        if self.immediate:
            return ACTIONS[self.immediate]
        if self.suggested:
            return _SUGGESTED[self.suggested[0]]
        return _EVENTS[self.event]

    @property
    def meaning(self) -> str:
        """The description; the mnemonic's words where the catalogue says only that it is unused."""
        if self.description != "Unused":
            return self.description
        return self.mnemonic.removeprefix("ROBUST_CHANNEL_").replace("_", " ").lower()


@cache
def list_xids() -> Mapping[int, Xid]:
    """The catalogue by code."""
    return {
        int(code): Xid(
            int(code), name, text, now, then, event, tuple(filter(None, more.split(",")))
        )
        for code, name, text, now, then, event, more in read_rows("sightline.core", "xids.tsv")
    }


def look_up_action(code: int) -> Action:
    """What an XID asks for; of a code that is not known, to look it up."""
    xid = list_xids().get(code)
    return xid.action if xid is not None else _UNKNOWN


def describe_xid(code: int) -> str:
    """`GPU has fallen off the bus: drain and reboot the node`: one line, without the number."""
    xid = list_xids().get(code)
    return f"{xid.meaning if xid else 'not in the catalog'}: {look_up_action(code).text}"


def read_xid(text: str) -> int | None:
    """The code in a text such as `XID 79: ...`, None where there is none."""
    found = re.match(r"XID (\d{1,4})\b", text)
    return int(found[1]) if found else None


class Recovery(NamedTuple):
    """What NVML's recovery action asks for (nvml.h, nvmlDeviceGpuRecoveryAction_t)."""

    name: str
    severity: str
    text: str


RECOVERY: tuple[Recovery, ...] = (
    Recovery("none", INFO, "no recovery is needed"),
    Recovery("GPU reset", CRITICAL, "reset the GPU"),
    Recovery("node reboot", CRITICAL, "reboot the node"),
    Recovery("drain P2P", CRITICAL, "end all peer-to-peer traffic of this GPU, then reset it"),
    Recovery(
        "drain and reset", WARNING, "start no new work; reset the GPU once what runs has ended"
    ),
    Recovery("recover IMEX domain", CRITICAL, "restart the IMEX domain (nvidia-imex) of its nodes"),
    Recovery("bus reset", CRITICAL, "reset the GPU's PCIe bus"),
    Recovery("system reboot", CRITICAL, "reboot the whole system, baseboard and switches too"),
)


def describe_recovery(value: float) -> str:
    """What the driver asks for, in one sentence; "" where it asks for nothing."""
    number = int(value)
    if number == 0:
        return ""
    if not 0 < number < len(RECOVERY):
        return f"The driver asks for recovery action {number}, which is newer than this sightline."
    return f"The driver asks for recovery ({RECOVERY[number].name}): {RECOVERY[number].text}."


def explain_xid(code: int) -> str:
    """The page of an XID, as of a rule."""
    xid = list_xids().get(code)
    action = look_up_action(code)
    if xid is None:
        return f"XID {code} is not in the catalog ({len(list_xids())} codes). See {CATALOGUE}"
    source = f"NVIDIA's catalogue ({xid.immediate})" if xid.immediate else "gpud's catalogue"
    who = {"operator": "the operator", "user": "the user of the program", "driver": "nobody"}
    lines = [
        f"XID {code}: {xid.meaning}",
        "",
        f"Severity      {action.severity}",
        f"Action        {action.text[0].upper()}{action.text[1:]}.  [{source}]",
        f"Who acts      {who[action.who]}",
        f"New jobs      {'none until then: drain the node' if action.drain else 'may start'}",
        f"Driver's name {xid.mnemonic}",
    ]
    if xid.investigate:
        lines.append(f"Then          {_INVESTIGATE.get(xid.investigate, xid.investigate)}")
    if xid.suggested:
        lines.append(f"gpud suggests {', '.join(_split_words(word) for word in xid.suggested)}")
    lines += [
        "",
        "What the driver itself asks for (NVML's recovery action) comes first:  sightline health",
        f"References    {CATALOGUE}",
    ]
    return "\n".join(lines)


# Investigatory actions of NVIDIA's catalogue as sentences; others are printed as they are.
_INVESTIGATE = {
    "CONTACT_SUPPORT": "contact support if it recurs",
    "CHECK_APP/CUDA": "check the application with compute-sanitizer and cuda-gdb",
    "INVESTIGATE_SW": "report it with nvidia-bug-report.sh: a software fault is likely",
    "INVESTIGATE_SW_USER": "check the application and its libraries",
    "INVESTIGATE_LINK_SI": "check the link's signal integrity: cables, connectors, retimers",
    "UPDATE_SWFW": "update driver and firmware",
    "IGNORE": "nothing",
    "WORKFLOW_XID_13": "run the program under compute-sanitizer; if clean, run dcgmi diag -r 3",
    "WORKFLOW_XID_31": "run the program under compute-sanitizer; if clean, run dcgmi diag -r 3",
    "WORKFLOW_XID_48": "look for XID 63 or 64 (rows remapped, or no row left), then reset the GPU",
    "WORKFLOW_NVLINK5_ERR": "read the sub-code in the kernel log: it names the unit and the remedy",
    "XID_137_FLOW": "look for XIDs of the GPU at the other end of the link",
    "IGNORE (sympathetic)": "nothing where another XID explains it",
    "SYMPATHETIC_REPORT_SOLO": "nothing where another XID explains it; else report it",
    "Solo: RESTART_FM Not Solo: IGNORE (follow other Xid)": "alone: restart the fabric manager; "
    "else act on the other XID",
    "N/A Informational only regarding another Xid": "nothing: it reports another XID",
}


def _split_words(word: str) -> str:
    """CheckUserAppAndGPU: check user app and GPU."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", word)
    return " ".join(part if part.isupper() else part.lower() for part in parts)
