"""The real Prometheus, where it is installed, and what it scraped."""

from __future__ import annotations

import json
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def get(port: int, path: str = "/metrics", **headers: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def wait_for(ask: Callable[[], object], seconds: float = 30) -> object:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if found := ask():
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.2)
    raise TimeoutError


@contextmanager
def run_prometheus(
    target: int, folder: Path, ready: str
) -> Iterator[Callable[[str], list[dict[str, Any]]]]:
    """Prometheus on loopback, scraping a port; gives what answers queries, once `ready` is met."""
    own = find_port()
    jobs = [{"job_name": "gpus", "static_configs": [{"targets": [f"127.0.0.1:{target}"]}]}]
    config = {"global": {"scrape_interval": "500ms"}, "scrape_configs": jobs}
    (folder / "prometheus.yml").write_text(json.dumps(config))
    command = ["prometheus", f"--config.file={folder}/prometheus.yml",
               f"--storage.tsdb.path={folder}/data",
               f"--web.listen-address=127.0.0.1:{own}"]  # fmt: skip

    def ask(query: str) -> list[dict[str, Any]]:
        answer = json.loads(get(own, f"/api/v1/query?query={urllib.parse.quote(query)}"))
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as it:
        try:
            wait_for(lambda: ask(ready))
            yield ask
        finally:
            it.kill()  # what it kept is thrown away
