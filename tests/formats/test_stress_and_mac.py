"""gpu_burn's output and macOS' powermetrics, against small parsers of their own."""

from __future__ import annotations

import random
import re
from pathlib import Path

import polars as pl
import pytest

import sightline
from sightline.errors import SightlineError

BURN = (
    "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-b876c63f-396c-f826-5cd0-6b8409990352)\n"
    "GPU 1: NVIDIA A100-SXM4-80GB (UUID: GPU-3f38364f-09ad-250f-5aea-564e405504f6)\n"
    "\r10.0%  proc'd: 0 (0 Gflop/s) - 2261 (6045 Gflop/s)   errors: 0 - 0   temps: 30 C - 36 C "
    "\r20.0%  proc'd: 9 (7150 Gflop/s) - 2261 (6045 Gflop/s)   errors: 0 - 3   temps: 38 C - 41 C "
    "\n\tSummary at:   Thu Mar 10 19:21:17 UTC 2022\n\n"
    "\r30.0%  proc'd: 9 (7150 Gflop/s) - 2261 (6045 Gflop/s)   errors: 0 - 4   temps: 39 C - 42 C "
    "\n\tSummary at:   Thu Mar 10 19:21:19 UTC 2022\n"
)
MAC = """Machine model: MacBookAir10,1
*** Sampled system activity (Fri Nov 10 12:37:08 2023 +0100) (100.00ms elapsed) ***
E-Cluster Power: 105 mW
CPU 0 frequency: 1392 MHz
CPU 0 idle residency:  79.25%
GPU Power: 153 mW
GPU HW active frequency: 720 MHz
GPU HW active residency:  12.50% (396 MHz: 10% 528 MHz: 2.5%)
*** Sampled system activity (Fri Nov 10 12:37:08 2023 +0100) (200.00ms elapsed) ***
GPU Power: 67 mW
"""


def read(path: Path, text: str) -> pl.DataFrame:
    path.write_bytes(text.encode())
    return sightline.open(str(path)).table("counters")


def test_gpu_burn(tmp_path: Path, cache: Path) -> None:
    rows = read(tmp_path / "burn.log", BURN)
    second = rows.get_column("time_ns").unique().sort()
    assert (second[1] - second[0]) == 2 * 10**9
    told = {(m, d, t == second[1]): v for m, d, t, v in
            rows.select("metric", "device_id", "time_ns", "value").iter_rows()}  # fmt: skip
    assert told == {
        ("achieved", 0, False): 7150, ("achieved", 1, False): 6045, ("errors", 0, False): 0,
        ("errors", 1, False): 3, ("temperature", 0, False): 38, ("temperature", 1, False): 41,
        ("achieved", 0, True): 7150, ("achieved", 1, True): 6045, ("errors", 0, True): 0,
        ("errors", 1, True): 4, ("temperature", 0, True): 39, ("temperature", 1, True): 42,
    }  # fmt: skip


def test_powermetrics(tmp_path: Path, cache: Path) -> None:
    rows = read(tmp_path / "mac.txt", MAC)
    first = 1_699_616_228 * 10**9
    told = rows.select("metric", "device_id", "source", "from_ns", "time_ns", "value").rows()
    assert sorted(told, key=str) == sorted([
        ("power", None, "E-Cluster", first - 10**8, first, 0.105),
        ("clock", None, "CPU 0", first - 10**8, first, 1392.0),
        ("CPU utilization", None, "CPU 0", first - 10**8, first, 20.75),
        ("power", 0, None, first - 10**8, first, 0.153),
        ("graphics clock", 0, None, first - 10**8, first, 720.0),
        ("GPU utilization", 0, None, first - 10**8, first, 12.5),
        # Of the same second: it ends one length later.
        ("power", 0, None, first, first + 2 * 10**8, 0.067),
    ], key=str)  # fmt: skip


@pytest.mark.parametrize("text", [BURN, MAC], ids=["gpu_burn", "powermetrics"])
def test_damage_is_a_sentence(tmp_path: Path, cache: Path, text: str) -> None:
    chance, survived = random.Random(11), 0
    for n in range(60):
        data = bytearray(text.encode())
        for _ in range(3):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path = tmp_path / f"{n}.log"
        path.write_bytes(bytes(data[: chance.randrange(len(data))]) if n % 2 else bytes(data))
        try:
            run = sightline.open(str(path))
        except SightlineError as error:
            assert str(path) in str(error)
        else:
            assert run.rows("counters") or run.rows("quality")
            survived += run.rows("counters") > 0
    assert survived >= 20  # a third of the forms: half are cut off anywhere


@pytest.mark.corpus
def test_real_logs_by_regular_expressions(corpus: Path) -> None:
    path = corpus / "energy/mlco2__codecarbon/tests/test_data/mock_powermetrics_log.txt"
    text = path.read_text()
    rows = sightline.open(str(path)).table("counters").filter(pl.col("metric") == "power")
    watts = [float(v) / 1000 for v in re.findall(r"^.* Power: ([\d.]+) mW$", text, re.MULTILINE)]
    assert rows.get_column("value").to_list() == watts
    path = corpus / "smi/microsoft__superbenchmark/tests/data/gpu_burn.log"
    rows = sightline.open(str(path)).table("counters").filter(pl.col("metric") == "temperature")
    before = [part for part in path.read_text().split("Summary at:")[:-1] if "temps:" in part]
    heats = [int(v) for part in before for v in
             re.findall(r"(\d+) C", part[part.rindex("temps:") :])]  # fmt: skip
    assert rows.get_column("value").to_list() == heats
