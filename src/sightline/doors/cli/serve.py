"""The report's page for large runs, from a server on this machine.

sightline serve rank*.json.gz            prints the address to open
sightline serve run.sightline --open     and opens it
sightline serve trace.json --port 8000   at this port
sightline serve sightline-history        a history, as daemon --every keeps
                                         one: jobs, windows, what changed

The timeline's events stay on disk and come as they are looked at: up to 100
million of them. Only this machine can ask, and only with the token in the
address. Where the recording is on another machine: serve it there with
--port 8000, run  ssh -L 8000:127.0.0.1:8000 THERE  here, and open the address.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.core.units import format_several
from sightline.doors.cli._edge import write_raw
from sightline.doors.cli._shared import add_recordings, open_recordings

if TYPE_CHECKING:
    from sightline.views.serve.server import Server

HELP = "the report's page from a local server, for runs too large for one file"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_recordings(parser)
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="port to listen on; default: any free one"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="IP address to listen on; any but 127.0.0.1 lets other machines connect; they need "
        "the token, and can read it on the network",
    )
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def run(args: argparse.Namespace) -> int:
    import contextlib
    import ipaddress
    import sys

    from sightline.errors import RequestError

    try:
        address = ipaddress.ip_address(args.host)
    except ValueError:
        raise RequestError(
            f"'{args.host}' is not an IP address",
            hint="Listen on this machine only: leave --host out.",
        ) from None
    if not 0 <= args.port <= 65535:
        raise RequestError(f"there is no port {args.port}", why="ports are 1 to 65535")
    server = _serve_history(args)
    if server is None:
        server = _serve_run(args)

    print(server.url, flush=True)
    if not address.is_loopback:
        print("others on the network can reach this page, unencrypted", file=sys.stderr)
    print("Ctrl-C ends the server", file=sys.stderr)
    if args.open:
        import webbrowser

        webbrowser.open(server.url)
    with contextlib.suppress(KeyboardInterrupt), server:
        server.serve_forever()
    return 0


def _serve_history(args: argparse.Namespace) -> Server | None:
    """A server of a history's pages; None where recordings are to be served."""
    from pathlib import Path

    if len(args.recordings) != 1 or not (Path(args.recordings[0]) / "runs").is_dir():
        return None
    from sightline.history.profiles import is_history

    if not is_history(Path(args.recordings[0])):
        return None
    from sightline.views.serve.server import Server
    from sightline.views.serve.windows import HistoryService

    return Server(HistoryService(Path(args.recordings[0])), args.host, args.port)


def _serve_run(args: argparse.Namespace) -> Server:
    import sys

    from sightline.views.serve import serve

    opened = open_recordings(args)
    live = sys.stderr.isatty()

    def say(done: int) -> None:
        if live:
            write_raw(sys.stderr, f"\r{format_several(done, 'event')} prepared")
            sys.stderr.flush()

    server = serve(opened, args.host, args.port, say)
    if live:
        write_raw(sys.stderr, "\r\x1b[K")
    return server
