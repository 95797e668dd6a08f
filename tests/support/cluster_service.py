"""A cluster's service for tests: a store, a token of each role, requests by sockets and without."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from sightline.cluster.access import Rules, Token, hash_token
from sightline.cluster.config import Config, Telling, Tracing
from sightline.doors.http.messages import Reply, Request
from sightline.doors.http.running import ClusterService
from sightline.doors.http.service import split_target

TOKENS = {
    role: f"token-of-{role}-0123456789"
    for role in ("admin", "support", "manager", "user", "ingest")
}
NAMES = {"user": "ada", "manager": "emmy"}
# The network of the proxy is not that of the tests: a header from here counts for nothing.
PROXY = "10.9.8.7"


def make_rules(header: str = "X-Remote-User") -> Rules:
    """Tokens of each role; emmy manages `physics`; a proxy at another address."""
    import ipaddress

    tokens = tuple(
        Token(NAMES.get(role, role), role, hash_token(word)) for role, word in TOKENS.items()
    )
    networks = (ipaddress.ip_network(f"{PROXY}/32"),)
    return Rules(tokens, header, networks, {"root": "admin"}, {"emmy": ("physics",)})


@dataclass
class Own:
    """A service under test."""

    service: ClusterService
    said: list[str]

    def ask(
        self,
        target: str,
        role: str | None = None,
        method: str = "GET",
        body: bytes = b"",
        peer: str = "127.0.0.1",
        **headers: str,
    ) -> Reply:
        """A reply without a socket; names of headers have _ for -."""
        path, query = split_target(target)
        given = {name.replace("_", "-"): text for name, text in headers.items()}
        if role is not None:
            given["Authorization"] = f"Bearer {TOKENS[role]}"
        return self.service.service.answer(Request(method, path, query, given, body, peer))

    def post(self, target: str, role: str | None, fields: dict[str, str], **headers: str) -> Reply:
        """A form, as a browser sends it."""
        kind = {"Content_Type": "application/x-www-form-urlencoded", **headers}
        return self.ask(target, role, "POST", urlencode(fields).encode(), **kind)

    def send_json(self, target: str, document: Any, role: str | None = "ingest") -> Reply:
        """A document of a program."""
        return self.ask(target, role, "POST", json.dumps(document).encode())

    def sign(self, role: str) -> str:
        """What the forms of the one with this role have."""
        return self.service.service.sessions.sign(NAMES.get(role, role))

    def connect(self) -> http.client.HTTPConnection:
        """By a socket, which the service answers from now on."""
        if not getattr(self, "_serving", None):
            self._serving = threading.Thread(
                target=self.service.server.serve_forever, args=(0.05,), daemon=True
            )
            self._serving.start()
        host, port = self.service.server.server_address[:2]
        return http.client.HTTPConnection(str(host), int(port), timeout=10)


@contextlib.contextmanager
def run_service(folder: Path, **more: Any) -> Iterator[Own]:
    """A service in a folder; nothing runs beside the answers."""
    said: list[str] = []
    config = Config(
        "c1", folder / "store", port=0, rules=more.pop("rules", make_rules()),
        tracing=more.pop("tracing", Tracing()), telling=more.pop("telling", Telling()),
        bucket=more.pop("bucket", ""),
    )  # fmt: skip
    report = more.pop("make_report", lambda recording, target: target.write_bytes(b"<p>a report"))
    service = ClusterService(config, said.append, report, **more)
    own = Own(service, said)
    try:
        yield own
    finally:
        if getattr(own, "_serving", None):
            service.server.shutdown()
        service.close()
