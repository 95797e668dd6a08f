"""double-precision: doubles on GPUs that compute them at 1/64 to 1/2 of the rate of floats."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import kernel, launched, opened

RULE = "double-precision"
GAMES = ("NVIDIA GeForce RTX 3060", 8, 6)


def run_of(folder: Path, name: str, length: int = 640, gpu: tuple[str, int, int] = GAMES) -> Run:
    events = [
        launched(0, kernel(name, 100, length)),
        launched(10, kernel("other", 100 + length, 360)),
    ]
    device = {"id": 0, "name": gpu[0], "computeMajor": gpu[1], "computeMinor": gpu[2]}
    return opened(folder, events, deviceProperties=[device])


def test_a_product_of_doubles(tmp_path: Path) -> None:
    """A sixty-fourth of 640 µs remains."""
    assert_speaks(
        run_of(tmp_path, "ampere_dgemm_64x64_nn"),
        RULE,
        cost_ns=630_000,
        gain_ns=630_000,
        evidence=["1/64 of its rate"],
        fix="float32",
        severity="critical",
        confidence="medium",
    )


@pytest.mark.parametrize(
    "name", ["heat(double *, int)", "void axpy<double>(double)", "dot(CuDeviceArray<Float64, 1>)"]
)
def test_doubles_in_the_signature(tmp_path: Path, name: str) -> None:
    """Half of the bytes: what it computes in is not known, so it is a note."""
    found = answers(run_of(tmp_path, name), RULE)
    assert [(f.gain_ns, f.severity, f.confidence) for f in found] == [(320_000, "info", "low")]


@pytest.mark.parametrize(
    ("name", "gpu"),
    [
        ("heat(double *, int)", ("NVIDIA A100-SXM4-80GB", 8, 0)),
        ("heat(double *, int)", ("Tesla V100-PCIE-32GB", 7, 0)),
        ("heat(double *, int)", ("Tesla P100-PCIE-16GB", 6, 0)),
        ("heat(float *, int)", GAMES),
        ("double_buffer(float *)", GAMES),
        ("copy_as_Float64x(float *)", GAMES),
        ("heat(double *, int)", ("a GPU that nobody knows", 99, 0)),
    ],
)
def test_where_doubles_are_fast_or_floats(
    tmp_path: Path, name: str, gpu: tuple[str, int, int]
) -> None:
    assert_silent(run_of(tmp_path, name, gpu=gpu), RULE)


def test_a_short_one(tmp_path: Path) -> None:
    assert_silent(run_of(tmp_path, "heat(double *, int)", length=30), RULE)
