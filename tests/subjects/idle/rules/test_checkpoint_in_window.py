"""checkpoint-in-window: copies and files while the device waits, by the name of a range."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.core.model.run import Run
from support.rules import answers, assert_silent, assert_speaks
from support.traces import copy, host, kernel, launched, opened

RULE = "checkpoint-in-window"


def saved(folder: Path, name: str, length: int = 400, layer: str = "user_annotation") -> Run:
    """A window of 1,000 µs: kernel [10, 410), copy to the host [410, 510), idle,
    kernel [910, 1010).

    The range begins at 405, launches the copy and waits in its call until it is done.
    """
    down = copy("Memcpy DtoH (Device -> Pageable)", 410, 100, 1_000_000)
    return opened(
        folder,
        [
            launched(0, kernel("a", 10, 400)),
            host(layer, name, 405, length),
            launched(407, down, "cudaMemcpyAsync", 104),
            launched(900, kernel("b", 910, 100)),
        ],
    )


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        ("save_checkpoint", "user_annotation"),
        ("Trainer._save_checkpoint", "user_annotation"),
        ("torch/serialization.py(850): save", "python_function"),
        ("transformers/modeling_utils.py(3500): save_pretrained", "python_function"),
    ],
)
def test_400_of_1000_us(tmp_path: Path, name: str, layer: str) -> None:
    """The copy's 100 µs and a gap of 400, of which the range takes 295: the rest is the pace.

    Without the range's time (405 to 805) the last kernel's call is at 500, and it starts at 510.
    """
    assert_speaks(
        saved(tmp_path, name, layer=layer),
        RULE,
        cost_ns=500_000,
        gain_ns=400_000,
        evidence=["1 gap of 400.0 µs", "1 copy to the host, 1.000 MB in 100.0 µs"],
        fix="async_save",
        severity="critical",
    )


@pytest.mark.parametrize("name", ["torch/utils/checkpoint.py(12): checkpoint", "save_for_backward"])
def test_activation_checkpointing_saves_nothing(tmp_path: Path, name: str) -> None:
    assert_silent(saved(tmp_path, name), RULE)


def test_its_copies_are_no_second_finding(tmp_path: Path) -> None:
    assert answers(saved(tmp_path / "a", "save_checkpoint"), "d2h-in-step") == []
    assert len(answers(saved(tmp_path / "b", "log_metrics"), "d2h-in-step")) == 1


def test_under_5_percent_of_the_window(tmp_path: Path) -> None:
    """A range that ends before its copy does: 40 or 60 of 1,000 µs."""

    def asked(folder: Path, length: int) -> Run:
        down = copy("Memcpy DtoH (Device -> Pageable)", 410, length, 1_000_000)
        return opened(
            folder,
            [
                launched(0, kernel("a", 10, 400)),
                host("user_annotation", "save_checkpoint", 30, 20),
                launched(35, down, "cudaMemcpyAsync", 5),
                launched(60, kernel("b", 410 + length, 600 - length)),
            ],
        )

    assert_silent(asked(tmp_path / "a", 49), RULE)
    assert_speaks(
        asked(tmp_path / "b", 60),
        RULE,
        cost_ns=60_000,
        gain_ns=60_000,
        evidence=["6.0 %"],
        fix="async_save",
    )
