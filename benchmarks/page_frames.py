"""How smooth the timeline of a page is, in Chromium without a GPU.

    python benchmarks/page_frames.py PAGE.html [--size 1200x800] [--times N]

Zooms in for 80 frames, pans for 80, zooms out for 80, and prints per pass: the script's own time
a frame (what the page computes and draws), the time between frames (what a person sees; 16.7 ms is
60 a second), and the processor time of all of Chromium's processes a frame, which holds what the
script's own time does not: the rasterising in software. Between frames on a shared machine other
people's work shows; the processor time is what to compare.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = """async () => {
  const t = sightline.timeline, frame = () => new Promise(r => requestAnimationFrame(r));
  const at = (all, p) => [...all].sort((a, b) => a - b)[Math.floor(all.length * p)];
  const gaps = [];
  t.frameTimes.length = 0;
  let last = await frame();
  const step = async (act) => {
    act();
    const now = await frame();
    gaps.push(now - last);
    last = now;
  };
  for (let i = 0; i < 80; i++) await step(() => t.zoom(0.85, 700));
  for (let i = 0; i < 80; i++) await step(() => t.pan(9, 3));
  for (let i = 0; i < 80; i++) await step(() => t.zoom(1 / 0.85, 500));
  return [0.5, 0.95, 0.99].flatMap(p => [at(t.frameTimes, p), at(gaps, p)]);
}"""


def processor_ms(root: int) -> float:
    """What a process and all below it have used."""
    used: dict[int, float] = {}
    parent: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parent[int(folder.name)] = int(fields[1])
            used[int(folder.name)] = sum(map(int, fields[11:13])) * 1e3 / os.sysconf("SC_CLK_TCK")

    def below(pid: int) -> bool:
        while pid and pid != root:
            pid = parent.get(pid, 0)
        return pid == root

    return sum(ms for pid, ms in used.items() if below(pid))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("page", type=Path)
    parser.add_argument("--size", default="1200x800")
    parser.add_argument("--times", type=int, default=5)
    args = parser.parse_args()
    sys.path.insert(0, str(ROOT / "tests"))
    from playwright.sync_api import sync_playwright

    from web.conftest import FLAGS

    width, height = map(int, args.size.split("x"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(f"file://{args.page.resolve()}#p=timeline")
        page.wait_for_selector("body[data-timeline]")
        page.wait_for_timeout(500)
        print(f"{'script ms':>22}{'between frames ms':>26}{'cpu ms a':>10}{'load':>6}")
        print(f"{'50 %':>8}{'95 %':>7}{'99 %':>7}{'50 %':>12}{'95 %':>7}{'99 %':>7}{'frame':>10}")
        for _ in range(args.times):
            before = processor_ms(os.getpid())
            own50, gap50, own95, gap95, own99, gap99 = page.evaluate(SCRIPT)
            work = (processor_ms(os.getpid()) - before) / 240
            print(
                f"{own50:8.1f}{own95:7.1f}{own99:7.1f}{gap50:12.1f}{gap95:7.1f}{gap99:7.1f}"
                f"{work:10.1f}{os.getloadavg()[0]:6.1f}"
            )
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
