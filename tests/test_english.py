"""What a person reads, as far as a machine can judge it (docs/contributing.md, "Words")."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from sightline.core.units import format_several
from support.places import ROOT

SOURCE = ROOT / "src" / "sightline"
# The paraphrase, and the field's term for it.
BANNED = {
    r"nothing beside": "exposed",
    r"no compute beside": "exposed",
    r"transfers that nothing hides": "exposed transfers",
    r"gone alone": "removing it alone",
    r"last turn": "partial wave, tail effect",
    r"paid for and does": "tail effect",
    r"nearly empty": "tail effect",
    r"at the end of the wait": "after cudaStreamSynchronize",
    r"busy with something else": "what the host ran",
    r"whole waves": "full waves",
    r"[Ff]ills hold": "synchronous memsets",
    r"copies and fills": "copies and memsets",
    r"want of data": "lacked data",
    r"neighbour": "neighbor",
    r"synchronis(?:e|ing|ation)\b": "synchroniz",
    r"(?:initial|util|normal)is(?:e|ing|ation)\b": "-ize, -ization",
    r"behaviour": "behavior",
    r"[Cc]olours? ": "color",
    r"optimis": "optimiz",
}
ANY_BANNED = re.compile("|".join(BANNED))
# A plural made beside its count; sightline.core.units.format_several does it.
PLURAL_BY_HAND = re.compile(r"\bs\b' \*|\"s\" \* \(|'s' \* \(")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module that is no docstring, f-strings with their expressions as '{}'."""
    tree = ast.parse(path.read_text())
    inside = {part for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for part in n.values} | {
        n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)
    }
    for node in ast.walk(tree):
        if node in inside:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield node.lineno, "".join(map(str, parts))


def test_the_fields_terms_and_no_paraphrase():
    rooms = ("rules", "report", "cli", "opening", "analyses")
    paths = [p for room in rooms for p in sorted((SOURCE / room).rglob("*.py"))]
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text!r}: write {term!r}"
        for path in paths
        for line, text in texts(path)
        if ANY_BANNED.search(text)
        for phrase, term in BANNED.items()
        if re.search(phrase, text)
    ]
    assert found == []


def test_the_check_reads_whole_sentences(tmp_path):
    file = tmp_path / "m.py"
    file.write_text(
        '"""nothing beside"""\nx = 1\ny = f"with nothing {x} "\nz = ("nothing "\n "beside")\n'
    )
    assert [text for _, text in texts(file)] == ["with nothing {} ", "nothing beside"]


def test_titles_of_rules_fit_a_line_and_begin_with_a_capital():
    from sightline.core import registry

    for _, module in registry.load_members("rules"):
        assert len(module.RULE.title) <= 48, module.RULE.title
        assert module.RULE.title[0].isupper()
        assert not module.RULE.title.endswith(".")


def test_plurals_of_findings_are_made_in_one_place():
    rules = sorted(SOURCE.glob("subjects/*/rules/*.py"))
    assert len(rules) > 100
    found = [
        str(path.relative_to(ROOT)) for path in rules if PLURAL_BY_HAND.search(path.read_text())
    ]
    assert found == []
    assert [format_several(n, "gap") for n in (0, 1, 2)] == ["0 gaps", "1 gap", "2 gaps"]
    assert format_several(2, "launch", "launches") == "2 launches"
