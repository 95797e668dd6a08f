"""How smooth the timeline of a page is, in Chromium without a GPU.

    python benchmarks/page_frames.py PAGE.html [--size 1200x800] [--times N]

Zooms in for 80 frames, pans for 80, zooms out for 80, and prints per pass: the script's own time
a frame (what the page computes and draws), the time between frames (what a person sees; 16.7 ms is
60 a second), and the processor time of all of Chromium's processes a frame, which holds what the
script's own time does not: the rasterising in software. Between frames on a shared machine other
people's work shows; the processor time is what to compare.

Then a person's gestures, by the mouse and the keyboard: the time from frame to frame as the browser
counts it (a frame that comes late is 33 ms), the script's own, and tasks of 50 ms or more.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

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


GESTURES = ("zoom in", "drag", "zoom out", "hover", "scroll", "keys")
RECORD = """() => {
  const seen = window.seen = {gaps: [], on: true, tasks: 0};
  seen.watch = new PerformanceObserver((list) => { seen.tasks += list.getEntries().length; });
  seen.watch.observe({type: "longtask"});
  let last;
  const next = (now) => {
    if (last !== undefined) seen.gaps.push(now - last);
    last = now;
    if (seen.on) requestAnimationFrame(next);
  };
  requestAnimationFrame(next);
  sightline.timeline.frameTimes.length = 0;
}"""
STOP = """() => {
  seen.on = false;
  seen.watch.disconnect();
  const at = (all, p) => [...all].sort((a, b) => a - b)[Math.floor((all.length - 1) * p)] ?? 0;
  const own = sightline.timeline.frameTimes;
  return [seen.gaps.length, at(seen.gaps, 0.5), at(seen.gaps, 0.99), at(seen.gaps, 1),
    at(own, 0.5), at(own, 0.99), seen.tasks];
}"""


def make_gesture(page: Any, name: str) -> None:
    """What a person does for about a second."""
    box = page.locator("canvas.rows").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse = page.mouse
    mouse.move(box["x"] + 60 if name == "scroll" else x, y)
    if name == "drag":
        mouse.down()
        for i in range(60):
            mouse.move(x + 5 * (i % 30) - 70, y + i % 20)
        mouse.up()
    elif name == "hover":
        for i in range(80):
            mouse.move(box["x"] + 200 + 9 * i, box["y"] + 60 + 7 * i % 300)
    elif name == "keys":
        page.locator("canvas.rows").focus()
        for key in "wdwdsa":
            page.keyboard.down(key)
            page.wait_for_timeout(250)
            page.keyboard.up(key)
    else:
        for i in range(60):
            step = 60 if i < 30 else -60  # over the labels the wheel scrolls, and back
            mouse.wheel(0, {"zoom in": -120, "zoom out": 120}.get(name, step))


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
        print(f"{'':10}{'frames':>8}{'between: 50 %':>15}{'99 %':>7}{'most':>7}", end="")
        print(f"{'script: 50 %':>14}{'99 %':>7}{'long tasks':>12}")
        for gesture in GESTURES:
            page.evaluate(RECORD)
            make_gesture(page, gesture)
            count, gap50, gap99, gap, own50, own99, tasks = page.evaluate(STOP)
            print(f"{gesture:10}{count:8}{gap50:15.1f}{gap99:7.1f}{gap:7.1f}", end="")
            print(f"{own50:14.1f}{own99:7.1f}{tasks:12}")
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
