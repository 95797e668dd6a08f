"""THAPI's tally as iprof prints it: sums by name, of calls, device work and traffic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import sightline
from sightline.errors import DamagedError
from support.command import stats

TALLY = """hello from the program | with a line of its own
BACKEND_OMP | 1 Hostnames | 1 Processes | 1 Threads |

       Name |   Time | Time(%) | Calls | Average |    Min |    Max |
ompt_target | 3.65ms | 100.00% |     1 |  3.65ms | 3.65ms | 3.65ms |
      Total | 3.65ms | 100.00% |     1 |

BACKEND_OPENCL,BACKEND_ZE | 1 Hostnames | 12 Processes | 12 Threads |

 Name | Time | Time(%) | Calls | Average | Min | Max | Error |
 zeModuleCreate | 1.65min | 93.09% | 132 | 750.00ms | 94.76us | 2.94s | 0 |
 zeCommandListAppendMemoryCopy | 96.89ms | 3.14% | 180 | 538.25us | 847ns | 6.84ms | 3 |
 Total | 1.65min | 100.00% | 312 | 3 |

Device profiling | 1 Hostnames | 1 Processes | 1 Threads | 1 Devices | 1 Subdevices |

 Name | Time | Time(%) | Calls | Average | Min | Max |
 gemm_kernel | 818.72us | 93.87% | 1 | 818.72us | 818.72us | 818.72us |
 operator|(float, [...]alTransformFunctor | 41.60us | 4.77% | 2 | 20.80us | 20.80us | 20.80us |
                                    Total | 860.32us | 100.00% |     3 |

Explicit memory traffic (BACKEND_ZE) | 1 Hostnames | 1 Processes | 1 Threads |

                            Name |     Byte | Byte(%) | Calls | Average |     Min |     Max |
zeCommandListAppendMemoryFill(D) |  14.68MB | 100.00% |     1 | 14.68MB | 14.68MB | 14.68MB |
                           Total |  14.68MB | 100.00% |     1 |
"""
COLUMNS = ("kind", "layer", "category", "name", "calls", "errors", "duration_ns",
           "shortest_duration_ns", "longest_duration_ns", "bytes")  # fmt: skip


def read(folder: Path, text: str) -> list[tuple[Any, ...]]:
    path = folder / "iprof.txt"
    path.write_text(text)
    return sightline.open(str(path)).table("call_sums").select(COLUMNS).rows()


def test_all_tables(tmp_path: Path) -> None:
    copy = "zeCommandListAppendMemoryCopy"
    apis = "opencl,ze"
    ns, us, ms, s = 1, 10**3, 10**6, 10**9
    assert read(tmp_path, TALLY) == [
        ("host", "openmp", "ompt", "ompt_target", 1, None, 3650 * us, 3650 * us, 3650 * us, None),
        ("host", "driver", apis, "zeModuleCreate", 132, 0, 99 * s, 94_760 * ns, 2940 * ms, None),
        ("host", "driver", apis, copy, 180, 3, 96_890 * us, 847, 6840 * us, None),
        ("device", None, "kernel", "gemm_kernel", 1, None, 818_720, 818_720, 818_720, None),
        ("device", None, "kernel", "operator|(float, [...]alTransformFunctor", 2, None, 41_600,
         20_800, 20_800, None),
        ("traffic", None, "ze", "zeCommandListAppendMemoryFill(D)", 1, None, None, None, None,
         14_680_000),
    ]  # fmt: skip


def test_the_tally_is_asked_as_any_other(tmp_path: Path) -> None:
    read(tmp_path, TALLY)
    rows = {row["name"]: row for row in stats("call_tally", tmp_path / "iprof.txt")}
    assert rows["zeModuleCreate"]["total_ns"] == 99 * 10**9
    assert rows["zeCommandListAppendMemoryCopy"]["errors"] == 3


def test_a_heading_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DamagedError, match="has a row"):
        read(tmp_path, "BACKEND_ZE | 1 Hostnames | 1 Processes | 1 Threads |\n\n")


def test_a_row_without_a_time_is_counted(tmp_path: Path) -> None:
    read(tmp_path, re.sub(r"(gemm_kernel \| *)818.72us", r"\1oops", TALLY))
    notes = sightline.open(str(tmp_path / "iprof.txt")).table("quality")
    assert notes.filter(kind="damaged_lines").get_column("count").to_list() == [1]


def test_device_work_is_judged_in_the_words_of_its_world(tmp_path: Path) -> None:
    text = TALLY.replace(
        " operator|(float, [...]alTransformFunctor ", " zeCommandListAppendMemoryCopy(M2D) "
    )
    path = tmp_path / "iprof.txt"
    path.write_text(text)
    run = sightline.open(str(path))
    work = run.table("call_sums").filter(kind="device").select("name", "category").rows()
    assert work == [("gemm_kernel", "kernel"), ("zeCommandListAppendMemoryCopy(M2D)", "memcpy")]
    [found] = [f for f in run.findings() if f.rule == "summed-kernel"]
    assert not found.abstained
    assert "unitrace" in str(found.fix)
    said = str([(f.fix, f.reason) for f in run.findings()])
    for word in ("nsys", "ncu ", "cuBLAS"):
        assert word not in said
