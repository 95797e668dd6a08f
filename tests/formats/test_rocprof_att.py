"""Decoded thread traces of AMD: instructions with hits, cycles and stalls; and damage."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

import sightline
from sightline.core.model.declare import Imported, ImportOptions
from sightline.core.model.source import Source
from sightline.formats.amd import rocprof_att
from support.damage import survive_damage

KERNEL = ["; _Z5scalePf", 0, 0, "scale(float*)", 2, 4096, 0, 0, 0, 0, 0, 0, [0] * 10]
TRACED = ["s_waitcnt vmcnt(0)", 0, 1, "/x/scale.cpp:7", 2, 4100, 30, 900, 700, 50, 0, 0, [0] * 10]
SAMPLED = ["v_add", 0, 2, "", 2, 4104, 0, 0, 0, 0, 3, 5, [0, 0, 1, 4, 0, 0, 0, 0, 0, 0]]
DOCUMENT = json.dumps({"code": [KERNEL, TRACED, SAMPLED], "header": ["ISA"], "version": "3.0.0"})


def read(folder: Path, data: str | bytes) -> Imported:
    path = folder / "code.json"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    imported: Imported = rocprof_att.read(Source(path, "code.json"), ImportOptions())
    return imported


def test_what_becomes_what(tmp_path: Path) -> None:
    (tmp_path / "code.json").write_text(DOCUMENT)
    run = sightline.open(str(tmp_path / "code.json"))
    frames, stacks = run.table("frames"), run.table("stacks")
    names = dict(frames.select("frame_id", "function").rows())
    parents = {s: (p, f) for s, p, f in stacks.select("stack_id", "parent_id", "frame_id").rows()}

    def path(stack: int | None) -> list[str]:
        if stack is None:
            return []
        parent, frame = parents[stack]
        return [*path(parent), names[frame]]

    found = {
        (metric, *path(stack)[-3:]): value
        for stack, metric, value in run.table("stack_weights")
        .select("stack_id", "metric", "value")
        .rows()
    }
    wait, add = "+0x4 s_waitcnt vmcnt(0)", "+0x8 v_add"
    assert found == {
        ("cycles", wait, "issuing", "issuing"): 200,
        ("cycles", wait, "other", "stalled"): 700,
        ("cycles", wait, "other", "idle"): 50,
        ("executions", "/x/scale.cpp", "scale.cpp:7", wait): 30,
        ("samples", add, "issuing", "wave_issued"): 3,
        ("samples", add, "ALU dependency", "alu_dependency"): 1,
        ("samples", add, "memory wait", "waitcnt"): 4,
        ("latency_samples", add, "ALU dependency", "alu_dependency"): 1,
        ("latency_samples", add, "memory wait", "waitcnt"): 4,
    }


def test_damage(tmp_path: Path) -> None:
    survive_damage(rocprof_att.read, tmp_path / "code.json", DOCUMENT)


@pytest.mark.corpus
def test_a_real_recording_adds_up(corpus: Path) -> None:
    """By json alone: 1,306 samples that issued, 3,384 that waited, each with its reason."""
    path = corpus / "rocprof_att/ROCm__rocprof-compute-viewer/tests/pcsampling/code.json.gz"
    rows = json.loads(gzip.decompress(path.read_bytes()))["code"]
    weights = sightline.open(str(path)).table("stack_weights")
    total: Counter[str] = Counter()
    for metric, value in weights.select("metric", "value").rows():
        total[metric] += value
    waited = sum(row[11] for row in rows)
    assert total == {"samples": sum(row[10] for row in rows) + waited, "latency_samples": waited}
    assert (total["samples"], waited) == (4690, 3384)
