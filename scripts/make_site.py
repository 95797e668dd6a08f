"""Builds the documentation site: build/site/html, to be opened from disk or served by anything.

    python scripts/make_site.py [--to FOLDER]

Pages that people wrote are those of docs/ and lab/; the others are written from the code
(site_pages.py). Every link must lead somewhere, and nothing may be loaded from elsewhere: else it
ends with 1 and says where. Needs the extra `docs`, and no network.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from site_links import find_faults
from site_pages import Page, list_pages

ROOT = Path(__file__).resolve().parents[1]
# Of the project, and none of the site's: one is for programs, the other is a list for reviewers.
_LEFT_OUT = ("reference.md", "sentences.md")
_LINK = re.compile(r"(\]\()(?!https?://|#|mailto:)([^)#\s]+)((?:#[^)]*)?\))")
# Parts of docs/reference.md that other pages link to, and the pages that they are here.
_OF_REFERENCE = {"#patterns-of-operators": "reference/rules/patterns.md"}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "site")
    place: Path = parser.parse_args().to
    shutil.rmtree(place, ignore_errors=True)
    lay_out(place / "pages", list_pages())
    configuration = Path(shutil.copy(ROOT / "site" / "mkdocs.yml", place))
    told = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--config-file", configuration],
        # Material's own advertisement of another generator is no fault of a page.
        env={**os.environ, "NO_MKDOCS_2_WARNING": "true"},
        check=False,
    )
    faults = find_faults(place / "html") if told.returncode == 0 else []
    for fault in faults:
        print(fault, file=sys.stderr)
    if told.returncode or faults:
        return 1
    print(f"{len(list((place / 'html').rglob('*.html')))} pages: {place / 'html' / 'index.html'}")
    return 0


def lay_out(folder: Path, written: list[Page]) -> None:
    """All pages in one folder, with links that lead from one to the other there."""
    sources = {
        "index.md": ROOT / "README.md",
        "changelog.md": ROOT / "CHANGELOG.md",
        "report-a-vulnerability.md": ROOT / "SECURITY.md",
        "benchmarks.md": ROOT / "benchmarks" / "README.md",
        "skill.md": ROOT / "examples" / "agents" / "SKILL.md",
    }
    for path in sorted((ROOT / "docs").rglob("*.md")):
        name = path.relative_to(ROOT / "docs").as_posix()
        if name not in _LEFT_OUT:
            sources[name] = path
    for path in sorted((ROOT / "lab").glob("*/README.md")):
        sources[f"lab/{path.parent.name}.md"] = path
    places = {path.resolve(): name for name, path in sources.items()}
    places[ROOT / "CONTRIBUTING.md"] = "contributing.md"  # which it sends its readers to
    for name, path in sources.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = _move_links(path, name, folder, places)
        target.write_text(_head_of(name) + text, encoding="utf-8")
    for page in written:
        target = folder / page.place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page.text, encoding="utf-8")
    shutil.copy(ROOT / "site" / "site.css", folder)


def _head_of(name: str) -> str:
    return "---\ntitle: Start\n---\n\n" if name == "index.md" else ""


def _move_links(path: Path, name: str, folder: Path, places: dict[Path, str]) -> str:
    """The page's text; files that it links to and that are no pages are laid beside them."""

    def move(link: re.Match[str]) -> str:
        to = (path.parent / link[2]).resolve()
        if to.name in _LEFT_OUT:
            wanted = _OF_REFERENCE.get(link[3].rstrip(")"), "reference/index.md")
            return f"{link[1]}{os.path.relpath(wanted, Path(name).parent)})"
        if to in places:
            wanted = places[to]
        elif to.is_file():
            wanted = f"files/{to.relative_to(ROOT).as_posix()}"
            (folder / wanted).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(to, folder / wanted)
        else:
            # A folder of the checkout, which the site does not have.
            return f"]({os.path.relpath('index.md', Path(name).parent)})"
        return f"{link[1]}{os.path.relpath(wanted, Path(name).parent)}{link[3]}"

    return _LINK.sub(move, path.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
