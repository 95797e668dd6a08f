"""A timeline and a kernel profile of the same program, in one picture."""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from sightline.flames import scaled
from sightline.flames.stacks import stack_paths


class Profiled:
    """A run that holds samples of two executions of one kernel."""

    _TABLES: ClassVar[dict[str, pl.DataFrame]] = {
        "profiled_kernels": pl.DataFrame(
            {"kernel_id": [0, 1], "name": ["gemm", "gemm"], "function": [None, None]},
            schema_overrides={"function": pl.String},
        ),
        "pc_samples": pl.DataFrame(
            {
                "kernel_id": [0, 0, 1],
                "samples": [1, 1, 1],
                "latency_samples": [1, 0, 0],
                "file": ["a.cu", "a.cu", "a.cu"],
                "line": [3, 4, 3],
                "offset": [16, 32, 16],
                "opcode": ["LDG", "FFMA", "LDG"],
                "reason": ["long_scoreboard", "selected", "long_scoreboard"],
            }
        ),
    }

    def table(self, name: str) -> pl.DataFrame:
        return self._TABLES[name]


def test_a_kernels_time_is_split_by_its_shares_in_whole_ns():
    timeline = stack_paths(
        [
            ([("op", "mm"), ("kernel", "gemm")], "exact", {"gpu_time_ns": 100}),
            ([("op", "add"), ("kernel", "other")], "exact", {"gpu_time_ns": 7}),
        ]
    )
    stacks = scaled.open_kernels(Profiled(), timeline)
    name = {i: text for i, _, text in stacks.frames.rows()}
    found = {
        "|".join(name[f] for f in frames): (match, value)
        for frames, match, value in stacks.rows.select("frames", "match", "gpu_time_ns").rows()
    }
    # Two of three samples on line 3: 66 and 33 would lose a ns, so one part gets 67 or 34.
    assert found.pop("add|other") == ("exact", 7)
    load = "mm|gemm|a.cu|a.cu:3|+0x10 LDG|memory wait|long_scoreboard"
    fma = "mm|gemm|a.cu|a.cu:4|+0x20 FFMA|issuing|selected"
    assert set(found) == {load, fma}
    assert {match for match, _ in found.values()} == {"apportioned"}
    assert found[load][1] + found[fma][1] == 100
    assert found[load][1] in (66, 67)
    assert stacks.total("gpu_time_ns") == timeline.total("gpu_time_ns")
