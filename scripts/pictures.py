"""Takes the pictures of the report's page that docs/ shows, from a recording in examples/.

    python scripts/pictures.py

Needs Chromium, the tests' Playwright, and the built pages (python scripts/build_web.py). The
pictures are the same on every run of one Chromium: a fixed size, no network, nothing that moves.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from browser import ROOT, open_browser

TARGET = ROOT / "docs" / "pictures"
RECORDING = ROOT / "examples" / "simulated-dataloader.json.gz"
SIZE = {"width": 1200, "height": 750}
LIMIT_BYTES = 300_000
# Name, theme, panel, and what is done there before the picture is taken.
PICTURES = (
    ("report-light", "light", "summary", ""),
    (
        "report-dark",
        "dark",
        "timeline",
        """async () => {
        const t = sightline.timeline;
        t.walkThrough(t.walks[0], 1);
        const at = [...t.model.link].findIndex((v, i) => v > 0 && t.model.start[i] > t.shown[0]
            && t.model.fullName(i).includes("gemm"));
        await t.select(at, false);
    }""",
    ),
)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, open_browser() as browser:
        page_file = Path(folder) / "report.html"
        # From its own folder, so that the page names the file and no path.
        subprocess.run(
            [
                sys.executable,
                "-m",
                "sightline.doors.cli.main",
                "report",
                RECORDING.name,
                "-o",
                str(page_file),
            ],
            check=True,
            cwd=RECORDING.parent,
        )
        for name, theme, panel, act in PICTURES:
            page = browser.new_page(viewport=SIZE, color_scheme=theme, reduced_motion="reduce")
            page.goto(f"file://{page_file}#p={panel}")
            page.wait_for_selector("body[data-timeline]")
            if act:
                page.evaluate(act)
            page.wait_for_timeout(500)
            target = TARGET / f"{name}.png"
            page.screenshot(path=str(target))
            size = target.stat().st_size
            print(f"{target.relative_to(ROOT)}: {size / 1e3:.0f} kB", file=sys.stderr)
            if size > LIMIT_BYTES:
                print(f"more than {LIMIT_BYTES / 1e3:.0f} kB", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
