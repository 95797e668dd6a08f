"""What recordings have of a node: counters' last values, events, devices, by the checks' names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from sightline.core.model.run import Run
from sightline.core.watched_metrics import METRICS
from sightline.health.node import Event, Gpu, Node

# Metrics as sightline names them, as DCGM does, and as nvidia-smi -q and amd-smi write theirs, all
# with _ for what is no letter or digit.
_FACTS = {
    "recovery_action": "recovery action",
    "ecc_corrected": "corrected ECC errors",
    "ecc_uncorrected": "uncorrected ECC errors",
    "rows_uncorrected": "rows remapped, uncorrected",
    "remap_pending": "row remap pending",
    "remap_failure": "row remap failure",
    "pages_corrected": "pages retired, corrected",
    "pages_uncorrected": "pages retired, uncorrected",
    "page_pending": "page retirement pending",
    "pcie_width": "PCIe width",
    "pcie_generation": "PCIe generation",
    "clock_reasons": "clock event reasons",
    "temperature": "temperature",
    "utilization": "GPU utilization",
    "power_limit": "power limit",
}
_FOREIGN = {
    "ecc_uncorrected": r"ecc_errors_volatile_(?:\w+_)?uncorrectable(?:_total|_parity|_secded)?"
    r"|ecc_total_uncorrectable_count|total_uncorrectable_count",
    "ecc_corrected": r"ecc_errors_volatile_(?:\w+_)?correctable(?:_total)?"
    r"|ecc_total_correctable_count|total_correctable_count",
    "rows_uncorrected": r"remapped_rows_(?:remapped_row_unc|uncorrectable_error)",
    "pages_corrected": r"retired_pages_(?:multiple_single_bit_retirement_retired_count|"
    r"single_bit_ecc)",
    "pages_uncorrected": r"retired_pages_(?:double_bit_retirement_retired_count|double_bit_ecc)",
    "pcie_width": r".*link_widths?_current(?:_link_width)?",
    "pcie_width_max": r".*link_widths?_max(?:_link_width)?",
    "pcie_generation": r".*pcie_gen(?:eration)?_current(?:_link_gen)?",
    "pcie_generation_max": r".*pcie_gen(?:eration)?_max(?:_link_gen)?",
    "power_limit_default": r"(?:(?:gpu_)?power_readings_)?default_power_limit",
}


# What has XIDs if there were any; events that are a state of a GPU.
_LOGS = {"kernel_log", "watch_history", "fabric_manager"}
_STATES = {"row-remap-failure": "remap_failure", "row-remap-pending": "remap_pending"}


def _simplify(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


def _list_patterns() -> dict[str, re.Pattern[str]]:
    patterns = {}
    for fact in _FACTS.keys() | _FOREIGN.keys():
        parts = []
        if fact in _FACTS:
            metric = METRICS[_FACTS[fact]]
            parts.append(re.escape(_simplify(metric.name)))
            if metric.dcgm:
                parts.append(re.escape(f"dcgm_fi_{metric.dcgm}".lower()))
        if fact in _FOREIGN:
            parts.append(_FOREIGN[fact])
        patterns[fact] = re.compile("|".join(f"(?:{part})" for part in parts))
    return patterns


def read_recordings(run: Run) -> Node:
    """A node as its recordings have it."""
    node = Node()
    devices = {row["device_id"]: row for row in run.table("devices").iter_rows(named=True)}
    last = _list_last_values(run)
    events = list(run.table("device_events").iter_rows(named=True))
    # A kernel log numbers GPUs as they fail; only what has values or a model is known as a GPU.
    at = {
        number: str(row["name"]).removeprefix("GPU at ")
        for number, row in devices.items()
        if str(row["name"] or "").startswith("GPU at ")
    }
    known = {n for n, row in devices.items() if row["name"] and n not in at} | set(last)
    patterns = _list_patterns()
    for number in sorted(known):
        gpu = Gpu(int(number), str((devices.get(number) or {}).get("name") or ""))
        gpu.values = _name_facts(last.get(number, {}), patterns)
        node.gpus.append(gpu)
    # nvidia-smi's words, without the list of all that they stand instead of.
    lost = {
        e["device_id"]: str(e["text"]).partition(": no ")[0]
        for e in events
        if e["event"] == "device-lost"
    }
    for gpu in node.gpus:
        gpu.lost = lost.get(gpu.number)
    node.events = [
        Event(
            str(e["event"]),
            str(e["text"] or ""),
            None if e["device_id"] in at else e["device_id"],
            at.get(e["device_id"], e["source"]),
            e["time_ns"],
        )
        for e in events
    ]
    if node.gpus:
        node.values["gpus by the recording"] = float(len(node.gpus))
    formats = set(run.table("recordings").get_column("format"))
    if formats & _LOGS:
        node.values["kernel_log"] = 1.0
    for event in node.events:
        fact = _STATES.get(event.kind)
        for gpu in node.gpus if fact else ():
            if gpu.number == event.device:
                gpu.values[fact or ""] = 1.0
    return node


def _list_last_values(run: Run) -> dict[int, dict[str, float]]:
    """Of each GPU the last value of each metric; processes and instances are left out."""
    counters = run.table("counters").filter(
        pl.col("device_id").is_not_null(), pl.col("source").is_null()
    )
    rows = counters.group_by("device_id", "metric").agg(pl.col("value").sort_by("time_ns").last())
    found: dict[int, dict[str, float]] = {}
    for device, metric, value in rows.iter_rows():
        if value is not None:
            found.setdefault(device, {})[metric] = value
    return found


def _name_facts(
    metrics: dict[str, float], patterns: dict[str, re.Pattern[str]]
) -> dict[str, float]:
    facts: dict[str, float] = {}
    for metric, value in metrics.items():
        name = _simplify(metric)
        for fact, pattern in patterns.items():
            if pattern.fullmatch(name):
                # Errors of several memories are added; anything else is there once.
                before = facts.get(fact, 0.0) if fact.startswith("ecc_") else 0.0
                facts[fact] = before + value
    return facts


def merge_nodes(nodes: Iterable[Node]) -> Node:
    """One node of several inputs: what one does not know another may."""
    merged = Node()
    by_number: dict[Any, Gpu] = {}
    for node in nodes:
        for gpu in node.gpus:
            mine = by_number.setdefault(gpu.number, Gpu(gpu.number))
            mine.name = mine.name or gpu.name
            mine.uuid, mine.pci = mine.uuid or gpu.uuid, mine.pci or gpu.pci
            mine.vendor = gpu.vendor
            mine.values = {**gpu.values, **mine.values}
            mine.missing = {**gpu.missing, **mine.missing}
            mine.instances = mine.instances or gpu.instances
            mine.processes = mine.processes or gpu.processes
            mine.lost = mine.lost or gpu.lost
        merged.name = merged.name or node.name
        merged.ports += node.ports
        merged.events += node.events
        merged.values = {**node.values, **merged.values}
        merged.texts = {**node.texts, **merged.texts}
        merged.missing = {**node.missing, **merged.missing}
    merged.gpus = [by_number[number] for number in sorted(by_number)]
    return merged
