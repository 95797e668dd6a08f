"""HTTP with bounded connections: clients that say nothing take no descriptor from anybody else.

What our two servers share. They are the standard library's: a handful of clients ask for small
answers, and an ASGI server would be two dependencies and an event loop inside a program that is
measured. What the library lacks is here: as many connections as there is room for, of which the
longest idle one goes when another comes, and answers that no timer of TCP holds back.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import resource
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from urllib.parse import urlsplit

from sightline.errors import InputError

_MOST = 64  # connections: ours; a browser opens six to a server
_SHARE = 4  # of the descriptors that we may have: the rest is for what is measured and read
_SLOW_S = 30.0  # an answer that has taken so long may go for a new connection, too


class BoundedServer(ThreadingMixIn, TCPServer):
    """A server with a thread for each connection, of which there are only so many."""

    daemon_threads = True

    def __init__(self, *args: Any, **named: Any) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.most = max(4, min(_MOST, soft // _SHARE)) if soft > 0 else _MOST
        self._lock = threading.Lock()
        # Each connection: whether it is being answered, and since when it is or waits.
        self._connections: dict[Any, tuple[bool, float]] = {}
        super().__init__(*args, **named)

    def note(self, connection: Any, *, answered: bool) -> None:
        """Write down that a connection is being answered from now on, or waits again."""
        with self._lock:
            if connection in self._connections:
                self._connections[connection] = (answered, time.monotonic())

    def get_request(self) -> tuple[Any, Any]:
        """As the library's; where there are no descriptors left, not at once again."""
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._drop_one()
                time.sleep(0.05)
            raise

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; where all are taken, in place of the longest idle one."""
        with self._lock:
            is_full = len(self._connections) >= self.most
        if is_full and not self._drop_one():
            self.shutdown_request(request)
            return
        with self._lock:
            self._connections[request] = (False, time.monotonic())
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        with self._lock:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that says nothing, or leaves in the middle, is no news."""

    def _drop_one(self) -> bool:
        """End the longest idle connection, or the slowest; whether there was one to end."""
        with self._lock:
            late = time.monotonic() - _SLOW_S
            able = [
                c
                for c, (answered, since) in self._connections.items()
                if not answered or since < late
            ]
            if not able:
                return False
            connection = min(able, key=self._connections.__getitem__)
            del self._connections[connection]
        with contextlib.suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # its thread reads an end, and closes it
        return True


class BoundedHttpServer(BoundedServer, HTTPServer):
    """A bounded server of HTTP at a host's address, of either version of IP."""

    def __init__(self, host: str, port: int, handler: Any, hint: str) -> None:
        """Raises InputError with this hint where it cannot listen there."""
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), handler)
        except OSError as error:
            raise InputError(
                f"cannot listen on {host}, port {port}", why=error.strerror, hint=hint
            ) from error

    @property
    def authority(self) -> str:
        """Host and port as an address has them."""
        host, port = self.server_address[:2]
        return f"{bracket_host(str(host))}:{port}"


def bracket_host(host: str) -> str:
    """A host as an address has it: an address of IPv6 stands in brackets."""
    return f"[{host}]" if ":" in host else host


class BoundedHandler(BaseHTTPRequestHandler):
    """A connection of such a server."""

    disable_nagle_algorithm = True  # head and body may be two packets: 40 ms until the second
    wbufsize = 65_536
    server: BoundedServer

    def parse_request(self) -> bool:
        """As the library's; from here on the connection is not an idle one."""
        is_whole = super().parse_request()
        self.server.note(self.connection, answered=True)
        return is_whole

    def handle_one_request(self) -> None:
        """As the library's; until there is a request, the connection is an idle one."""
        self.server.note(self.connection, answered=False)
        super().handle_one_request()


def is_own_host(host: str, *, loopback_only: bool) -> bool:
    """Whether a Host header names this machine by what no one else can make resolve to it.

    Any port, since a tunnel (ssh -L) has its own.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or not loopback_only
