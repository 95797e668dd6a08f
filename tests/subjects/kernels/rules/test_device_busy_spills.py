"""device-busy names registers that spill: all of a thread's are used, and memory besides."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline as sl

HEAD = "Index,KernelName,gpu-id,queue-id,grd,wgr,lds,scr,arch_vgpr,accum_vgpr,sgpr,BeginNs,EndNs"


def record(folder: Path, name: str, registers: int, scratch: int) -> sl.Session:
    """Forty launches of 1 ms, one after the other, as rocprof writes them."""
    rows = [
        f'{n},"{name}",0,0,65536,256,0,{scratch},{registers},0,128,{n * 10**6},{(n + 1) * 10**6}'
        for n in range(40)
    ]
    (folder / "results.csv").write_text("\n".join([HEAD, *rows]) + "\n")
    return sl.open(str(folder / "results.csv"))


@pytest.mark.parametrize(
    ("name", "registers", "scratch", "spills"),
    [
        ("solve(float*)", 256, 696, True),
        ("solve(float*)", 255, 48, True),
        ("solve(float*)", 256, 0, False),
        ("solve(float*)", 64, 696, False),
        # A library chose its tiles, and knows what that costs.
        ("Cijk_Alik_Bljk_HHS_BH_MT128x128x32_SN", 256, 696, False),
    ],
)
def test_registers_that_spill(
    tmp_path: Path, name: str, registers: int, scratch: int, spills: bool
) -> None:
    found = {f.rule: f for f in record(tmp_path, name, registers, scratch).findings()}
    busy = found["device-busy"]
    said = any("registers spill" in line for line in busy.evidence)
    assert said == spills
    assert ("fewer registers" in busy.fix) == spills
