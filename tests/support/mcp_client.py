"""Questions to `sightline mcp` by the protocol's own client, in this process or over stdio.

The client takes two seconds to load: where a test asks, not in each worker that collects tests.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

if find_spec("mcp") is None:
    pytest.skip("the extra 'agents' is not installed", allow_module_level=True)

from sightline.doors.mcp.desk import Desk
from sightline.doors.mcp.roots import check_roots
from support.own_loop import run_alone

Call = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class Reply:
    """What a tool answered, and whether as an error."""

    text: str
    is_error: bool


def ask(root: Path, *calls: Call, mode: str = "auto") -> list[Reply]:
    """What a server for `root` answers in this process, one call after the other.

    `mode` "legacy" is the handshake of clients before the protocol of 2026.
    """
    from sightline.doors.mcp.server import build_server

    server = build_server(Desk(check_roots([str(root)])))
    return run_alone(lambda: _ask(server, calls, mode))


def ask_stdio(root: Path, *calls: Call) -> list[Reply]:
    """The same by `sightline mcp --root`, a process of its own."""
    command = ["-m", "sightline", "mcp", "--root", str(root)]
    from mcp.client.stdio import StdioServerParameters, stdio_client

    server = stdio_client(StdioServerParameters(command=sys.executable, args=command))
    return run_alone(lambda: _ask(server, calls))


async def _ask(server: Any, calls: Sequence[Call], mode: str = "auto") -> list[Reply]:
    from mcp.client.client import Client

    replies = []
    async with Client(server, mode=mode) as client:
        for name, arguments in calls:
            result = await client.call_tool(name, arguments)
            text = "".join(block.text for block in result.content)
            replies.append(Reply(text, bool(result.is_error)))
    return replies


def list_offers(root: Path) -> tuple[dict[str, str], dict[str, str]]:
    """The tools with their descriptions, and the resources with their texts."""

    async def look() -> tuple[dict[str, str], dict[str, str]]:
        from mcp.client.client import Client

        from sightline.doors.mcp.server import build_server

        async with Client(build_server(Desk(check_roots([str(root)])))) as client:
            tools = {t.name: t.description or "" for t in (await client.list_tools()).tools}
            found = [str(r.uri) for r in (await client.list_resources()).resources]
            found.append("sightline://tables/device_ops")
            texts = {uri: (await client.read_resource(uri)).contents[0].text for uri in found}
            return tools, texts

    return run_alone(look)
