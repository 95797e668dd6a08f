"""What stands beside the importers is what they declare, and skips no pattern that matches."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sightline.core import registry
from sightline.formats._declared import IMPORTERS, LITERALS
from sightline.opening.recognise import list_importers
from support.places import ROOT

SCRIPT = ROOT / "scripts" / "importers.py"


def test_the_declarations_are_those_of_the_importers(tmp_path: Path) -> None:
    modules = dict(registry.load_members("importers"))
    assert [i.name for i in list_importers()] == list(modules)
    for declared in IMPORTERS:
        own = modules[declared.name].IMPORTER
        assert replace(declared, find_folders=None) == replace(own, find_folders=None), (
            f"{declared.name} has changed. Run: make docs"
        )
        assert (declared.find_folders is None) == (own.find_folders is None)
        if own.find_folders is not None and declared.find_folders is not None:
            assert declared.find_folders(tmp_path) == own.find_folders(tmp_path)
    subprocess.run([sys.executable, SCRIPT, "--check"], check=True)


def test_an_importer_that_is_not_among_them_is_asked_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A file that was just added to the folder, and an importer of another package."""
    from sightline.opening import recognise

    rest = [i for i in IMPORTERS if i.name not in ("kineto", "ctf")]
    monkeypatch.setattr(recognise, "IMPORTERS", rest)
    assert [i.name for i in list_importers()] == sorted(i.name for i in IMPORTERS)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_whatever_matches_a_pattern_holds_its_literal(data: st.DataObject) -> None:
    """Hypothesis makes the matches: it reads patterns by itself, and knows nothing of literals."""
    pattern = data.draw(st.sampled_from(sorted(LITERALS)))
    assert LITERALS[pattern] in data.draw(st.from_regex(pattern))


def test_most_patterns_have_a_literal() -> None:
    patterns = {p for i in IMPORTERS for p in (*i.strong, *i.weak)}
    assert patterns >= LITERALS.keys()
    assert len(LITERALS) > 0.8 * len(patterns)
