"""Recordings whose kernels are slow by the shape of their launch: first, and by no more than is."""

from __future__ import annotations

from pathlib import Path

import pytest

import sightline

# What the kernels take less what the owner's own fuller launch or next recording took, in ns, by
# the raw rows of the recordings; None where no gain may be claimed.
CASES = {
    "nsys/danae-pan__hpc_assignment3/report2.sqlite": ("few-blocks", 10_154_587_561),
    "nsys/danae-pan__hpc_assignment3/report3.sqlite": ("few-blocks", 44_066_000_000),
    "nsys/devansh-gupta19__ECE213-Phylogenetic-Tree-Using-Mash/build/report1.sqlite": (
        "few-blocks",
        82_700_000,
    ),
    "nsys/kmcho2019__Rodinia_3.1_Gaussian/report2.sqlite": ("small-blocks", 2_094_000_000),
    "ncu/iamcoleman__monte-carlo-pi/profile.ncu-rep": ("ncu-generators", 77_686_368),
    "ncu/bautista-garcia__heat_sim/profile.ncu-rep": ("ncu-tiny-kernels", None),
}
LEAST = 0.8  # of what is there


@pytest.mark.corpus
@pytest.mark.parametrize("name", CASES)
def test_first_finding(corpus: Path, name: str) -> None:
    rule, most_ns = CASES[name]
    found = [f for f in sightline.findings(sightline.open(corpus / name)) if not f.abstained]
    # That the code was built for a debugger comes before all that is found of it.
    first = next(f for f in found if f.rule != "ncu-debug-build")
    assert first.rule == rule
    if most_ns is None:
        assert first.gain_ns is None
    else:
        assert LEAST * most_ns <= (first.gain_ns or 0) <= most_ns


@pytest.mark.corpus
def test_who_grows_is_not_slower(corpus: Path) -> None:
    """The kernel's time doubles with the bytes that are copied for it."""
    run = sightline.open(corpus / "nsys/lockfuehrer__beast_ressoruces/report1.sqlite")
    assert "slow-down" not in {f.rule for f in sightline.findings(run) if not f.abstained}
