"""sightline mcp --http: who has no token gets nothing; the protocol's own client with it does."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

if find_spec("mcp") is None:
    pytest.skip("the extra 'agents' is not installed", allow_module_level=True)

from support.own_loop import run_alone
from support.places import EXAMPLES


def _request(header: bytes | None) -> int:
    """The status of one request to an application that says 200 to whoever reaches it."""
    from sightline.doors.mcp.http import guard

    sent: list[dict[str, Any]] = []

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [] if header is None else [(b"authorization", header)]
    scope = {"type": "http", "headers": headers}
    run_alone(lambda: guard(inner, "word")(scope, None, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("header", [None, b"", b"word", b"Bearer", b"Bearer wor", b"Bearer word2"])
def test_without_the_token_nothing_is_answered(header: bytes | None) -> None:
    assert _request(header) == 401


def test_with_the_token_it_is() -> None:
    assert _request(b"Bearer word") == 200


def test_over_http() -> None:
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    command = [sys.executable, "-m", "sightline", "mcp", "--http", "--root", str(EXAMPLES)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        name, _, value = server.stdout.readline().strip().partition(": ")
        try:
            assert address.startswith("http://127.0.0.1:")

            async def talk() -> tuple[int, str]:
                # No limits of time: the server has all that a busy machine takes.
                async with httpx2.AsyncClient(timeout=None) as stranger:
                    refused = await stranger.post(address, json={})
                async with httpx2.AsyncClient(headers={name: value}, timeout=None) as known:
                    transport = streamable_http_client(address, http_client=known)
                    async with Client(transport) as client:
                        result = await client.call_tool("open", {"paths": []})
                return refused.status_code, result.content[0].text

            status, text = run_alone(talk)
            assert status == 401
            assert "simulated-dataloader.json.gz" in text
        finally:
            server.terminate()
