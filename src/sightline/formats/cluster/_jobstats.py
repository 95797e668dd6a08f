"""Jobstats' summary of a job: `JS1:` and base64 of gzipped JSON, in Slurm's AdminComment.

https://github.com/PrincetonUniversity/jobstats: {"gpus", "total_time", "nodes": {host: {"cpus",
"total_time" (CPU seconds), "total_memory", "used_memory" (bytes), "gpu_total_memory",
"gpu_used_memory", "gpu_utilization" (each by GPU)}}}; `JS1:Short` and `JS1:None` stand for none.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from typing import Any

from sightline.core.model.declare import Quality
from sightline.formats.cluster._jobs import JobTables, read_real, read_whole

_PREFIX = "JS1:"
# How gzip begins in base64, behind a word that is none; or a long word that only base64 writes.
_PACKED = re.compile(r"\S{1,5}H4sI|[A-Za-z0-9+/:]{60,}={0,2}$")
# Ours: a summary of 10,000 nodes with 8 GPUs is 5 MB; base64 of more is no comment (Slurm's are
# 64 kB by default, SLURM_DB's longtext 4 GB).
_MOST_PACKED, _MOST_UNPACKED = 8 << 20, 64 << 20
_NODES = 20_000


def decode_summary(comment: str | None) -> dict[str, Any] | str | None:
    """The summary; a word where one stands in its place (short, none); None where there is none.

    What cannot be decoded is `damaged`.
    """
    if not comment or _PREFIX not in comment[:4096]:
        return "damaged" if comment and _PACKED.match(comment) else None
    packed = comment[comment.index(_PREFIX) + len(_PREFIX) :].split()
    word = packed[0] if packed else ""
    if word.lower() in ("short", "none", ""):
        return word.lower() or "none"
    if len(word) > _MOST_PACKED:
        return "damaged"
    try:
        unpacker = zlib.decompressobj(wbits=31)
        data = unpacker.decompress(base64.b64decode(word, validate=True), _MOST_UNPACKED)
        made = json.loads(data) if unpacker.eof else None
    except (binascii.Error, zlib.error, ValueError, RecursionError):
        return "damaged"
    return made if isinstance(made, dict) and isinstance(made.get("nodes"), dict) else "damaged"


def note_damaged_summaries(count: int) -> list[Quality]:
    """The note on summaries of Jobstats that cannot be decoded, if there are any."""
    text = "summaries of Jobstats (JS1) cannot be decoded: these jobs have no figures of use"
    return [Quality("damaged_summaries", "warning", text, count)] if count else []


def encode_summary(summary: dict[str, Any]) -> str:
    """The comment that `decode_summary` reads."""
    packer = zlib.compressobj(9, wbits=31)
    data = packer.compress(json.dumps(summary, separators=(",", ":")).encode()) + packer.flush()
    return _PREFIX + base64.b64encode(data).decode()


def sum_summary(summary: dict[str, Any]) -> dict[str, Any]:
    """What a summary says of a job as a whole: columns of `jobs`."""
    nodes = [node for node in summary["nodes"].values() if isinstance(node, dict)]
    spent = [read_real(node.get("total_time")) for node in nodes]
    used = [read_whole(node.get("used_memory")) for node in nodes]
    given = [read_whole(node.get("total_memory")) for node in nodes]
    facts: dict[str, Any] = {
        "cpu_time_ns": read_whole(1e9 * sum(s for s in spent if s)) if any(spent) else None,
        "used_memory_bytes": read_whole(sum(u for u in used if u)) if any(used) else None,
        "memory_bytes": read_whole(sum(g for g in given if g)) if any(given) else None,
        "gpus": read_whole(summary.get("gpus")) or None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def add_summary(tables: JobTables, job: int, summary: dict[str, Any]) -> None:
    """Rows of each node and GPU of a summary."""
    seconds = read_real(summary.get("total_time"))
    for host, node in list(summary["nodes"].items())[:_NODES]:
        if not isinstance(node, dict):
            continue
        cpus = read_whole(node.get("cpus"))
        used_by_gpu = _by_gpu(node, "gpu_utilization")
        tables.add_node(
            job,
            host,
            cpus=cpus,
            memory_bytes=read_whole(node.get("total_memory")),
            gpus=len(used_by_gpu) or None,
        )
        spent = read_real(node.get("total_time"))
        if spent is not None and cpus and seconds:
            share = {"avg": 100 * spent / (seconds * cpus)}
            tables.add_mean(job, "cpu_user", share, ("%", ""), host)
        memory = {"max": node.get("used_memory")}
        tables.add_mean(job, "used_memory", memory, ("B", ""), host)
        for gpu, value in used_by_gpu.items():
            use = {"avg": value}
            tables.add_mean(job, "gpu_utilization", use, ("%", ""), host, "accelerator", gpu)
        for gpu, value in _by_gpu(node, "gpu_used_memory").items():
            held = {"max": value}
            tables.add_mean(job, "gpu_used_memory", held, ("B", ""), host, "accelerator", gpu)


def _by_gpu(node: dict[str, Any], key: str) -> dict[str, Any]:
    found = node.get(key)
    return found if isinstance(found, dict) and len(found) <= 64 else {}
