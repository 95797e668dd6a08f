"""How far the clocks of two hosts are apart: asked and answered over TCP, as NTP does.

One host answers with its wall clock; the other asks 24 times and takes the answer that came back
fastest. Half of that round trip bounds the error (RFC 5905, section 8: offset and delay).
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

ROUNDS = 24
TIMEOUT_S = 2.0
_TIME = struct.Struct("<q")
TOKEN_BYTES = 16


class Server:
    """Answers with this host's wall clock to whoever knows the token, until closed."""

    def __init__(self, token: bytes, host: str = "") -> None:
        self.token = token
        self._socket = socket.create_server((host, 0))
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            connection.settimeout(TIMEOUT_S)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                if _exactly(connection, TOKEN_BYTES) != self.token:
                    return
                while connection.recv(1):
                    connection.sendall(_TIME.pack(time.time_ns()))
            except OSError:
                return

    def close(self) -> None:
        """Answer no more."""
        self._socket.close()


def measure(
    host: str, port: int, token: bytes, clock: Callable[[], int] = time.time_ns
) -> tuple[int, int]:
    """What to add to this host's wall clock to get the server's, and the bound of the error, in ns.

    Raises OSError where the server does not answer.
    """
    best: tuple[int, int] | None = None
    with socket.create_connection((host, port), timeout=TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(token)
        for _ in range(ROUNDS):
            asked = clock()
            connection.sendall(b"?")
            theirs: int = _TIME.unpack(_exactly(connection, _TIME.size))[0]
            back = clock()
            trip = back - asked
            if trip >= 0 and (best is None or trip < best[0]):
                best = (trip, theirs - (asked + trip // 2))
    if best is None:
        raise OSError("the clock kept going backwards")
    return best[1], -(-best[0] // 2)


def find_own_address() -> str:
    """This host's address in its network, as others reach it: a number, which names nobody."""
    for family, far in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        # Addresses that nobody has (RFC 5737, 3849). Connecting UDP sends nothing: it asks the
        # system which of its own addresses it would send from.
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as asked:
                asked.connect((far, 9))
                return str(asked.getsockname()[0])
        except OSError:
            continue
    return "127.0.0.1"


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError("the other side closed the connection")
        data += more
    return data


def measure_in_background(file: Any, address: Any) -> None:
    """Write the offset to the clock at [host, port, token, mark] into an event file."""

    def work() -> None:
        host, port, token, mark = address
        try:
            offset, bound = measure(host, int(port), bytes.fromhex(token))
        except (OSError, ValueError) as error:
            file.fact(clock_failed=str(error)[:200])
            return
        file.fact(clock_reference=mark, clock_offset_ns=offset, clock_uncertainty_ns=bound)

    threading.Thread(target=work, daemon=True, name="sightline-clock").start()
