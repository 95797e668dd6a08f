"""The daemon's addresses: a unix socket, whose users the kernel names, and perhaps HTTPS."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import ssl
import stat
import struct
from pathlib import Path
from typing import Any

from sightline.capture.api import Api, Reply, encode
from sightline.capture.request import MOST_BYTES
from sightline.capture.signing import NONCE, PROOF, Verifier, hash_body, sign_answer
from sightline.core.bounded_server import BoundedHandler, BoundedServer, bracket_host, is_own_host
from sightline.errors import RequestError

_CREDENTIALS = struct.Struct("3i")
_QUIET_S = 10.0  # a client that connects and says nothing holds no thread for longer


class Handler(BoundedHandler):
    """One connection, over which anything may come."""

    timeout = _QUIET_S
    protocol_version = "HTTP/1.1"
    server: UnixServer | NetServer

    def do_GET(self) -> None:
        """Answer."""
        self._answer()

    def do_POST(self) -> None:
        """Answer."""
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are no news, and their headers are nobody's."""

    def _answer(self) -> None:
        text = self.headers.get("Content-Length", "0")
        length = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1
        if not 0 <= length <= MOST_BYTES or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            self._send(Reply(413, {"error": f"a request has {MOST_BYTES:,} bytes at most"}))
            return
        body = self.rfile.read(length)
        if len(body) < length:  # it was cut off: nothing is done
            self.close_connection = True
            return
        user, problem = self.server.identify(self, body)
        if user is None:
            self.close_connection = True
            self._send(Reply(403, {"error": "the request is refused", "why": problem}))
            return
        self._send(self.server.api.answer(self.command, self.path, body, user))

    def _send(self, reply: Reply) -> None:
        body = encode(reply)
        is_data = reply.file is None and reply.content is None
        self.send_response(reply.status)
        self.send_header("Content-Type", "application/json" if is_data else "bytes")
        self.send_header("Content-Length", str(len(body)))
        proof = self.server.prove(self, reply.status, body)
        if proof is not None:
            self.send_header(PROOF, proof)
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)


class _UnixHandler(Handler):
    """One connection of a unix socket, which has no Nagle."""

    disable_nagle_algorithm = False


class UnixServer(BoundedServer):
    """A socket in a folder; who asks is whom the kernel names. Raises RequestError."""

    address_family = socket.AF_UNIX
    request_queue_size = 64

    def __init__(self, path: Path, api: Api, *, for_all: bool) -> None:
        """`for_all`: other users may connect, too; what each of them may do `api` knows."""
        self.api, self.path, self._for_all = api, path, for_all
        self._is_bound = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o755 if for_all else 0o700)
            _check_folder(path.parent)
            _remove_stale(path)
            super().__init__(str(path), _UnixHandler)
        except OSError as error:
            raise _explain(error, str(path)) from error

    def server_bind(self) -> None:
        """Bind; the file has the rights that the socket has before it is bound (unix(7))."""
        os.fchmod(self.socket.fileno(), 0o666 if self._for_all else 0o600)
        before = os.umask(0)
        try:
            self.socket.bind(str(self.path))
            self._is_bound = True
        finally:
            os.umask(before)

    def identify(self, handler: Handler, body: bytes) -> tuple[int | None, str]:
        """The user at the other end."""
        told = handler.connection.getsockopt(
            socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size
        )
        return _CREDENTIALS.unpack(told)[1], ""

    def prove(self, handler: Handler, status: int, body: bytes) -> str | None:
        """Nobody else could have made the socket."""
        return None

    def server_close(self) -> None:
        """Close, and leave no file of ours: at a taken path is another daemon's."""
        super().server_close()
        if self._is_bound:
            with contextlib.suppress(OSError):
                self.path.unlink()


class NetServer(BoundedServer):
    """An address of the network, with TLS; who asks knows the token, and acts for our user."""

    allow_reuse_address = True
    request_queue_size = 128

    def __init__(
        self, host: str, port: int, api: Api, token: str, context: ssl.SSLContext | None
    ) -> None:
        self.api, self._context = api, context
        self._verifier = Verifier(token)
        self._is_loopback = is_own_host(bracket_host(host), loopback_only=True)
        if context is None and not self._is_loopback:
            raise RequestError(
                f"{host} can be reached from other machines, which could read what is sent",
                hint="Give a certificate:  --certificate FILE --key FILE   or  --listen 127.0.0.1",
            )
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            super().__init__((host, port), Handler)
        except OSError as error:
            raise _explain(error, f"{host}:{port}") from error

    def finish_request(self, request: Any, client_address: Any) -> None:
        """As the library's; the handshake is the connection's own thread's."""
        if self._context is None:
            super().finish_request(request, client_address)
            return
        request.settimeout(_QUIET_S)
        with self._context.wrap_socket(request, server_side=True) as wrapped:
            # It has the descriptor now: what is longest idle is ended by it.
            with self._lock:
                self._connections[wrapped] = self._connections.pop(request, (False, 0.0))
            try:
                Handler(wrapped, client_address, self)
            finally:
                with self._lock:
                    self._connections.pop(wrapped, None)

    def identify(self, handler: Handler, body: bytes) -> tuple[int | None, str]:
        """Our own user, where the request is signed; no page of the web can have it signed."""
        if self._is_loopback and not is_own_host(
            handler.headers.get("Host", ""), loopback_only=True
        ):
            return None, "it names another host"
        problem = self._verifier.find_problem(
            handler.command, handler.path, dict(handler.headers.items()), body
        )
        return (os.geteuid(), "") if problem is None else (None, problem)

    def prove(self, handler: Handler, status: int, body: bytes) -> str | None:
        """That this daemon knows the token, to whoever asked with a number."""
        nonce = handler.headers.get(NONCE)
        if nonce is None or status in (403, 413):  # nobody gets a proof for what is not signed
            return None
        return sign_answer(self._verifier.token, nonce, status, hash_body(body))


def make_context(certificate: str, key: str) -> ssl.SSLContext:
    """TLS with a certificate of the daemon's. Raises RequestError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        why = (error.strerror or str(error)).lower()
        raise RequestError(f"cannot use the certificate {certificate}", why=why) from error
    return context


def _check_folder(folder: Path) -> None:
    """Nobody else may put another socket into our own's place: not unless the folder is sticky."""
    state = folder.stat()
    if state.st_uid not in (0, os.geteuid()) or (
        state.st_mode & stat.S_IWOTH and not state.st_mode & stat.S_ISVTX
    ):
        raise PermissionError(errno.EPERM, "other users may replace files in this folder")


def _remove_stale(path: Path) -> None:
    """Remove the socket of a daemon that was killed; no other's and no other file."""
    if not path.exists() or not stat.S_ISSOCK(path.lstat().st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
        try:
            asked.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
        except OSError:
            pass


def _explain(error: OSError, place: str) -> RequestError:
    if error.errno == errno.EADDRINUSE:
        return RequestError(
            f"another daemon listens at {place}",
            why="one is enough for a node",
            hint="sightline capture --who   asks it",
        )
    why = (error.strerror or str(error)).lower()
    return RequestError(f"cannot listen at {place}", why=why)
