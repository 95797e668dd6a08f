"""What a person reads, as far as a machine can judge it (docs/contributing.md, "Words")."""

from __future__ import annotations

import ast
import importlib.util
import itertools
import re
from pathlib import Path

import pytest

from sightline.core.units import format_several
from support.places import ROOT

pytestmark = pytest.mark.xdist_group("english")  # all sources are read once
SOURCE = ROOT / "src" / "sightline"
_SCRIPT = importlib.util.spec_from_file_location("sentences", ROOT / "scripts" / "sentences.py")
sentences = importlib.util.module_from_spec(_SCRIPT)
_SCRIPT.loader.exec_module(sentences)


@pytest.fixture(scope="module")
def listed() -> dict[str, list[str]]:
    """Once, and not while tests are collected: all sources are parsed."""
    found: dict[str, list[str]] = sentences.list_sentences()
    return found


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
    # Sentences that were read aloud and rewritten.
    r"^For \{\} of ": "begin with what acts",
    r"fix gains|gains up to": "could save up to",
    r"without a gain of their own": "also noticed",
    r"that nothing hides|only what nothing hides": "exposed",
    r"how much slower it may": "how much longer it could take at no cost",
    r"runs of one program differ": "the same program varies from run to run",
    r"that this data can show": "no measurable change",
    r"straggler costs|excess costs": "what slow ranks cost",
    r"memory back .*take it again": "returns memory",
    r"stands as device": "shown as GPU",
    r"for want of": "for lack of, or what runs out",
    r"\{\} is not a history": "there is no history, or holds no history",
    r"names no kind": "start with a kind",
    r"so (?:its|their) programs are missing": "install it",
    r"only root may look": "run as root",
    r"the launching thread does something else": "what the host ran, or how to see it",
    r"see below for": "name it",
    # Forms of another language in English words.
    r"(?<![Tt]here )(?<![Tt]here')\b(?:is|are|was|were) no "
    r"(?!longer|more|faster|slower|better|slack|such|GPU |GPUs |matter)": "is not a, is not",
    r"\b[Ii]t wants\b": "it needs, it takes",
    r"\banew\b": "again",
    r"\bseldom\b": "rarely",
    r"in the mean\b": "on average",
    r"\bmend(?:s|ed)?\b": "fix",
    r"comes? again\b(?! on)": "recurs",
    r"\bmay lack\b": "may be missing",
    r"(?:found|find) no room": "was lost: the buffer was full; did not fit",
    r"[Nn]obody": "no process, no rank",
    r"do(?:es)? not tell\b": "do not show",
    r"whose begin|the begin of|a begin\b|own begin": "start",
    r"(?:comes?|after it|each other|directly|right|before and) behind\b": "after",
    r"beside each other|run beside": "concurrently, overlap",
    r"(?:of|in) it is whole": "it has no complete",
    r"in part only": "only in part",
    r"in truth": "in fact",
    r"\bHow near d": "How close does it come",
    r"(?:what|who) stands there|stands? here|stood (?:there|behind)": "is, was",
    r"for ever\b": "forever",
    r"[Cc]olour|[Ff]avour|[Nn]eighbour|licence|[a-z]{3}ognis|[Ss]ynchronis": "American spelling",
}
ANY_BANNED = re.compile("|".join(BANNED))
# A plural made beside its count; sightline.core.units.format_several does it.
PLURAL_BY_HAND = re.compile(r"\bs\b' \*|\"s\" \* \(|'s' \* \(")


def test_the_fields_terms_and_no_paraphrase(listed: dict[str, list[str]]) -> None:
    found = [
        f"{name}: {text!r}: write {term!r}"
        for name, texts in listed.items()
        for text in texts
        if ANY_BANNED.search(text)
        for phrase, term in BANNED.items()
        if re.search(phrase, text)
    ]
    assert found == []


def test_the_check_sees_every_room_and_whole_sentences(
    listed: dict[str, list[str]], tmp_path: Path
) -> None:
    rooms = {Path(name).parts[2] for name in listed if name.startswith("src/")}
    assert rooms >= {"subjects", "doors", "views", "opening", "formats", "record", "compare"}
    assert sum(map(len, listed.values())) > 8000
    file = tmp_path / "m.py"
    file.write_text(
        '"""this is a docstring"""\nx = 1\ny = f"with nothing {x} beside it"\n'
        'z = ("three words " + f"are {x} here")\nw = r"(?:no\\w sentence at all)"\n'
    )
    read = [text for text in sentences.list_python_texts(file) if sentences.is_sentence(text)]
    assert read == ["with nothing {} beside it", "three words are {} here"]


def test_the_list_of_sentences_is_the_sources(listed: dict[str, list[str]]) -> None:
    """docs/sentences.md is what scripts/sentences.py writes: `make docs`."""
    page = sentences.write_page(listed)
    assert (ROOT / "docs" / "sentences.md").read_text(encoding="utf-8") == page


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


# What counts, and a plural right behind it: of one it would read "1 gaps".
_COUNTS = re.compile(r"len\(|format_count\(|.*(\.height|\.len\(\)|\.n_unique\(\)|count)$")
_PLURAL = re.compile(r" (?:[a-z-]+ ){0,2}?(?P<noun>[a-z-]*[a-rt-z]s)\b")
_NO_NOUN = {"always", "divides", "has", "holds", "is", "its", "lacks", "less", "makes", "others"}
_NO_NOUN |= {"takes", "this", "times", "was", "does"}
_IS_BOUND = re.compile(r"(\w+\.)?_?[A-Z][A-Z_]+$")  # a constant: it is not 1
_APART = re.compile(r" (?:[a-z-]+ )*(?:of|in|by|that|which|and|without) ")
# Counts that are not one where the sentence is said.
_SEVERAL = {
    ("answer/answer.py", "count"),
    ("core/xids.py", "len(list_xids())"),
    ("views/cluster/pages.py", "len(hosts)"),
}


def list_plurals_by_hand(file: Path) -> list[str]:
    """Counts in f-strings whose noun is in the plural, whatever the count."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in itertools.pairwise(node.values):
            if not (isinstance(value, ast.FormattedValue) and isinstance(text, ast.Constant)):
                continue
            said = ast.unparse(value.value)
            is_grouped = value.format_spec is not None and "','" in ast.unparse(value.format_spec)
            count = re.sub(r"^format_count\((.*)\)$", r"\1", said)
            noun = _PLURAL.match(str(text.value))
            if noun is None or noun["noun"] in _NO_NOUN or _IS_BOUND.fullmatch(count):
                continue
            if _APART.match(noun[0] + " ") or not (_COUNTS.match(said) or is_grouped):
                continue
            found.append(f"{count}{noun[0]}")
    return found


def test_a_count_and_its_noun_agree() -> None:
    found = sorted(
        f"{name}: {text}"
        for path in SOURCE.rglob("*.py")
        for name in [path.relative_to(SOURCE).as_posix()]
        for text in list_plurals_by_hand(path)
        if (name, text.partition(" ")[0]) not in _SEVERAL
    )
    assert found == []


def test_the_check_of_nouns_sees_what_it_is_for(tmp_path: Path) -> None:
    file = tmp_path / "m.py"
    file.write_text(
        "x = f'{len(gaps)} gaps'\ny = f'{format_count(n)} long gaps, {n:,} rows, {MOST:,} rows'\n"
        "z = f'{several(n)} gaps, {len(gaps)} is less'\n"
    )
    assert list_plurals_by_hand(file) == ["len(gaps) gaps", "n long gaps", "n rows"]
