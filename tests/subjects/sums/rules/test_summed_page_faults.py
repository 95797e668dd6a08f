"""Pages of unified memory: faults within kernels, and migrations beside them."""

from pathlib import Path

import sightline
from support.printed import MS, open_sums
from support.rules import assert_silent, assert_speaks

NVPROF = """\
==7== NVPROF is profiling process 7, command: ./a
==7== Profiling result:
            Type  Time(%)      Time     Calls       Avg       Min       Max  Name
 GPU activities:  100.00%  3.0000ms        10  300.00us  299.50us  301.00us  step(float*, int)

==7== Unified Memory profiling result:
Device "Tesla V100 (0)"
   Count  Avg Size  Min Size  Max Size  Total Size  Total Time  Name
      36  32.889KB  4.0000KB  60.000KB  1.000000MB  200.0000us  Host To Device
      20         -         -         -           -  3.500000ms  Gpu page fault groups
"""


def test_faults_are_no_more_than_the_kernels(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_text(NVPROF)
    assert_speaks(
        sightline.open(str(path)),
        "summed-page-faults",
        cost_ns=3 * MS,
        gain_ns=3 * MS,
        evidence=["20 groups of page faults: 3.500 ms", "36 migrations HtoD: 200.0 µs, 1.049 MB"],
        fix="cudaMemPrefetchAsync",
    )


def test_migrations_alone(tmp_path: Path) -> None:
    name = "[CUDA Unified Memory memcpy HtoD]"
    run = open_sums(tmp_path, kernels=[("k()", 1, 90 * MS, MS)], copies=[(name, 9, 10 * MS, MS)])
    assert_speaks(
        run,
        "summed-page-faults",
        cost_ns=10 * MS,
        gain_ns=10 * MS,
        evidence=["9 migrations HtoD"],
        fix="cudaMemPrefetchAsync",
    )


def test_hardly_any(tmp_path: Path) -> None:
    name = "[CUDA Unified Memory memcpy HtoD]"
    run = open_sums(tmp_path, kernels=[("k()", 1, 97 * MS, MS)], copies=[(name, 9, 3 * MS, MS)])
    assert_silent(run, "summed-page-faults")
