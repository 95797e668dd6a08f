"""A real vLLM that prefills, a second one that decodes, and a proxy that asks one after the other.

vLLM's own ExampleConnector moves keys and values, through files. The proxy does what vLLM's
examples of disaggregated serving do: a prompt goes to the first server for one token, then to the
second.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import sightline
from support import real_server as real

# Letters, which are tokens, behind the load's own numbers: no prompt is a block and one token more,
# of which the ExampleConnector (vLLM 0.32) stores one block less than it looks for.
PROMPTS = (520, 90, 264, 150)
OUTPUTS = (64, 48, 56)
_FLAGS = ("--max-num-seqs", "8", "--max-num-batched-tokens", "1024", "--no-enable-prefix-caching")


@dataclass(frozen=True)
class Pair:
    """Both servers, and the proxy that clients ask."""

    folder: Path
    prefill: real.Server
    decode: real.Server
    url: str

    @property
    def moved(self) -> Path:
        """Where keys and values are left for the decode server."""
        return self.folder / "moved"

    def forget(self) -> None:
        """Remove what was moved: the same prompts are computed anew."""
        for place in self.moved.iterdir():
            shutil.rmtree(place)


@contextlib.contextmanager
def serve(
    folder: Path, *, with_stack: bool = False, connector: dict[str, Any] | None = None
) -> Iterator[Pair]:
    """The servers and the proxy, while they are asked.

    `connector` goes into vLLM's --kv-transfer-config, in the place of its ExampleConnector.
    """
    moved = folder / "moved"
    moved.mkdir(parents=True)

    def configure(role: str) -> tuple[str, ...]:
        told = {
            "kv_connector": "ExampleConnector",
            "kv_role": role,
            "kv_connector_extra_config": {"shared_storage_path": str(moved)},
            **(connector or {}),
        }
        return (*_FLAGS, "--kv-transfer-config", json.dumps(told))

    sides = {"prefill": "kv_producer", "decode": "kv_consumer"}
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(len(sides)) as pool:

        def start(side: str) -> real.Server:
            flags = configure(sides[side])
            return stack.enter_context(real.serve(folder / side, flags, with_stack=with_stack))

        first, second = pool.map(start, sides)  # each takes a minute
        url = stack.enter_context(_stand_between(first.url, second.url))
        yield Pair(folder, first, second, url)


@contextlib.contextmanager
def _stand_between(prefill: str, decode: str) -> Iterator[str]:
    class Proxy(BaseHTTPRequestHandler):
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            with _ask(decode, "GET", self.path) as answer:
                self._pass_on(answer)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            first = {**body, "max_tokens": 1, "stream": False}
            first.pop("stream_options", None)
            with _ask(prefill, "POST", self.path, first) as answer:
                if answer.status != 200:
                    self._pass_on(answer)
                    return
                answer.read()
            with _ask(decode, "POST", self.path, body) as answer:
                self._pass_on(answer)

        def _pass_on(self, answer: http.client.HTTPResponse) -> None:
            self.send_response(answer.status)
            self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
            self.end_headers()
            while line := answer.readline():
                self.wfile.write(line)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}"
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


@contextlib.contextmanager
def _ask(
    url: str, method: str, path: str, body: dict[str, Any] | None = None
) -> Iterator[http.client.HTTPResponse]:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=300)
    try:
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"Content-Type": "application/json"})
        yield connection.getresponse()
    finally:
        connection.close()


def make_load(folder: Path, requests: int, clients: int) -> Any:
    """So many requests of prompts and answers of different lengths."""
    from sightline.record.collect.server_load import Load, read_prompts

    prompts = read_prompts(real.write_prompts(folder / "prompts.jsonl", PROMPTS, requests))
    return Load(requests, clients, prompts, OUTPUTS)


def record(pair: Pair, name: str, load: Any) -> list[Path]:
    """Both servers' traces while the load goes to the proxy, and the client's log of it.

    The profilers are switched on before the first request, and off behind the last one.
    """
    from sightline.record.collect.server import tell_profiler
    from sightline.record.collect.server_load import send_load

    pair.forget()
    place = pair.folder / name
    place.mkdir()
    sides = {"prefill": pair.prefill, "decode": pair.decode}
    before = {side: set(_list_traces(pair.folder / side)) for side in sides}
    for server in sides.values():
        tell_profiler("vllm", server.url, "start_profile", 60, None)
    try:
        rows = send_load(pair.url, load, print)
    finally:
        for server in sides.values():
            tell_profiler("vllm", server.url, "stop_profile", 600, None)
    paths = []
    for side in sides:
        (trace,) = set(_list_traces(pair.folder / side)) - before[side]
        paths.append(place / f"{side}.rank0.pt.trace.json.gz")
        shutil.copyfile(trace, paths[-1])
    paths.append(place / "client.json")
    paths[-1].write_text(json.dumps(rows))
    return paths


def _list_traces(folder: Path) -> list[Path]:
    return list(folder.glob("*rank0*.pt.trace.json.gz"))


def open_both(paths: Sequence[Path]) -> sightline.Session:
    """What `record` left, as one run."""
    return sightline.open(*map(str, paths))


def get_likelihoods(url: str, prompt: str, tokens: int = 8) -> list[float]:
    """The logarithms with which a server takes the likeliest tokens behind a prompt.

    Random weights soon repeat one token whatever was asked: only its likelihood tells.
    """
    body = {
        "model": "small", "prompt": prompt, "max_tokens": tokens, "temperature": 0,
        "ignore_eos": True, "logprobs": 1,
    }  # fmt: skip
    with _ask(url, "POST", "/v1/completions", body) as answer:
        found = json.loads(answer.read())["choices"][0]["logprobs"]["token_logprobs"]
    assert isinstance(found, list)
    return found


def warm_up(pair: Pair, clients: int) -> None:
    """A load that nobody records: first steps compile, and take long."""
    from sightline.record.collect.server_load import send_load

    send_load(pair.url, make_load(pair.folder, 2 * clients, clients), print)
