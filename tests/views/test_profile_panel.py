"""The panel of a kernel profiler's report: sections, stalls, code with heat, rules, what-if."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline
from sightline.core.page.declare import View
from sightline.errors import MissingDataError
from sightline.subjects.ncu.panels import profile
from sightline.subjects.ncu.panels._limits import name_limit
from support import traces
from support.places import ROOT
from support.profiled import DRAM, FULL_SM, MEMORY, SM, opened, profiled, with_code


def blocks_of(run) -> dict[str, dict]:
    choice = profile.data(View(run))[0]
    return {b.get("title", ""): b for b in unfold(choice["options"][0]["blocks"])}


def unfold(blocks: list[dict]) -> list[dict]:
    """The blocks, and those that are folded away."""
    return [b for block in blocks for b in [block, *unfold(block.get("blocks", []))]]


def rows_of(block: dict) -> list[dict]:
    columns = {c["name"]: c["values"] for c in block["columns"]}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_instructions_in_order_with_samples_and_executions(tmp_path: Path):
    found = blocks_of(opened(tmp_path, with_code()))
    code = found["Instructions (SASS)"]
    assert {c["name"] for c in code["columns"] if c.get("heat")} == {
        "share_pct",
        "not_issued_pct",
        "executed_pct",
    }
    rows = rows_of(code)
    assert [r["at"] for r in rows] == ["0x0000", "0x0010", "0x0020", "0x0030"]
    assert [r["executed_pct"] for r in rows] == [25.0] * 4
    # 3 samples of an issuing warp at the first, 30 of a stalled one at the second.
    assert [r["samples"] for r in rows] == [3, 30, None, None]
    assert rows[1]["share_pct"] == pytest.approx(100 * 30 / 33)
    assert rows[1]["not_issued_pct"] == 100.0
    assert [r["reason"] for r in rows[:2]] == [None, "long_scoreboard"]


def test_source_lines_have_what_their_instructions_have(tmp_path: Path):
    rows = rows_of(blocks_of(opened(tmp_path, with_code()))["Source"])
    assert [(r["file"], r["line"], r["samples"]) for r in rows] == [
        ("scale.cu", 10, 3),
        ("scale.cu", 12, 30),
    ]
    without = blocks_of(opened(tmp_path / "none", with_code(lines=False)))
    assert "Source" not in without
    assert "Instructions (SASS)" in without


def test_stalls_of_each_way_to_count_stand_by_themselves(tmp_path: Path):
    found = blocks_of(opened(tmp_path, with_code()))
    shares = {title: rows_of(b) for title, b in found.items() if title.startswith("Stalls")}
    assert {title: [(r["reason"], r["value"]) for r in rows] for title, rows in shares.items()} == {
        "Stalls: samples of all warps": [("long_scoreboard", 30.0), ("selected", 3.0)],
        "Stalls: samples taken while the scheduler issued nothing": [("long_scoreboard", 20.0)],
    }


def test_occupancy_over_registers_threads_and_shared_memory(tmp_path: Path):
    # 256 threads of 32 registers: of 48 warps an A10G's SM holds all 48, so 100 %.
    found = blocks_of(profiled(tmp_path, {**FULL_SM, SM: 50.0, MEMORY: 30.0, DRAM: 20.0}))
    registers, threads, shared = found["Theoretical occupancy by launch setting"]["curves"]
    assert registers["current"] == [32, 100.0]
    at = dict(zip(registers["x"], registers["y"], strict=True))
    assert at[1] == 100.0
    # From 41 on: 65 536 registers / (48 × 32) = 42.7, given out per warp in units of 256.
    assert registers["x"][1] == 41
    assert registers["y"][1] < 100.0
    assert threads["current"] == [256, 100.0]
    assert shared["current"][0] == 1024
    assert rows_of(found["Speed of light"])[0]["sm_pct"] == 50.0


def test_the_longest_kernels_are_first_and_none_is_a_clear_answer(tmp_path: Path):
    choice = profile.data(View(profiled(tmp_path, {SM: 50.0})))[0]
    assert choice["options"][0]["label"].endswith("10.00 µs")
    run = traces.opened(tmp_path, [traces.kernel("k", 0, 5)])
    with pytest.raises(MissingDataError):
        profile.data(View(run))


def test_what_bounds_the_kernel_comes_first_and_the_rest_is_folded(tmp_path: Path):
    choice = profile.data(View(opened(tmp_path, with_code())))[0]
    blocks = choice["options"][0]["blocks"]
    assert (blocks[0]["kind"], blocks[0]["role"]) == ("text", "lead")
    assert blocks[0]["text"].startswith("Warps wait mostly in long_scoreboard")
    kinds = [block["kind"] for block in blocks]
    assert kinds.index("group") == len(kinds) - kinds.count("group")
    lines = next(b for b in blocks if b["kind"] == "table")
    assert rows_of(lines)[0]["line"] == 12  # 30 of 33 samples


@pytest.mark.parametrize(
    ("sm", "memory", "said"),
    [
        (90.0, 30.0, "Compute bounds it: 90.0 % of the peak."),
        (30.0, 89.2, "Memory bounds it: 89.2 % of the peak."),
        (30.0, 35.0, "Latency bounds it: neither compute (30.0 % of the peak) nor memory (35.0 %)"),
    ],
)
def test_what_bounds_it(tmp_path: Path, sm: float, memory: float, said: str):
    choice = profile.data(View(profiled(tmp_path, {**FULL_SM, SM: sm, MEMORY: memory})))[0]
    assert choice["options"][0]["blocks"][0]["text"].startswith(said)


def test_the_unit_of_the_memory_that_bounds_is_named() -> None:
    """Spilled registers keep the L2 busy, and not the device's memory."""
    recording = ROOT / "lab/register-spill/recorded/baseline.profiled/kernels.ncu-rep"
    row = sightline.open(str(recording)).ask("speed_of_light").row(0, named=True)
    assert name_limit(row, None) == "L2 bounds it: 100.0 % of its peak."
