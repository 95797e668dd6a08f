"""Triton Proton: a tree of scopes and kernels with metrics, as Hatchet's JSON or MessagePack.

Format: triton-lang/triton, third_party/proton. Metric names changed their case over time.
"""

from __future__ import annotations

import json
import re
from typing import Any

from sightline.core.model.declare import Imported, Importer, ImportOptions, Quality
from sightline.core.model.source import Source
from sightline.core.model.stack_trie import Frame, StackTrie
from sightline.errors import DamagedError
from sightline.formats._stacks import finish_import, read_text, read_whole

IMPORTER = Importer(
    name="proton",
    label="Triton Proton profile (Hatchet, JSON or MessagePack)",
    strong=(
        rb'^\s*\[\s*\{\s*"(?:children|frame|metrics)"\s*:',
        # A list of a few maps of a few texts: fixarray or array 16/32, fixmap or map 16/32, fixstr.
        rb"^[\x90-\x9f\xdc\xdd].{0,4}[\x80-\x8f\xde\xdf].{0,4}[\xa5\xa7\xa8](?:frame|metrics|children)",
    ),
    weak=(),
    looks_like='a JSON list of trees with "frame", "metrics" and "children"',
    suffixes=(".hatchet", ".hatchet_msgpack"),
    version=3,
    source="https://github.com/triton-lang/triton/tree/main/third_party/proton",
)

# Metric, lower case: weight, and what one of it is in the weight's unit.
_METRICS = {
    "time (ns)": ("gpu_time_ns", 1.0),
    "time (us)": ("gpu_time_ns", 1e3),
    "time (ms)": ("gpu_time_ns", 1e6),
    "time (s)": ("gpu_time_ns", 1e9),
    "num_samples": ("samples", 1.0),
    "num_stalled_samples": ("latency_samples", 1.0),
}
# 'path/file.py:function@line', as Proton writes Python frames.
_PYTHON = re.compile(r"^(.*):([^:@]+)@(\d+)$")
MAX_DEPTH = 10_000


def read(source: Source, options: ImportOptions) -> Imported:
    """Read all trees. Raises DamagedError where there is no metric."""
    quality: list[Quality] = []
    roots = _parse_trees(source, quality)
    trie = StackTrie()
    weights: list[tuple[int | None, str, int, str]] = []
    todo: list[tuple[Any, tuple[Frame, ...]]] = [(root, ()) for root in roots]
    bad = 0
    while todo:
        node, above = todo.pop()
        # The list's last entry describes the devices and is no tree.
        if not isinstance(node, dict) or "frame" not in node or len(above) > MAX_DEPTH:
            bad += bool(above) or not isinstance(node, dict)
            continue
        metrics, children = node.get("metrics"), node.get("children")
        bad += not isinstance(metrics, dict | None)
        bad += not isinstance(children, list | None)
        metrics = metrics if isinstance(metrics, dict) else {}
        children = children if isinstance(children, list) else []
        path = (*above, _frame(node, metrics, bool(children)))
        stack = trie.add(path)
        for name, value in metrics.items():
            known = _METRICS.get(str(name).lower())
            if known and isinstance(value, int | float) and 0 < value < 1e18:
                weights.append((stack, known[0], round(value * known[1]), "bracket"))
            elif known and value != 0:
                bad += 1
        todo += [(child, path) for child in children]
    if bad:
        text = "nodes or their metrics are of no known form: they were left out"
        quality.append(Quality("damaged_nodes", "warning", text, bad))
    return finish_import(source, trie, weights, quality, "Triton Proton")


def _parse_trees(source: Source, quality: list[Quality]) -> list[Any]:
    with source.open() as stream:
        is_packed = stream.read(1) >= b"\x80"
    form = "MessagePack" if is_packed else "JSON"
    try:
        if is_packed:
            import msgpack

            data = read_whole(source, quality)
            # Lengths in it are checked against its size before anything is made of that length.
            roots = msgpack.unpackb(data, unicode_errors="replace")
        else:
            roots = json.loads(read_text(source, quality))
        if not isinstance(roots, list):
            raise ValueError("it is not a list of trees")
    except (ValueError, TypeError, RecursionError) as error:
        why = str(error) or type(error).__name__
        raise DamagedError(
            f"cannot read {source.given}", why=f"its {form} is damaged ({why})"
        ) from error
    return roots


def _frame(node: dict[str, Any], metrics: dict[str, Any], has_children: bool) -> Frame:
    frame = node["frame"] if isinstance(node["frame"], dict) else {}
    name = str(frame.get("name", "[unknown]"))
    found = _PYTHON.match(name)
    if found:
        return Frame("python", found[2], found[1], int(found[3]))
    measured = any(str(m).lower() in _METRICS and v for m, v in metrics.items())
    if measured and not has_children:
        return Frame("kernel", name)
    return Frame("phase", name)
