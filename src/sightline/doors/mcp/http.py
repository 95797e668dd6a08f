"""The same server over HTTP: on this machine alone, and to who knows the token."""

from __future__ import annotations

import hmac
import os
import secrets
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from mcp.server.mcpserver import MCPServer

_HOST = "127.0.0.1"
_TOKEN = "SIGHTLINE_MCP_TOKEN"  # noqa: S105 - the name of a variable
_Scope = MutableMapping[str, Any]
_App = Callable[[_Scope, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Any]


def serve_http(server: MCPServer, port: int) -> None:
    """Answer until interrupted; the address goes to standard output, and a token that was made.

    The variable SIGHTLINE_MCP_TOKEN may hold another one.
    """
    import uvicorn

    from sightline.errors import RequestError

    token = os.environ.get(_TOKEN) or secrets.token_urlsafe(32)
    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise RequestError(f"cannot listen on port {port}", why=why) from error
    sys.stdout.write(f"http://{_HOST}:{listener.getsockname()[1]}/mcp\n")
    if not os.environ.get(_TOKEN):
        sys.stdout.write(f"Authorization: Bearer {token}\n")
    sys.stdout.flush()
    app = guard(server.streamable_http_app(host=_HOST), token)
    config = uvicorn.Config(app, log_level="error", access_log=False, lifespan="on")
    uvicorn.Server(config).run(sockets=[listener])


def guard(app: _App, token: str) -> _App:
    """The application for requests that carry the token; others learn nothing."""
    wanted = f"Bearer {token}".encode()

    async def answer(scope: _Scope, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"authorization", b"")
        if hmac.compare_digest(given, wanted):
            await app(scope, receive, send)
            return
        headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    return answer
