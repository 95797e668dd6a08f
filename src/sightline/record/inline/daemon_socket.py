"""Where a node's daemon listens, for those who ask it; and how a recorded program tells it."""

from __future__ import annotations

import os
import socket

_OF_ROOT = "/run/sightline/daemon.sock"  # where all users find it
_ANSWER_S = 5.0


def name_socket() -> str:
    """Where a daemon of this user listens."""
    if os.geteuid() == 0:
        return _OF_ROOT
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/sightline-{os.geteuid()}"  # noqa: S108
    return f"{folder}/sightline.sock"


def list_sockets() -> list[str]:
    """Where a daemon may listen whom this user can ask: their own, then root's."""
    return list(dict.fromkeys([name_socket(), _OF_ROOT]))


def fire_trigger(name: str, places: list[str] | None = None) -> bool:
    """Tell the first daemon that listens that something happened; whether it heard."""
    request = (
        f"POST /v1/triggers/{name} HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Length: 0\r\nConnection: close\r\n\r\n"
    )
    for place in list_sockets() if places is None else places:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asked:
                asked.settimeout(_ANSWER_S)
                asked.connect(place)
                asked.sendall(request.encode())
                return asked.recv(64).startswith(b"HTTP/1.1 202")
        except OSError:
            continue
    return False
