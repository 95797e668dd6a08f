"""partial-wave: 40 blocks on 28 multiprocessors, and waves that are nearly empty."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import assert_silent, assert_speaks
from support.traces import kernel, launched, opened

RULE = "partial-wave"
GPU = {"id": 0, "name": "NVIDIA GeForce RTX 3060", "numSms": 28, "computeMajor": 8}


def run_of(folder: Path, blocks: int, threads: int = 256, length: int = 560) -> Run:
    shape = {"grid": [blocks, 1, 1], "block": [threads, 1, 1], "registers per thread": 32}
    event = launched(0, kernel("blur", 200, length, **shape))
    return opened(folder, [event], deviceProperties=[{**GPU, "computeMinor": 6}])


def test_40_blocks_on_28_multiprocessors(tmp_path: Path) -> None:
    """Twelve have two blocks, sixteen one: 40 of 56 parts of the time are needed."""
    assert_speaks(
        run_of(tmp_path, 40),
        RULE,
        cost_ns=160_000,
        gain_ns=160_000,
        evidence=["`blur` runs with 40 blocks of 256 threads on 28 multiprocessors"],
        fix="a multiple of the blocks that run at once",
        severity="info",
        confidence="low",
    )


def test_one_block_more_than_a_wave(tmp_path: Path) -> None:
    """Six blocks of 256 threads fit: 169 of 336 places of two waves are filled."""
    assert_speaks(
        run_of(tmp_path, 169, length=672),
        RULE,
        cost_ns=334_000,
        gain_ns=334_000,
        evidence=["169 blocks"],
        fix="grid-stride",
    )


@pytest.mark.parametrize(
    ("blocks", "length"),
    [(28, 560), (56, 560), (336, 560), (28_000, 560), (40, 9)],
    ids=["one each", "two each", "two waves", "many waves", "short"],
)
def test_even_waves(tmp_path: Path, blocks: int, length: int) -> None:
    assert_silent(run_of(tmp_path, blocks, length=length), RULE)
