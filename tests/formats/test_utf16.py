"""Text that PowerShell wrote: UTF-16 with its mark, of whichever format."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

import sightline
from formats.test_ncu_csv import LONG, kernel
from formats.test_nvidia_text import NEW, NVPROF
from formats.test_summaries import TABLE
from sightline.errors import SightlineError

NCU = "\n".join(
    ",".join(f'"{cell}"' for cell in row)
    for row in (LONG, [*kernel(), "Speed", "Duration", "us", "5.0", "", "", "", "", ""])
)
TEXTS = {"nsys": NEW, "nvprof": NVPROF, "PyTorch": TABLE, "ncu": NCU}


def read(path: Path) -> dict[str, pl.DataFrame]:
    run = sightline.open(str(path))
    tables = ("call_sums", "profiled_kernels", "kernel_metrics")
    return {name: run.table(name).drop("recording_id", strict=False) for name in tables}


@pytest.mark.parametrize("tool", TEXTS)
@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
def test_it_is_read_as_the_same_in_utf8(tmp_path: Path, tool: str, order: str) -> None:
    plain, wide = tmp_path / "plain.txt", tmp_path / "wide.txt"
    plain.write_text(TEXTS[tool], encoding="utf-8")
    wide.write_bytes(("\ufeff" + TEXTS[tool]).encode(order))
    want, got = read(plain), read(wide)
    assert any(table.height for table in want.values())
    for name, table in want.items():
        assert table.equals(got[name]), name


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_counters_that_were_denied_are_said(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "out.txt"
    text = "n=12\n==PROF== Connected to process 7\n==ERROR== ERR_NVGPUCTRPERM - The user does not\n"
    path.write_text(text, encoding=encoding)
    with pytest.raises(SightlineError) as caught:
        sightline.open(str(path))
    assert "refused the GPU's counters" in str(caught.value)
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(caught.value)
