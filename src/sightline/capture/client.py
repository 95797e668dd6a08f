"""Asks a node's daemon: at its unix socket, or at an address of the network."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sightline.capture.signing import NONCE, PROOF, is_signed, sign_request
from sightline.errors import InputError, RequestError

PORT = 9477  # registered by nobody (IANA, service names and port numbers)
_MOST_BYTES = 1 << 30  # of an answer: a trace
_ANSWER_S = 30.0
_PEER = struct.Struct("3i")


@dataclass(frozen=True)
class Address:
    """Where a daemon listens: a unix socket, or a host and a port."""

    name: str  # what a person calls it
    socket: Path | None = None
    host: str = ""
    port: int = PORT
    token: str | None = None
    context: ssl.SSLContext | None = None  # None: no TLS, which only loopback may do
    certified: str | None = None  # the name in its certificate, where that is not the host


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    body: bytes

    @property
    def data(self) -> Any:
        """The answer as data. Raises InputError."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise InputError("the daemon's answer is malformed") from error


class TooLongError(http.client.HTTPException):
    """An answer has more bytes than who asks reads at once."""


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """To the socket, and to nobody but root or ourselves behind it."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        limit = time.monotonic() + (self.timeout or 0)
        while True:
            try:
                self.sock.connect(str(self._path))
                break
            except BlockingIOError:  # its queue is full, and a socket with a limit does not wait
                if time.monotonic() > limit:
                    raise
                time.sleep(0.02)
        told = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        if _PEER.unpack(told)[1] not in (0, os.geteuid()):
            raise PermissionError(1, "the daemon there is another user's")


class _TlsConnection(http.client.HTTPSConnection):
    def __init__(self, address: Address, timeout: float) -> None:
        assert address.context is not None
        super().__init__(address.host, address.port, timeout=timeout, context=address.context)
        self._tls, self._certified = address.context, address.certified or address.host

    def connect(self) -> None:
        """To the host, which shows a certificate of the name by which it was found."""
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._certified)


class Client:
    """Asks one daemon; a connection is kept from one question to the next."""

    def __init__(
        self, address: Address, timeout_s: float = _ANSWER_S, most_bytes: int = _MOST_BYTES
    ) -> None:
        self.address, self._timeout_s, self._most_bytes = address, timeout_s, most_bytes
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        """Ask, once more where the kept connection was closed. Raises InputError."""
        for kept in (self._connection is not None, False):
            try:
                return self._ask(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                # What had no connection yet, or a slow or long answer, is not asked again.
                if not kept or isinstance(error, TimeoutError | TooLongError):
                    what, why = self._explain(error)
                    raise InputError(what, why=why) from error
        raise AssertionError  # the second turn returns or raises

    def ask_data(self, method: str, path: str, body: bytes = b"") -> Any:
        """The data of an answer. Raises RequestError with what the daemon says where it refuses."""
        return take_data(self.address.name, self.ask(method, path, body))

    def close(self) -> None:
        """End the connection."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = None

    def _ask(self, method: str, path: str, body: bytes) -> Answer:
        token = self.address.token if self.address.socket is None else None
        headers = {} if token is None else sign_request(token, method, path, body)
        if self._connection is None:
            self._connection = self._connect()
        self._connection.request(method, path, body, headers)
        got = self._connection.getresponse()
        told = got.read(self._most_bytes + 1)
        if len(told) > self._most_bytes:
            raise TooLongError("its answer is too long")
        answer = Answer(got.status, told)
        if token is not None and got.status not in (403, 413):
            proof = got.headers.get(PROOF, "")
            if not is_signed(token, headers[NONCE], got.status, told, proof):
                raise http.client.HTTPException("the server that answers does not know the token")
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        address = self.address
        if address.socket is not None:
            return _UnixConnection(address.socket, self._timeout_s)
        if address.context is None:
            return http.client.HTTPConnection(address.host, address.port, timeout=self._timeout_s)
        return _TlsConnection(address, self._timeout_s)

    def _explain(self, error: Exception) -> tuple[str, str]:
        name = self.address.name
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return f"no daemon listens at {name}", "start one there:  sightline daemon"
        if isinstance(error, TimeoutError):
            return (
                f"the daemon of {name} does not answer",
                f"it did not answer for {self._timeout_s:g} s",
            )
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"the daemon of {name} cannot be asked", str(why)


def take_data(name: str, answer: Answer) -> Any:
    """The data of a daemon's answer. Raises RequestError with what it says where it refuses."""
    if answer.status < 300:
        return answer.data
    told = answer.data if isinstance(answer.data, dict) else {}
    what, why = str(told.get("error", f"status {answer.status}")), told.get("why")
    raise RequestError(f"{name}: {what}", why=None if why is None else str(why))


def map_nodes(work: Callable[[Client], Any], clients: list[Client], at_once: int = 64) -> list[Any]:
    """What `work` makes of each node, or the error that it raised, in their order."""
    from concurrent.futures import ThreadPoolExecutor

    def guard(client: Client) -> Any:
        try:
            return work(client)
        except (RequestError, InputError) as error:
            return error

    with ThreadPoolExecutor(min(at_once, max(len(clients), 1))) as pool:
        return list(pool.map(guard, clients))
