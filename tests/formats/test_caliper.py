"""Caliper's profiles: own times of regions, kernels, samples; Caliper's own reader's figures."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from pathlib import Path

import pytest

import sightline
from sightline.formats.hpc import caliper
from support.damage import survive_damage
from support.stacks import add_up_weights, find_weights

# Attributes are nodes: 22 is the region (nested: 256 + 20), 24 a time (a value: 65), 26 a kernel's.
PROFILE = r"""__rec=node,id=21,attr=10,data=276,parent=3
__rec=node,id=22,attr=8,data=region,parent=21
__rec=node,id=12,attr=10,data=20,parent=3
__rec=node,id=13,attr=8,data=attribute.unit,parent=12
__rec=node,id=14,attr=13,data=sec,parent=5
__rec=node,id=23,attr=10,data=65,parent=14
__rec=node,id=24,attr=8,data=sum#inclusive#sum#time.duration,parent=23
__rec=node,id=25,attr=10,data=65,parent=5
__rec=node,id=26,attr=8,data=sum#cupti.activity.duration,parent=25
__rec=node,id=27,attr=10,data=20,parent=3
__rec=node,id=28,attr=8,data=cupti.kernel.name,parent=27
__rec=node,id=30,attr=22,data=main
__rec=node,id=31,attr=22,data=solve\, then\=print,parent=30
__rec=node,id=32,attr=28,data=gemm(float*),parent=31
__rec=ctx,ref=30,attr=24,data=1.500000
__rec=ctx,ref=31,attr=24,data=0.500001
__rec=ctx,ref=32,attr=26,data=7500
__rec=globals,ref=30
"""
SPLIT = {
    "data": [[3, 1, 2, 15000.0], [1, 0, None, 5000.0]],
    "columns": ["count", "path", "sourceloc#cali.sampler.pc", "sum#time.duration"],
    "column_metadata": [{"is_value": True}, {"is_value": False}, {"is_value": False},
                        {"is_value": True}],
    "nodes": [{"column": "path", "label": "main"}, {"column": "path", "label": "work", "parent": 0},
              {"column": "sourceloc#cali.sampler.pc", "label": "/x/work.c:7"}],
}  # fmt: skip


def test_inclusive_times_become_own_times(tmp_path: Path) -> None:
    (tmp_path / "run.cali").write_text(PROFILE)
    solve = "solve, then=print"
    assert find_weights(tmp_path / "run.cali") == {
        ("cpu_time_ns", "main"): 999_999_000,
        ("cpu_time_ns", "main", solve): 500_001_000,
        ("gpu_time_ns", "main", solve, "gemm(float*)"): 7_500,
    }


def test_samples_of_the_split_form(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(SPLIT))
    assert find_weights(tmp_path / "run.json") == {
        ("cpu_time_ns", "main", "work"): 15_000_000,
        ("cpu_time_ns", "main"): 5_000_000,
        ("samples", "main", "work"): 3,
        ("samples", "main"): 1,
    }
    run = sightline.open(str(tmp_path / "run.json"))
    places = run.table("frames").select("function", "file", "line").rows()
    assert ("work", "/x/work.c", 7) in places


@pytest.mark.parametrize("golden", [PROFILE, json.dumps(SPLIT)], ids=["cali", "json"])
def test_damage(tmp_path: Path, golden: str) -> None:
    survive_damage(caliper.read, tmp_path / "x", golden)


# -- real profiles ---------------------------------------------------------------------------------

THICKET = "LLNL__thicket/thicket/tests/data/rajaperf"


@pytest.mark.corpus
@pytest.mark.parametrize(
    "name",
    [
        "LLNL__Caliper/python/caliper-reader/example-profile",
        f"{THICKET}/lassen/clang10.0.1_nvcc10.2.89_1048576/1/Base_CUDA-block_256",
        f"{THICKET}/quartz/gcc10.3.1_1048576/O3/1/Base_Seq-default",
    ],
)
def test_own_times_add_up_to_the_roots(corpus: Path, name: str) -> None:
    """By regular expressions alone: what has no path, and each region that lies in no other."""
    path = corpus / "caliper_etc" / f"{name}.cali"
    text = path.read_text()
    nodes = {
        m[1]: (m[2], m[3], m[4])
        for m in re.finditer(
            r"__rec=node,id=(\d+),attr=(\d+),data=([^,\n]*),?(?:parent=(\d+))?", text
        )
    }
    nested = {
        number
        for number, (attribute, _, parent) in nodes.items()
        if attribute == "8" and parent in nodes and nodes[parent][0] == "10"
        and int(nodes[parent][1]) & 256
    }  # fmt: skip
    time = next(n for n, (a, name, _) in nodes.items()
                if a == "8" and name == "sum#inclusive#sum#time.duration")  # fmt: skip
    total = Decimal(0)
    for refs, attributes, data in re.findall(
        r"__rec=ctx,(?:ref=([\d=]+),)?attr=([\d=]+),data=(\S+)", text
    ):
        values = dict(zip(attributes.split("="), data.split("="), strict=True))
        depth = 0
        for ref in refs.split("="):
            at: str | None = ref
            while at in nodes:
                depth += nodes[at][0] in nested
                at = nodes[at][2]
        if depth <= 1 and time in values:
            total += Decimal(values[time])
    weights = find_weights(path)
    assert sum(weights.values()) == total * 10**9
    assert all(weight == "cpu_time_ns" for weight, *_ in weights)


@pytest.mark.corpus
def test_the_split_form_adds_up(corpus: Path) -> None:
    """By json alone: 460 samples of 5 ms; the time is written in µs."""
    folder = corpus / "caliper_etc/hatchet__hatchet/hatchet/tests/data/caliper-cpi-json"
    path = folder / "cpi-callpath-profile.json"
    rows = json.loads(path.read_text())["data"]
    total = add_up_weights(find_weights(path))
    assert total == {
        "samples": sum(row[0] for row in rows),
        "cpu_time_ns": sum(int(row[5]) for row in rows) * 1000,
    }
    assert total["samples"] == 460
