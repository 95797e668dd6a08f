"""News fragments have a type that is known, one version stands everywhere, and counts are true."""

from __future__ import annotations

import re

from sightline.core import registry
from sightline.version import __version__
from support.places import ROOT

TYPES = ("added", "changed", "fixed", "removed")


def test_every_news_fragment_has_a_type_and_a_sentence():
    for path in (ROOT / "changes").iterdir():
        if path.name != "README.md":
            assert path.name.endswith(tuple(f".{t}.md" for t in TYPES)), path.name
            assert path.read_text(encoding="utf-8").strip().endswith("."), path.name


def test_one_version_stands_everywhere():
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'^version = "(.*)"$', project, re.MULTILINE) == [__version__]
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    # The newest release comes first; what has changed since is in changes/.
    assert re.findall(r"^## (\S+) \(", log, re.MULTILINE)[0] == __version__


def test_counts_are_true():
    text = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
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
