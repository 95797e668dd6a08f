"""The change log: news fragments have a type that is known, and what is counted is true."""

from __future__ import annotations

import re

from sightline import registry
from support.places import ROOT

TYPES = ("added", "changed", "fixed", "removed")


def test_every_news_fragment_has_a_type_and_a_sentence():
    for path in (ROOT / "changes").iterdir():
        if path.name != "README.md":
            assert path.name.endswith(tuple(f".{t}.md" for t in TYPES)), path.name
            assert path.read_text(encoding="utf-8").strip().endswith("."), path.name


def test_counts_are_true():
    text = " ".join((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split())
    modules = list(registry.list_names("analyses").values())
    reports = [m for m in modules if ".nsys." in m]
    kernel_rules = [m for m in registry.list_names("rules").values() if ".ncu." in m]
    counted = {
        r"(\d+) analyses \(`sightline stats": len(modules),
        r"(\d+) analyses under the vendor": len(reports),
        r"(\d+) kernel rules": len(kernel_rules),
    }
    for pattern, true in counted.items():
        assert re.findall(pattern, text) == [str(true)], pattern
