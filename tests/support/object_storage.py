"""An S3 server in this process (moto's), and its buckets: nothing of it is ours."""

from __future__ import annotations

import contextlib
import itertools
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

_numbers = itertools.count(1)
_started: list[str] = []


@dataclass(frozen=True)
class Bucket:
    """A bucket, which is empty, and the address of its server."""

    name: str
    server: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    def put(self, name: str, data: bytes) -> None:
        self._ask("PUT", name, data)

    def get(self, name: str) -> bytes:
        return self._ask("GET", name)

    def remove(self, name: str) -> None:
        self._ask("DELETE", name)

    def list(self) -> list[str]:
        import obstore.store

        store = obstore.store.from_url(self.url)
        return sorted(found["path"] for page in store.list() for found in page)

    def _ask(self, method: str, name: str, data: bytes | None = None) -> bytes:
        address = f"{self.server}/{self.name}/{name}"
        request = urllib.request.Request(address, data, method=method)
        with urllib.request.urlopen(request) as reply:
            return bytes(reply.read())


def set_environment(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    """Keys, region and endpoint, as obstore and Polars read them."""
    for name, value in {
        "ENDPOINT_URL": server, "ACCESS_KEY_ID": "key", "REGION": "us-east-1",
        "SECRET_ACCESS_KEY": "word", "ALLOW_HTTP": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(f"AWS_{name}", value)


@contextlib.contextmanager
def open_bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    """A new one. Its server takes seconds to load, and lives as long as the tests."""
    pytest.importorskip("obstore")
    moto = pytest.importorskip("moto.server")
    if not _started:
        import werkzeug.serving

        werkzeug.serving.WSGIRequestHandler.log_request = lambda *_: None  # type: ignore[method-assign]
        server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        host, port = server.get_host_and_port()
        _started.append(f"http://{host}:{port}")
    set_environment(monkeypatch, _started[0])
    name = f"jobs-{next(_numbers)}"
    address = f"{_started[0]}/{name}"
    request = urllib.request.Request(address, method="PUT")
    urllib.request.urlopen(request).close()
    yield Bucket(name, _started[0])
