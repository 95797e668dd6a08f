"""HTTP for the service: bounded connections, bounded bodies, and perhaps TLS."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Sequence
from typing import Any

from sightline.core.bounded_server import (
    BoundedHandler,
    BoundedHttpServer,
    bracket_host,
    is_own_host,
)
from sightline.doors.http.messages import JSON, MOST_BODY, Reply, Request, say
from sightline.doors.http.service import Service, split_target
from sightline.errors import RequestError

_QUIET_S = 30.0  # a client that says nothing holds no thread for longer
_MOST_HEADERS = 100


class ClusterServer(BoundedHttpServer):
    """A service at an address."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self,
        service: Service,
        host: str,
        port: int,
        *,
        names: Sequence[str] = (),
        context: ssl.SSLContext | None = None,
        plain: bool = False,
    ) -> None:
        """`names` are those that a browser may call it by. Raises InputError, RequestError."""
        self.service, self.context, self.names = service, context, tuple(names)
        self.loopback_only = is_own_host(bracket_host(host), loopback_only=True)
        if context is None and not self.loopback_only and not plain:
            raise RequestError(
                f"{host} can be reached from other machines, which could read tokens on the way",
                hint="Give a `certificate` and a `key`; or listen on 127.0.0.1 behind a proxy; or "
                "say  plain = true  where the network is the cluster's own.",
            )
        super().__init__(host, port, _Handler, "Choose another port in  listen = …")

    @property
    def url(self) -> str:
        """Its address."""
        return f"http{'s' if self.context else ''}://{self.authority}"

    def finish_request(self, request: Any, client_address: Any) -> None:
        """As the library's; the handshake is the connection's own thread's."""
        if self.context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(_QUIET_S)
        with self.context.wrap_socket(request, server_side=True) as wrapped:
            with self._lock:
                self._connections[wrapped] = self._connections.pop(request, (False, 0.0))
            try:
                _Handler(wrapped, client_address, self)
            finally:
                with self._lock:
                    self._connections.pop(wrapped, None)

    def is_own_name(self, host: str) -> bool:
        """Whether a Host header is ours: no name that somebody made resolve to this machine."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        return name in self.names or is_own_host(host, loopback_only=self.loopback_only)


class _Handler(BoundedHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sightline", ""
    timeout = _QUIET_S
    server: ClusterServer

    def setup(self) -> None:
        """As the library's; what it reads lines of is looked at."""
        super().setup()
        self._lines = _Lines(self.rfile)
        self.rfile = self._lines  # type: ignore[assignment]

    def _answer(self) -> None:
        if self._is_odd():
            self.close_connection = True
            self._send(say(400, "a header is malformed"))
            return
        body = self._read_body()
        if body is None:
            return
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not self.server.is_own_name(hosts[0]):
            self.close_connection = True
            self._send(say(403, "the request names another host", "`names` lists those of ours"))
            return
        try:
            path, query = split_target(self.path)
        except ValueError as error:
            self._send(say(400, str(error)))
            return
        # Of a header that comes twice none counts: a proxy and its client would read another one.
        given: dict[str, str] = {}
        for name in dict.fromkeys(n.title() for n in self.headers):
            found = self.headers.get_all(name) or []
            if len(found) == 1:
                given[name] = str(found[0])
        peer = str(self.client_address[0])
        request = Request(self.command, path, query, _Headers(given), body, peer)
        self._send(self.server.service.answer(request))

    do_GET = do_POST = do_PUT = do_HEAD = _answer

    def _refuse_method(self) -> None:
        self.close_connection = True
        self._send(Reply(405, say(405, "only GET and POST are supported").body, JSON))

    do_DELETE = do_PATCH = do_OPTIONS = do_TRACE = do_CONNECT = _refuse_method

    def _is_odd(self) -> bool:
        """Whether a proxy could read other headers than the library did.

        The library ends the headers at a line that is none, and begins a new one at a bare CR.
        """
        folded = any("\n" in str(value) or "\r" in str(value) for value in self.headers.values())
        left = self.headers.defects or self.headers.get_payload()
        return self._lines.is_odd or folded or bool(left)

    def _read_body(self) -> bytes | None:
        """The body; None where it was refused or cut off."""
        text = self.headers.get("Content-Length", "0")
        is_number = text.isascii() and text.isdecimal() and len(text) < 10
        if "Transfer-Encoding" in self.headers or len(self.headers) > _MOST_HEADERS:
            self.close_connection = True
            self._send(say(411, "a request needs a Content-Length"))
            return None
        if len(self.headers.get_all("Content-Length") or []) > 1 or not is_number:
            self.close_connection = True
            self._send(say(400, "the Content-Length is not a number"))
            return None
        if int(text) > MOST_BODY:
            self.close_connection = True
            self._send(say(413, f"a request has {MOST_BODY:,} bytes at most"))
            return None
        # A client that sends slowly makes room for others, as one that says nothing.
        self.server.note(self.connection, answered=False)
        body = self.rfile.read(int(text))
        self.server.note(self.connection, answered=True)
        if len(body) < int(text):
            self.close_connection = True
            return None
        return body

    def _send(self, reply: Reply) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            if reply.body or reply.status not in (204, 304):
                self.send_header("Content-Type", reply.kind)
                self.send_header("Content-Length", str(len(reply.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news, and an address may hold a token."""


class _Lines:
    """A connection's file that notes a line with a CR within, or bytes that no header has."""

    def __init__(self, file: Any) -> None:
        self._file, self.is_odd = file, False

    def readline(self, most: int = -1) -> bytes:
        """The next line."""
        line: bytes = self._file.readline(most)
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        self.is_odd = self.is_odd or b"\r" in text or b"\0" in text
        return line

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Headers(dict[str, str]):
    """Headers by name, however it is written."""

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a header, or the default."""
        return super().get(name.title(), default)
