"""How soon a page shows something, its first finding, and its events, in Chromium without a GPU.

    python benchmarks/page_opening.py PAGE.html [PAGE.html ...] [--times N]

Opens the pages in turn, each time in a new context (a new renderer, nothing cached) of a browser
that runs already, and prints medians of milliseconds since the navigation began: first contentful
paint and largest contentful paint as the browser reports them (of a report the second is its lead
or first finding), and when the script has drawn the panel and read the events. Then the longest
task until then. Pages of two versions belong into one call: a busy machine changes all figures.
The last row is the floor: a page that holds one line of text.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WATCH = """
window.opened = {longest: 0};
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) opened.longest = Math.max(opened.longest, entry.duration);
}).observe({type: "longtask", buffered: true});
new PerformanceObserver((list) => { opened.largest = list.getEntries().at(-1).startTime; })
  .observe({type: "largest-contentful-paint", buffered: true});
new MutationObserver(() => {
  const given = document.body?.dataset ?? {};
  if (given.ready) opened.drawn ??= performance.now();
  if (given.timeline) opened.events ??= performance.now();
}).observe(document, {subtree: true, attributes: true, childList: true});
"""
READ = """() => ({first: performance.getEntriesByName("first-contentful-paint")[0].startTime,
  ...opened})"""
FLOOR = "<!doctype html><title>floor</title><body data-ready=1 data-timeline=1><p>One line."
FIGURES = ("first", "largest", "drawn", "events", "longest")


def open_page(browser: Any, path: Path) -> dict[str, float]:
    """The figures of one opening, ms."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.wait_for_timeout(200)  # the new renderer's own start is not the page's
    page.goto(f"file://{path.resolve()}")
    page.wait_for_selector("body[data-timeline]")
    page.wait_for_timeout(200)
    found: dict[str, float] = page.evaluate(READ)
    context.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", type=Path, nargs="+")
    parser.add_argument("--times", type=int, default=9)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from playwright.sync_api import sync_playwright

    from web.conftest import FLAGS

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        floor = Path(folder) / "floor.html"
        floor.write_text(FLOOR)
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        browser.new_page().wait_for_timeout(3_000)
        taken: dict[Path, list[dict[str, float]]] = {path: [] for path in (*args.pages, floor)}
        sizes = {path: path.stat().st_size / 1e6 for path in taken}
        for _ in range(args.times):
            for path in taken:
                taken[path].append(open_page(browser, path))
        browser.close()
    print(f"medians of {args.times}, ms; load {os.getloadavg()[0]:.1f}")
    print("".join(f"{name:>9}" for name in FIGURES) + f"{'MB':>8}  page")
    for path, figures in taken.items():
        row = "".join(f"{median(f.get(name, 0) for f in figures):9.0f}" for name in FIGURES)
        print(f"{row}{sizes[path]:8.2f}  {path.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
