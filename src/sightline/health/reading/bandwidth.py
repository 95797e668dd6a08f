"""What nvbandwidth measures: copies between host and GPUs, and between GPUs, in GB/s."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from sightline.health.node import Node
from sightline.health.reading.programs import run_program

_HOST = {
    "host_to_device_memcpy_ce": "host_to_device",
    "device_to_host_memcpy_ce": "device_to_host",
}
_PEER = "device_to_device_memcpy_read_ce"
_LIMIT_S = 300  # eight GPUs take a minute
_COMMAND = ("nvbandwidth", "--json", "-t", *_HOST, _PEER)
_FACTS = (*_HOST.values(), "peer_bandwidth")


def measure_bandwidth(node: Node) -> None:
    """Run it, and put what each GPU reached into the node; why not, where it cannot."""
    text = run_program(_COMMAND, _LIMIT_S)
    why = "nvbandwidth is not installed, or did not run"
    matrices = dict(_list_matrices(text)) if text else {}
    for gpu in node.gpus:
        for test, fact in _HOST.items():
            row = matrices.get(test) or [[]]
            if gpu.number < len(row[0]) and row[0][gpu.number] is not None:
                gpu.values[fact] = row[0][gpu.number] or 0.0
        rows = matrices.get(_PEER, [])
        # A GPU's copies to itself are 0 or N/A.
        peers = [value for value in rows[gpu.number] if value] if gpu.number < len(rows) else []
        if peers:
            gpu.values["peer_bandwidth"] = min(peers)
        for fact in _FACTS:
            if fact not in gpu.values:
                gpu.missing[fact] = "nvbandwidth has no value of it" if matrices else why


def _list_matrices(text: str) -> Iterator[tuple[str, list[list[float | None]]]]:
    """Each test's matrix in GB/s; None where it says no number."""
    try:
        document = json.loads(text)
        tests = document["nvbandwidth"]["testcases"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    for test in tests if isinstance(tests, list) else ():
        matrix = test.get("bandwidth_matrix") if isinstance(test, dict) else None
        if isinstance(matrix, list):
            rows = [
                [_read_number(value) for value in row] for row in matrix if isinstance(row, list)
            ]
            if rows:
                yield str(test.get("name")), rows


def _read_number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None
