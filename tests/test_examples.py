"""The examples: what is committed can be read, and the recording script records."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from support.command import sightline
from support.places import EXAMPLES


def test_the_real_cpu_recording():
    data = json.loads(sightline("report", EXAMPLES / "cpu-training.json.gz", "--json").out)
    (recording,) = data["recordings"]
    assert recording["tool"] == "PyTorch profiler"
    assert recording["has_stacks"]
    assert recording["has_shapes"]
    assert recording["host"] is None
    assert {"aten::convolution_backward"} <= {row["name"] for row in data["ops"]}


def test_the_simulated_recordings():
    data = json.loads(sightline("report", EXAMPLES / "simulated-straggler", "--json").out)
    assert [r["rank"] for r in data["recordings"]] == [0, 1, 2]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_the_recording_script_on_a_cpu(tmp_path):
    target = tmp_path / "rank3.json.gz"
    command = [sys.executable, EXAMPLES / "record.py", "--device", "cpu", "-o", target]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    data = json.loads(sightline("report", target, "--json").out)
    assert data["recordings"][0]["rank"] == 3
    assert any(limit["kind"] == "no_device_ops" for limit in data["limits"])
    annotations = json.loads(sightline("stats", "annotations", target, "--json").out)
    by_name = {row["name"]: row["instances"] for row in annotations}
    assert {by_name.get(n) for n in ("ProfilerStep#*", "forward", "backward", "optimizer")} == {3}
