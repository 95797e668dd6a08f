"""HTTP for the served page: this machine only, one secret in the address, nothing but reading.

Who may ask: a browser on this machine that was given the address. Refused, in this order:
another Host (a name that someone made resolve to this machine), another Origin, another method
than GET, another token. No path is ever a file's: the questions are those of service.py.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
import sys
import traceback
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from sightline.core.bounded_server import BoundedHandler, BoundedHttpServer, is_own_host
from sightline.errors import SightlineError

LOOPBACK = "127.0.0.1"
# Seconds that a connection may stay open without a request.
IDLE_S = 60
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


class Answers(Protocol):
    """What a server asks: a run's service, or a history's."""

    def answer(self, name: str, query: Mapping[str, str]) -> tuple[str, bytes] | None:
        """Content type and body; None where nothing has this name. SightlineError."""


class Server(BoundedHttpServer):
    """A service behind an address."""

    def __init__(self, service: Answers, host: str = LOOPBACK, port: int = 0) -> None:
        self.service = service
        self.token = secrets.token_urlsafe(24)
        self.loopback_only = ipaddress.ip_address(host).is_loopback
        hint = "Choose another:  --port 0 takes any that is free."
        super().__init__(host, port, _Handler, hint)

    @property
    def url(self) -> str:
        """The page's address, with its token."""
        return f"http://{self.authority}/{self.token}/"


class _Handler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sightline", ""
    timeout = IDLE_S
    server: Server

    def do_GET(self) -> None:
        if self.headers.get("Content-Length") or self.headers.get("Transfer-Encoding"):
            self.close_connection = True  # a body that nobody reads is not a next request
        refused = self._refused()
        if refused:
            self._send(403, "application/json", _error(refused))
            return
        parts = urlsplit(self.path)
        token, _, name = parts.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(token.encode(), self.server.token.encode()):
            self._send(
                403, "application/json", _error("the token in the address is not this server's")
            )
            return
        try:
            found = self.server.service.answer(name, dict(parse_qsl(parts.query)))
        except SightlineError as error:
            self._send(400, "application/json", _error(str(error)))
            return
        except Exception as error:  # ours, and must not look like the user's
            traceback.print_exc(file=sys.stderr)
            text = f"a bug in sightline: {type(error).__name__}; the terminal has the details"
            self._send(500, "application/json", _error(text))
            return
        if found is None:
            self._send(404, "application/json", _error("nothing has this name"))
            return
        self._send(200, *found)

    def _only_get(self) -> None:
        self.close_connection = True
        refused = self._refused()
        if refused:
            self._send(403, "application/json", _error(refused))
        else:
            self._send(405, "application/json", _error("only GET is answered"), {"Allow": "GET"})

    do_HEAD = do_POST = do_PUT = do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = _only_get

    def _refused(self) -> str | None:
        """Why this is not a request of the page's own, if so."""
        host = self.headers.get("Host", "")
        if len(self.headers.get_all("Host") or []) != 1 or not is_own_host(
            host, loopback_only=self.server.loopback_only
        ):
            return "the request names another host"
        origin = self.headers.get("Origin")
        if origin is not None and origin != f"http://{host}":
            return "the request comes from another origin"
        site = self.headers.get("Sec-Fetch-Site", "none")
        opened = self.headers.get("Sec-Fetch-Dest") == "document"  # a link that was followed
        if site not in ("none", "same-origin") and not opened:
            return "the request comes from another site"
        return None

    def _send(
        self, status: int, kind: str, body: bytes, more: dict[str, str] | None = None
    ) -> None:
        try:
            self.send_response(status)
            for name, value in {**_HEADERS, **(more or {})}.items():
                self.send_header(name, value)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the page went on to another range

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: each line would hold the token."""


def _error(text: str) -> bytes:
    return json.dumps({"error": text}).encode()
