"""An S3 server in this process (moto's), and its buckets: nothing of it is ours."""

from __future__ import annotations

import contextlib
import itertools
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

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
        self._open().put(name, data)

    def get(self, name: str) -> bytes:
        return bytes(self._open().get(name).bytes())

    def list(self) -> list[str]:
        return sorted(found["path"] for page in self._open().list() for found in page)

    def _open(self) -> Any:
        import obstore.store

        return obstore.store.from_url(self.url)


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
