"""Proton's trees as JSON and as MessagePack: the same stacks, and damage."""

from __future__ import annotations

import json
from pathlib import Path

import msgpack
import pytest

from sightline.formats.triton import proton
from support.damage import survive_damage
from support.stacks import find_weights

KERNEL = {"frame": {"name": "gemm", "type": "function"}, "metrics": {"time (ns)": 7500, "count": 3},
          "children": []}  # fmt: skip
TREES = [
    {"frame": {"name": "ROOT", "type": "function"}, "metrics": {"time (ns)": 0, "count": 0},
     "children": [{"frame": {"name": "/x/a.py:main@7", "type": "function"}, "metrics": {},
                   "children": [KERNEL]}]},
    {"CUDA": {"0": {"arch": "90", "num_sms": 132}}},
]  # fmt: skip
FORMS = {"json": json.dumps(TREES).encode(), "msgpack": msgpack.packb(TREES)}


@pytest.mark.parametrize("form", FORMS)
def test_the_tree_becomes_stacks(tmp_path: Path, form: str) -> None:
    path = tmp_path / "profile"  # known by its content
    path.write_bytes(FORMS[form])
    assert find_weights(path) == {("gpu_time_ns", "ROOT", "main", "gemm"): 7500}


@pytest.mark.parametrize("form", FORMS)
def test_damage(tmp_path: Path, form: str) -> None:
    survive_damage(proton.read, tmp_path / "x", FORMS[form])


@pytest.mark.corpus
def test_a_real_tree_is_the_same_in_messagepack(corpus: Path, tmp_path: Path) -> None:
    path = corpus / "proton/pytorch-labs__tritonbench/proton.hatchet"
    packed = tmp_path / "proton.hatchet_msgpack"
    packed.write_bytes(msgpack.packb(json.loads(path.read_text())))
    assert find_weights(packed) == find_weights(path)
