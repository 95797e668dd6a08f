"""energy_of_kernels: measured joules shared out by what ran."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.subjects.energy.analyses.energy_of_kernels import NOTHING
from synth_nsys import Export

MS = 1_000_000
SECOND = 1000 * MS
WATTS = {"gemm": 500, "softmax": 200, None: 80}


def open_loop(folder: Path, *, metric: str, beside: bool = False) -> sightline.Run:
    """20 rounds: gemm for 400 ms, softmax for 400, nothing for 200; a reading every 100 ms.

    With `beside`, a copy runs on another stream all the time that gemm does.
    """
    export = Export("3.25.0")
    export.add("TARGET_INFO_GPU", id=0, name="NVIDIA H100", smCount=132)
    export.add("TARGET_INFO_GPU_METRICS", typeId=0, metricId=5, metricName=metric)
    joules = 0.0
    for round_ in range(20):
        begin = SECOND + round_ * SECOND
        for number, (name, at) in enumerate((("gemm", 0), ("softmax", 400))):
            key = 2 * round_ + number + 1
            start = begin + at * MS
            export.api("cudaLaunchKernel", start - 2000, start - 1000, key)
            export.kernel(name, start, start + 400 * MS, key)
        if beside:
            export.api("cudaLaunchKernel", begin - 900, begin - 500, 1000 + round_)
            export.kernel("beside", begin, begin + 400 * MS, 1000 + round_, stream=9)
        for tenth in range(10):
            running = "gemm" if tenth < 4 else "softmax" if tenth < 8 else None
            joules += WATTS[running] / 10
            value = round(joules) if metric.startswith("energy") else WATTS[running]
            at = begin + (tenth + 1) * 100 * MS
            export.add("GPU_METRICS", timestamp=at, typeId=0, metricId=5, value=value)
    folder.mkdir(exist_ok=True)
    return sightline.open(str(export.write(folder / "run.sqlite")))


def ask(run: sightline.Run) -> dict[str, dict[str, float]]:
    return {row["name"]: row for row in run.ask("energy_of_kernels").to_dicts()}


def test_two_kernels_and_nothing(tmp_path: Path) -> None:
    """The jumps are seen half a reading late, which moves 5 % of each part to its neighbour."""
    run = open_loop(tmp_path, metric="energy [J]")
    rows = ask(run)
    assert list(rows) == ["gemm", "softmax", NOTHING]
    assert rows["gemm"]["power_w"] == pytest.approx(500, rel=0.15)
    assert rows["softmax"]["power_w"] == pytest.approx(200, rel=0.20)
    assert rows[NOTHING]["power_w"] == pytest.approx(80, rel=0.15)
    (whole,) = run.ask("energy").filter(part="while measured").get_column("energy_j")
    assert sum(row["energy_j"] for row in rows.values()) == pytest.approx(whole, rel=0.02)
    assert sum(row["energy_pct"] for row in rows.values()) == pytest.approx(100)
    assert rows["gemm"]["mark_ns"] == 100 * MS


def test_what_runs_at_the_same_time_has_the_same_power(tmp_path: Path) -> None:
    """gemm has what it would have without the other kernel, and each of them half of it."""
    alone = ask(open_loop(tmp_path / "a", metric="energy [J]"))
    both = ask(open_loop(tmp_path / "b", metric="energy [J]", beside=True))
    assert both["gemm"]["energy_j"] == pytest.approx(both["beside"]["energy_j"], rel=0.02)
    pair = both["gemm"]["energy_j"] + both["beside"]["energy_j"]
    assert pair == pytest.approx(alone["gemm"]["energy_j"], rel=0.15)


def test_power_sums_to_what_it_integrates_to(tmp_path: Path) -> None:
    run = open_loop(tmp_path, metric="power [W]")
    rows = ask(run)
    (whole,) = run.ask("energy").filter(part="while measured").get_column("energy_j")
    assert sum(row["energy_j"] for row in rows.values()) == pytest.approx(whole)
    assert {row["method"] for row in rows.values()} == {"power"}
