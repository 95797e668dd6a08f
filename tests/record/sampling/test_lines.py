"""Lines of C code in samples: of functions, and of those that the compiler inlined into them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from record.sampling.programs import needs_sampling, sample
from sightline.record.sampling.lines import LineFinder

SOURCE = """#include <stdio.h>
static volatile double sink;
static inline __attribute__((always_inline)) void turn(double *x) {
  for (int i = 0; i < 1000; i++) *x = *x * 1.0000001 + 1e-9;
}
int main(void) {
  double x = 1;
  for (long n = 0; n < 150000; n++) turn(&x);
  sink = x;
  return 0;
}
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    if shutil.which("cc") is None or shutil.which("addr2line") is None:
        pytest.skip("there is no C compiler, or no addr2line")
    source = tmp_path / "turn.c"
    source.write_text(SOURCE)
    subprocess.run(["cc", "-O2", "-g", "-o", tmp_path / "turn", source], check=True)
    return tmp_path / "turn"


@pytest.mark.timing
def test_an_inlined_function_and_its_line(program: Path, tmp_path: Path) -> None:
    """Nearly all samples are in line 4 of `turn`, which is within `main`."""
    needs_sampling()
    imported, _, _ = sample(tmp_path / "a.stacks", program)
    tables = imported.tables
    ends = (
        tables["cpu_samples"]
        .join(tables["stacks"], on="stack_id")
        .join(tables["frames"], on="frame_id")
    )
    mine = ends.filter(pl.col("function") == "turn")
    assert mine.height > 0.8 * ends.height
    assert mine.get_column("line").mode().to_list() == [4]
    assert mine.get_column("file").cast(pl.String).str.ends_with("turn.c").all()
    outer = mine.select(stack_id="parent_id").join(tables["stacks"], on="stack_id")
    callers = outer.join(tables["frames"], on="frame_id").get_column("function").unique()
    assert callers.to_list() == ["main"]


def test_what_is_no_code(program: Path) -> None:
    finder = LineFinder(str(program))
    assert finder.find(0) == []
    finder.close()


def test_what_is_no_program(tmp_path: Path) -> None:
    if shutil.which("addr2line") is None:
        pytest.skip("there is no addr2line")
    finder = LineFinder(str(tmp_path))
    with pytest.raises(OSError):
        finder.find(0)
    finder.close()
