"""Takes a picture of the documentation site's pages, light, dark and on a phone, to be looked at.

    python scripts/site_pictures.py                 all that people wrote, and some of each list
    python scripts/site_pictures.py --all           every page
    python scripts/site_pictures.py start faq       those with one of these words in their place

The pictures go to build/site-pictures/PAGE-WAY.png, and a dozen of them at a time to SHEET-N.png.
axe-core looks at each page, too, where it is installed (npm ci in web/). Ends with 1 where a page
is wider than its window, complains, asks for what is not there, or axe names a violation.
Needs the built site (make site), Chromium and the tests' Playwright.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from pathlib import Path
from typing import Any

from browser import ROOT, open_browser

SITE = ROOT / "build" / "site" / "html"
TARGET = ROOT / "build" / "site-pictures"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
WAYS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1300, "height": 900}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1300, "height": 900}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
}
# What Material's own parts, its search and its navigation, are told for, whatever a page holds.
OF_THE_THEME = ("aria-dialog-name", "landmark-unique")
MOST_HEIGHT = 4000  # of a picture, pixels: what is longer is cut
EACH = 4  # pages of each list that the code writes
ACROSS, A_SHEET, WIDTH = 4, 12, 480


def list_pages(words: Sequence[str], every: bool) -> list[Path]:
    """Those with one of the words; else what people wrote, and some of each list."""
    pages = sorted(path.relative_to(SITE) for path in SITE.rglob("*.html"))
    if words:
        return [page for page in pages if any(word in page.as_posix() for word in words)]
    if every:
        return pages
    made: dict[Path, int] = {}
    chosen = []
    for page in pages:
        if page.parts[0] == "reference" and page.name not in ("index.html", "patterns.html"):
            made[page.parent] = made.get(page.parent, 0) + 1
            if made[page.parent] > EACH:
                continue
        chosen.append(page)
    return chosen


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words: object) -> None:
        """Nothing."""


@contextmanager
def serve_site() -> Iterator[str]:
    """The site's address: its search wants a server."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def take_pictures(
    browser: Any, axe: str, address: str, pages: Sequence[Path], way: str
) -> Iterator[tuple[Path, list[str]]]:
    """Each page's picture, and what is wrong with it."""
    context = browser.new_context(**WAYS[way], reduced_motion="reduce")
    page = context.new_page()
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("requestfailed", lambda request: said.append(f"not there: {request.url}"))
    for place in pages:
        said.clear()
        page.goto(f"{address}/{place.as_posix()}")
        width, room, height = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth,"
            " document.documentElement.scrollHeight]"
        )
        if width > room:
            said.append(f"{width} pixels wide in a window of {room}")
        name = place.with_suffix("").as_posix().replace("/", "_")
        target = TARGET / f"{name}-{way}.png"
        clip = {"x": 0, "y": 0, "width": room, "height": min(height, MOST_HEIGHT)}
        page.screenshot(path=str(target), full_page=True, clip=clip)
        if axe and way != "phone":
            page.evaluate(axe)
            said += page.evaluate(
                "async (rules) => (await axe.run({ rules })).violations.map("
                "v => `axe: ${v.id}: ${v.nodes[0].html.slice(0, 160)}`)",
                {rule: {"enabled": False} for rule in OF_THE_THEME},
            )
        yield target, list(said)
    context.close()


def write_sheets(browser: Any, pictures: Sequence[Path]) -> int:
    """A dozen pictures on each sheet, with their names; how many sheets."""
    rest, count = iter(pictures), 0
    page = browser.new_page(viewport={"width": ACROSS * (WIDTH + 12), "height": 900})
    while some := list(islice(rest, A_SHEET)):
        figures = "".join(
            f'<figure><img src="{p.as_uri()}"><figcaption>{p.stem}</figcaption></figure>'
            for p in some
        )
        sheet = TARGET / "sheet.html"
        sheet.write_text(
            f"<style>body{{display:flex;flex-wrap:wrap;gap:8px;margin:4px;font:12px sans-serif}}"
            f"figure{{margin:0}}img{{width:{WIDTH}px;height:640px;object-fit:contain;object-position:top;"
            f"border:1px solid #888}}</style>{figures}",
            encoding="utf-8",
        )
        page.goto(sheet.as_uri())
        page.screenshot(path=str(TARGET / f"sheet-{count:02}.png"), full_page=True)
        count += 1
    (TARGET / "sheet.html").unlink(missing_ok=True)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--all", action="store_true", help="every page")
    args = parser.parse_args()
    pages = list_pages(args.words, args.all)
    if not pages:
        print("There is no such page: make site", file=sys.stderr)
        return 1
    axe = AXE.read_text(encoding="utf-8") if AXE.is_file() else ""
    if not axe:
        print("axe-core is not installed (npm ci in web/): it is not asked.", file=sys.stderr)
    shutil.rmtree(TARGET, ignore_errors=True)
    TARGET.mkdir(parents=True)
    wrong, pictures = 0, []
    with open_browser() as browser, serve_site() as address:
        for way in WAYS:
            for picture, said in take_pictures(browser, axe, address, pages, way):
                pictures.append(picture)
                for problem in said:
                    print(f"{picture.stem}: {problem}")
                wrong += len(said)
        sheets = write_sheets(browser, pictures)
    place = TARGET.relative_to(ROOT)
    print(f"{place}: {len(pictures)} pictures on {sheets} sheets", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
