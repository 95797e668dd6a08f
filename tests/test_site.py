"""The documentation site: it builds without a network, and has a page for each member."""

from __future__ import annotations

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sightline.core import registry
from sightline.doors.cli.main import command_names
from support.places import ROOT
from support.scripts import load_script

pytest.importorskip("material", reason="mkdocs-material is not installed")
LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)  # where what looks like a link is none


def list_wanted() -> dict[str, list[str]]:
    """What has a page of its own, by the section that lists it."""
    return {
        "rules": [module.RULE.name for _, module in registry.load_members("rules")],
        "analyses": list(registry.list_names("analyses")),
        "tables": list(registry.list_names("tables")),
        "formats": list(registry.list_names("importers")),
        "commands": list(command_names()),
    }


def test_each_member_and_command_has_a_source_and_links_lead_to_files(tmp_path: Path) -> None:
    """Before MkDocs makes HTML of it, which takes twenty seconds: a campaign's, below."""
    load_script("make_site").lay_out(tmp_path, load_script("site_pages").list_pages())
    for section, names in list_wanted().items():
        found = {path.stem for path in (tmp_path / "reference" / section).glob("*.md")}
        assert sorted(set(names) - found) == [], section
        text = (tmp_path / "reference" / section / "index.md").read_text("utf-8")
        assert [name for name in names if f"]({name}.md)" not in text] == []
    links = [
        (page, link)
        for page in tmp_path.rglob("*.md")
        for link in LINK.findall(CODE.sub("", page.read_text("utf-8")))
    ]
    assert len(links) > 500
    assert [
        (str(page.relative_to(tmp_path)), link)
        for page, link in links
        if not (page.parent / link).exists()
    ] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built once; the script itself fails at a link to nowhere."""
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make_site.py", "--to", folder],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert made.returncode == 0, made.stdout + made.stderr
    return folder / "html"


@pytest.mark.campaign
@pytest.mark.xdist_group("site")
def test_each_member_and_command_has_its_page(site: Path) -> None:
    for section, names in list_wanted().items():
        found = {path.stem for path in (site / "reference" / section).glob("*.html")}
        assert sorted(set(names) - found) == [], section
        text = (site / "reference" / section / "index.html").read_text(encoding="utf-8")
        assert [name for name in names if f'href="{name}.html"' not in text] == []


@pytest.mark.campaign
@pytest.mark.xdist_group("site")
def test_every_word_of_a_rule_can_be_searched(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    places = {entry["location"].partition("#")[0] for entry in index["docs"]}
    assert {"start/training.html", "faq.html", "reference/rules/launch-bound.html"} <= places


def test_what_does_not_hold_together_is_said(tmp_path: Path) -> None:
    links = load_script("site_links")
    (tmp_path / "a.html").write_text(
        '<a href="b.html">1</a> <a href="c.html#no">2</a> <a href="c.html#yes">3</a>'
        '<a href="https://example.com">4</a> <script src="https://cdn.example.com/x.js"></script>'
        '<img src="d.png">'
    )
    (tmp_path / "c.html").write_text('<h2 id="yes">c</h2><link href="//fonts.example.com/x">')
    (tmp_path / "x.css").write_text('@import "https://example.com/x.css"')
    assert links.find_faults(tmp_path) == [
        "a.html: loads https://cdn.example.com/x.js",
        "a.html: loads d.png, which is not there",
        "a.html: links to b.html, which is not there",
        "a.html: links to c.html#no, which has no such place",
        "c.html: loads //fonts.example.com/x",
        "x.css: loads from elsewhere",
    ]


def test_a_docstring_is_text_and_its_sections_are_headings() -> None:
    pages = load_script("site_pages")
    text = "What it is.\n\nThreshold\n    5 % of a_b *or* `a*b`.\n\n        code_here\n"
    assert pages.write_docstring(text).splitlines() == [
        "What it is.",
        "",
        "",
        "## Threshold",
        "",
        r"5 % of a\_b \*or\* `a*b`.",
        "",
        "    code_here",
    ]


def test_each_command_has_a_man_page_without_faults() -> None:
    if importlib.util.find_spec("argparse_manpage") is None:
        pytest.skip("argparse-manpage is not installed")
    pages = load_script("make_man").write_man_pages()
    assert set(pages) == {"sightline.1", *(f"sightline-{name}.1" for name in command_names())}
    for name, text in pages.items():
        lines = text.splitlines()
        assert lines[0].startswith(f".TH {name[:-2].upper()} 1 "), name
        sections = [line for line in lines if line.startswith(".SH ")]
        assert sections[0] == ".SH NAME", name
        assert ".SH DESCRIPTION" in sections, name
    if shutil.which("groff"):
        whole = "\n".join(pages.values())
        told = subprocess.run(
            ["groff", "-K", "utf8", "-man", "-Tutf8", "-ww", "-z"],
            input=whole.encode(),
            capture_output=True,
            check=False,
        )
        assert told.stderr.decode() == ""
