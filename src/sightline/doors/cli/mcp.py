"""Recordings for language models: a server of the Model Context Protocol.

sightline mcp                        over stdio, as agents start their servers
sightline mcp --root runs/           recordings below runs/ alone
sightline mcp --http --port 8765     over HTTP on this machine, with a token

An agent's settings:
  {"mcpServers": {"sightline": {"command": "sightline",
                                "args": ["mcp", "--root", "."]}}}

It reads, and writes nothing but the cache of imports. docs/agents.md lists the
tools. It needs the package mcp:  pip install 'sightline-gpu[agents]'
"""

from __future__ import annotations

import argparse

HELP = "recordings for language models: a Model Context Protocol server"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--root",
        action="append",
        metavar="FOLDER",
        help="a folder whose recordings may be opened; may be given several times; default: the "
        "current one",
    )
    parser.add_argument(
        "--http", action="store_true", help="over HTTP on 127.0.0.1, with a token, not over stdio"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port for --http; default: any free one"
    )


def run(args: argparse.Namespace) -> int:
    import sys

    from sightline.doors.mcp.desk import Desk
    from sightline.doors.mcp.roots import check_roots
    from sightline.errors import RequestError

    if not 0 <= args.port <= 65535:
        raise RequestError(f"there is no port {args.port}", why="ports are 1 to 65535")
    desk = Desk(check_roots(args.root or ["."]))
    try:
        from sightline.doors.mcp.server import build_server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types"):
            raise
        raise RequestError(
            "sightline mcp needs the package mcp, version 2",
            hint="Install it:  pip install 'sightline-gpu[agents]'",
        ) from error
    server = build_server(desk)
    if args.http:
        from sightline.doors.mcp.http import serve_http

        serve_http(server, args.port)
    else:
        if sys.stdin.isatty():
            print("waiting for an agent on standard input; Ctrl-C ends the server", file=sys.stderr)
        server.run()
    return 0
