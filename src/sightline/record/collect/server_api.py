"""What an inference server says of itself over HTTP: its version, its models, its metrics.

vLLM: /version, /v1/models, /metrics (vllm/entrypoints/serve). SGLang: /server_info (before 0.5:
/get_server_info), /v1/models, and /metrics with --enable-metrics.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sightline.errors import RequestError

ASK_S = 5.0
TELL_S = 10.0  # vLLM's documentation speaks of ten minutes for 100 requests of a model of 70B
_MOST_BYTES = 32 << 20  # of an answer: /metrics of a large server is some hundred kilobytes
_VERSIONS = {"vllm": ("version",), "sglang": ("server_info", "get_server_info")}
# vLLM has no /start_profile unless it was started with a profiler, and since this version that is
# an option (vllm/config/profiler.py); before, a variable.
PROFILER_CONFIG_SINCE = (0, 13)
PROFILER_CONFIG = (
    '--profiler-config \'{"profiler": "torch", "torch_profiler_dir": "/traces", '
    '"torch_profiler_with_stack": false}\''
)


def split_url(url: str) -> urllib.parse.SplitResult:
    """The parts of a server's address. Raises RequestError where it is none."""
    hint = "Write it as  http://127.0.0.1:8000"
    try:
        parts = urllib.parse.urlsplit(url)
        is_one = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:  # a port that is not a number, an IPv6 address without its end
        raise RequestError(f"{url} is not an address", why=str(error), hint=hint) from error
    if not is_one:
        raise RequestError(f"{url} is not an address", hint=hint)
    return parts


def join_url(url: str, what: str) -> str:
    """The address of one of the server's endpoints."""
    parts = split_url(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}/{what}"


def fetch_text(url: str, what: str, timeout_s: float = ASK_S) -> str | None:
    """What an endpoint answers, or None where it does not."""
    try:
        with urllib.request.urlopen(join_url(url, what), timeout=timeout_s) as answer:  # noqa: S310
            data: bytes = answer.read(_MOST_BYTES)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return data.decode("utf-8", errors="replace")


def is_there(url: str) -> bool:
    """Whether anything answers at this address, and be it that it knows no such page."""
    try:
        urllib.request.urlopen(join_url(url, "health"), timeout=ASK_S).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
    except (OSError, http.client.HTTPException, ValueError):
        return False
    return True


def _fetch_json(url: str, what: str) -> Any:
    text = fetch_text(url, what)
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def find_version(kind: str, url: str) -> tuple[int, ...] | None:
    """The server's version as numbers, such as (0, 32, 0); None where it does not say."""
    for what in _VERSIONS.get(kind, ()):
        told = _fetch_json(url, what)
        text = told.get("version") if isinstance(told, dict) else None
        if isinstance(text, str) and (numbers := re.findall(r"\d{1,6}", text)[:3]):
            return tuple(map(int, numbers))
    return None


def find_model(url: str) -> str | None:
    """The name of the model that it serves, or of the first of several."""
    told = _fetch_json(url, "v1/models")
    models = told.get("data") if isinstance(told, dict) else None
    first = models[0] if isinstance(models, list) and models else None
    name = first.get("id") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def explain_profiler(kind: str, version: tuple[int, ...] | None) -> str:
    """With what to start the server, so that it has a profiler, in its version's own words."""
    if kind != "vllm":
        return "Start the server with SGLANG_TORCH_PROFILER_DIR=/traces, or name --traces /traces."
    if version is not None and version[:2] < PROFILER_CONFIG_SINCE:
        return "Start it with VLLM_TORCH_PROFILER_DIR=/traces, and add:  --traces /traces"
    words = f"Start it with  {PROFILER_CONFIG}\nand add:  --traces /traces"
    if version is None:
        words += "\n(vLLM before 0.13: with VLLM_TORCH_PROFILER_DIR=/traces instead.)"
    return words


@contextmanager
def tell_waiting(
    say: Callable[[str], None],
    what: str,
    every_s: float = TELL_S,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Say every few seconds that something still goes on, and for how long already."""
    done = threading.Event()
    began = clock()

    def tell() -> None:
        while not done.wait(every_s):
            say(f"{what}, for {clock() - began:.0f} s so far")

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


def stamp_metrics(text: str, time_ms: int) -> str:
    """Metrics in Prometheus' text form with the moment of their reading behind each sample."""
    lines = []
    for line in text.splitlines():
        is_sample = line.strip() and not line.startswith("#")
        lines.append(f"{line.rstrip()} {time_ms}" if is_sample else line)
    return "\n".join(lines) + "\n"
