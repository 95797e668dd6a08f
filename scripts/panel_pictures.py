"""Takes a picture of every panel of the report's page, to be looked at: light, dark, phone, print.

    python scripts/panel_pictures.py                    the examples and some recordings of the lab
    python scripts/panel_pictures.py trace.json.gz …    these, each a page of its own

They go to build/pictures/RECORDING/PANEL-WAY.png. axe-core looks at each panel, too, light and
dark, where it is installed (npm ci in web/). Ends with 1 where axe names a violation, where a panel
is wider than its window, or where the page complains. Needs Chromium, the tests' Playwright and the
built pages (python scripts/build_web.py).
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from browser import ROOT, open_browser

TARGET = ROOT / "build" / "pictures"
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
RECORDINGS = (
    "examples/simulated-dataloader.json.gz",
    "examples/cpu-training.json.gz",
    "examples/simulated-straggler",
    "lab/bank-conflicts/recorded/baseline.profiled",
    "lab/cpu-sampling/recorded/sampled-baseline.speedscope.json",
    "lab/energy-efficiency/recorded/gpu-history",
)
# Of each way: the window, the theme, and what is printed.
WAYS: dict[str, dict[str, Any]] = {
    "light": {"viewport": {"width": 1300, "height": 850}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1300, "height": 850}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True},
    "print": {"viewport": {"width": 957, "height": 1354}, "color_scheme": "light"},
}
# Chromium lays a page of A4 out on a third more pixels than it has, and on up to twice as many
# where something is wider; only beyond that is it cut.
PAPER = {"print": 1436}
MOST_HEIGHT = 6000  # of a picture, pixels: what is longer is cut


def list_panels(page: Any) -> list[str]:
    """The names of the page's panels, in its order."""
    found: list[str] = page.eval_on_selector_all(
        "#panels a", "all => all.map(a => a.getAttribute('href').slice(3))"
    )
    return found


def open_panel(page: Any, name: str) -> None:
    """Show a panel, and wait until it is drawn."""
    page.evaluate("name => { location.hash = `#p=${name}` }", name)
    page.wait_for_selector(f"#panel-{name}:not([hidden])")
    if name == "flame":
        page.wait_for_selector(".flame[data-ready]")
    page.wait_for_timeout(200)


def take_pictures(browser: Any, axe: str, page_file: Path, target: Path) -> Iterator[str]:
    """Every panel in every way; yields what is wrong with one, a sentence each.

    `axe` is its program, empty where it is not installed.
    """
    for way, options in WAYS.items():
        context = browser.new_context(**options, reduced_motion="reduce")
        page = context.new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error, errors=errors: errors.append(str(error)))
        page.goto(f"file://{page_file}")
        page.wait_for_selector("body[data-timeline]")
        asks_axe = bool(axe) and way in ("light", "dark")
        if asks_axe:
            page.evaluate(axe)
        for name in list_panels(page):
            open_panel(page, name)
            if way == "print":
                page.emulate_media(media="print")
            width, room = page.evaluate(
                "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
            )
            if width > PAPER.get(way, room):
                yield f"{name}, {way}: {width} pixels wide in a window of {room}"
            height = page.evaluate("document.documentElement.scrollHeight")
            clip = {"x": 0, "y": 0, "width": max(room, width), "height": min(height, MOST_HEIGHT)}
            page.screenshot(path=str(target / f"{name}-{way}.png"), full_page=True, clip=clip)
            page.emulate_media(media="screen")
            if asks_axe:
                for rule, node in page.evaluate(
                    "async () => (await axe.run()).violations.map(v => [v.id, v.nodes[0].html])"
                ):
                    yield f"{name}, {way}: axe: {rule}: {node}"
        yield from (f"{way}: {error}" for error in errors)
        context.close()


def name_folder(recording: Path) -> str:
    """What a recording's folder of pictures is called."""
    parts = (
        recording.parts[-3:] if recording.parts[-2:-1] == ("recorded",) else recording.parts[-1:]
    )
    return parts[0] if len(parts) > 1 else parts[-1].partition(".")[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("recordings", nargs="*", default=[str(ROOT / r) for r in RECORDINGS])
    given = parser.parse_args().recordings
    axe = AXE.read_text(encoding="utf-8") if AXE.is_file() else ""
    if not axe:
        print("axe-core is not installed (npm ci in web/): it is not asked.", file=sys.stderr)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        for recording in map(Path, given):
            target = TARGET / name_folder(recording)
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
            page_file = Path(folder) / f"{target.name}.html"
            command = [sys.executable, "-m", "sightline", "report", recording, "-o", page_file]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            for problem in take_pictures(browser, axe, page_file, target):
                print(f"{target.name}: {problem}")
                wrong += 1
            count = len(list(target.iterdir()))
            print(f"{target.relative_to(ROOT)}: {count} pictures", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
