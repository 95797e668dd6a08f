"""Folders of the checkout, found without counting how deep the file that asks lies."""

from __future__ import annotations

from pathlib import Path

ROOT = next(p for p in Path(__file__).resolve().parents if (p / "pyproject.toml").is_file())
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"
# What other tools wrote, small enough to be kept beside the tests.
RECORDED = TESTS / "formats" / "recorded"
