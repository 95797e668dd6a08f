"""Joules a token: a server of 500 W in its steps, read every 100 ms, by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.errors import MissingDataError
from support.traces import host, opened
from synth_nsys import Export

MS = 1_000_000


def open_server(folder: Path, *, metered: bool = True) -> sightline.Run:
    """A prompt of 100 tokens and nine steps of decode of four requests, 200 ms each, at 500 W."""
    export = Export("3.25.0")
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA H100", smCount=132)
    export.add("TARGET_INFO_GPU_METRICS", typeId=0, metricId=5, metricName="power [W]")
    for n in range(10):
        at = 1000 * MS + 200 * MS * n
        asked = "4 ctx reqs, 100 ctx tokens, 0" if not n else "0 ctx reqs, 0 ctx tokens, 4"
        export.range(f"[Executor] _forward_step {n}: {asked} gen reqs", at, at + 200 * MS)
        export.api("cudaLaunchKernel", at + 1000, at + 2000, n + 1)
        export.kernel("gemm", at + 3000, at + 200 * MS - 1000, n + 1)
    for tenth in range(45):
        if metered:
            export.add("GPU_METRICS", timestamp=tenth * 100 * MS, typeId=0, metricId=5, value=500)
    folder.mkdir(exist_ok=True)
    return sightline.open(str(export.write(folder / "run.sqlite")))


def test_what_a_token_costs(tmp_path: Path) -> None:
    """500 W for 2 s are 1,000 J; 36 tokens of running requests and four first ones are 40."""
    (row,) = open_server(tmp_path).ask("energy_per_token").to_dicts()
    assert row["energy_j"] == pytest.approx(1000, rel=0.001)
    assert row["low_j"] <= row["energy_j"] <= row["high_j"]
    assert (row["prompt_tokens"], row["output_tokens"]) == (100, 40)
    assert row["j_per_output_token"] == pytest.approx(25.0, rel=0.001)
    assert row["j_per_token"] == pytest.approx(1000 / 140, rel=0.001)


def test_without_a_meter(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError):
        open_server(tmp_path, metered=False).ask("energy_per_token")
    steps = [host("user_annotation", "step[DECODE bs=8]", 0, 9)]
    (tmp_path / "other").mkdir()
    with pytest.raises(MissingDataError):
        opened(tmp_path / "other", steps).ask("energy_per_token")
