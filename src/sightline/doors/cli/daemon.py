"""A node's daemon: knows who can be recorded, and records when it is asked.

sightline daemon                            for this user's programs
sudo sightline daemon --allow-user alice    for everybody's; each may record
                                            their own, alice all of them
sightline daemon --listen 0.0.0.0 --token-file T --certificate C --key K
                                            for sightline capture elsewhere
sightline daemon --door /run/sightline/door beside dynolog, for programs with
                                            KINETO_IPC_SOCKET_DIR set to it

sightline daemon --trigger signal,webhook,policy,slow-step,flight-dump
                                            captures by itself, and keeps them
sightline daemon --every 10min --history DIR
                                            a continuous profile, for
                                            sightline history and serve

PyTorch programs that were started with KINETO_USE_DAEMON=1 ask it every 5 s
whether to record. It does nothing until  sightline capture  asks it. Ends with
Ctrl-C or SIGTERM.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from threading import Event

    from sightline.capture.continuous import Continuous
    from sightline.capture.node import Node
    from sightline.capture.relay import Relay
    from sightline.capture.triggers import Triggers

HELP = "a node's daemon, which records running programs when it is asked"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--socket", metavar="FILE", help="socket to listen on; default: where capture looks"
    )
    parser.add_argument(
        "--door", metavar="DIR", help="the programs' KINETO_IPC_SOCKET_DIR; default: that of "
"this environment, else where PyTorch looks",
    )  # fmt: skip
    parser.add_argument(
        "--listen", metavar="HOST[:PORT]", help="also answer over HTTPS (port 9477)"
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="token that clients on the network must know"
    )
    parser.add_argument("--certificate", metavar="FILE", help="the daemon's certificate, for TLS")
    parser.add_argument("--key", metavar="FILE", help="key of the certificate")
    parser.add_argument(
        "--ca",
        metavar="FILE",
        help="CA that signed the daemons' certificates: this one may ask others for sightline "
        "capture, which does so past 500 nodes",
    )
    parser.add_argument(
        "--allow-user",
        action="append",
        default=[],
        metavar="USER",
        help="user who may record other users' programs",
    )
    parser.add_argument(
        "--trigger", metavar="NAME,...", help="capture when it fires; listed in docs/fleet.md"
    )
    parser.add_argument(
        "--flight-dumps",
        default="/tmp/nccl_trace_rank_",  # noqa: S108  # PyTorch's own default
        metavar="PREFIX",
        help="what PyTorch's flight recorder calls its dumps (%(default)s)",
    )
    parser.add_argument(
        "--every", metavar="T", help="record a window of each job this often: 10min"
    )
    parser.add_argument(
        "--window", default="200ms", metavar="T", help="length of such a window (200ms)"
    )
    parser.add_argument("--history", metavar="DIR", help="folder for the windows")
    parser.add_argument(
        "--push",
        action="append",
        default=[],
        metavar="KIND=URL",
        help="also push each window: otlp=, pyroscope= or parca=http://HOST:PORT",
    )
    parser.add_argument(
        "--counts",
        action="store_true",
        help="count GPU calls between the windows, too, by eBPF (root only)",
    )
    parser.add_argument("--keep", metavar="DIR", help="folder for the captures")
    parser.add_argument(
        "--max-size", default="10GB", metavar="SIZE", help="size of all captures at most (10GB)"
    )
    parser.add_argument(
        "--last", type=int, default=20, metavar="N", help="captures to keep at most (20)"
    )


def run(args: argparse.Namespace) -> int:
    import contextlib
    import os
    import signal
    import socket
    import threading
    from pathlib import Path

    from sightline.capture.api import Api, Rules
    from sightline.capture.keeper import Keeper
    from sightline.capture.node import Node
    from sightline.capture.server import UnixServer
    from sightline.capture.shelf import Shelf
    from sightline.capture.triggers import Triggers, Window
    from sightline.core.units import parse_size
    from sightline.record.inline.daemon_socket import name_socket

    _check_net(args)
    armed = _read_triggers(args)
    rules = Rules(frozenset(_find_user(name) for name in args.allow_user))
    folder = Path(args.keep) if args.keep else _name_shelf()
    door = args.door or os.environ.get("KINETO_IPC_SOCKET_DIR") or ""
    ends = threading.Event()
    with contextlib.ExitStack() as stack:
        shelf = Shelf(folder, parse_size(args.max_size), max(args.last, 1))
        keeper = Keeper([door.rstrip("/")])
        stack.callback(keeper.close)
        node = Node(keeper, shelf, _say, push=_read_push(args))
        stack.callback(node.close)
        triggers = Triggers(node, armed, Window(), _say)
        relay = _make_relay(args)
        if relay is not None:
            stack.callback(relay.close)
        api = Api(node, socket.gethostname(), rules, triggers.fire, relay)
        place = Path(args.socket or name_socket())
        servers: list[Any] = [
            UnixServer(place, api, for_all=os.geteuid() == 0 or bool(args.allow_user))
        ]
        stack.callback(servers[0].server_close)
        if args.listen:
            servers.append(_open_net(args, api))
            stack.callback(servers[1].server_close)
        for server in servers:
            threading.Thread(target=server.serve_forever, args=(_LOOK_S,), daemon=True).start()
            stack.callback(server.shutdown)
        for number in (signal.SIGINT, signal.SIGTERM):
            old = signal.signal(number, lambda *_: ends.set())
            stack.callback(signal.signal, number, old)
        if args.every or args.counts or args.history:
            stack.callback(_start_windows(args, node).close)
        _announce(args, place, servers, folder)
        _watch(args, armed, triggers, ends)
        _say("ends")
    return 0


_LOOK_S = 1.0  # so often it is looked for dumps, and whether servers are to end


def _watch(args: argparse.Namespace, armed: list[str], triggers: Triggers, ends: Event) -> None:
    """Until the daemon is to end: what has to be looked for, and signals."""
    import signal
    import threading

    from sightline.capture.triggers import Dumps

    if "signal" in armed:
        # Not in the handler: it may have come while this thread holds what firing needs.
        signal.signal(
            signal.SIGUSR1,
            lambda *_: threading.Thread(target=triggers.fire, args=("signal",)).start(),
        )
    if "flight-dump" not in armed:
        ends.wait()
        return
    dumps = Dumps(args.flight_dumps)
    while not ends.wait(_LOOK_S):
        if new := dumps.look():
            triggers.fire("flight-dump", new)


def _read_triggers(args: argparse.Namespace) -> list[str]:
    from sightline.capture.triggers import NAMES
    from sightline.core.registry import did_you_mean
    from sightline.errors import RequestError

    armed = [name.strip() for name in (args.trigger or "").split(",") if name.strip()]
    for name in armed:
        if name not in NAMES:
            raise RequestError(
                f"there is no trigger called '{name}'",
                why=did_you_mean(name, NAMES),
                hint=f"There are:  {', '.join(NAMES)}",
            )
    return armed


def _read_push(args: argparse.Namespace) -> list[str]:
    """The servers that are to get windows, once each can be understood. Raises RequestError."""
    from sightline.errors import RequestError

    if not args.push:
        return []
    from sightline.capture.profile_push import read_target  # 0.2 s, for those who push

    if not args.every:
        raise RequestError("--push sends windows, and none are recorded", hint="--every 10min")
    for text in args.push:
        read_target(text)
    return list(args.push)


def _start_windows(args: argparse.Namespace, node: Node) -> Continuous:
    from pathlib import Path

    from sightline.capture.continuous import LEAST_PERIOD_S, Continuous
    from sightline.capture.triggers import Window
    from sightline.core.units import format_ns, parse_duration_ns
    from sightline.errors import RequestError

    if not args.every:
        option = "--counts" if args.counts else "--history"
        why = "Record windows, and count calls between them, with --every"
        raise RequestError(f"{option} has nothing to do", why=why, hint="--every 10min")
    period_s = parse_duration_ns(args.every) / 1e9
    seconds = parse_duration_ns(args.window) / 1e9
    if period_s < LEAST_PERIOD_S or not 0.1 <= seconds <= period_s / 10:
        raise RequestError(
            f"cannot record a window of {args.window} every {args.every}",
            why=f"a period must be {LEAST_PERIOD_S:g}s or longer, a window 100ms to a tenth of it",
        )
    if not args.history:
        raise RequestError("--every needs a place for its windows", hint="--history DIR")
    counting = None
    if args.counts:
        from sightline.capture.counting import Counting

        counting = Counting()
        took = format_ns(counting.call_ns)
        _say(f"GPU calls are counted between the windows: a call takes {took} longer")
    windows = Continuous(
        node, Path(args.history).absolute(), period_s, Window(seconds), _say, counting=counting
    )
    windows.start()
    return windows


def _check_net(args: argparse.Namespace) -> None:
    """Raise RequestError for what is of the network only, where nothing listens there."""
    from sightline.errors import RequestError

    names = ("token_file", "certificate", "key")
    option = next((name for name in names if getattr(args, name)), None)
    if option is not None and not args.listen:
        raise RequestError(
            "nothing listens on the network",
            why=f"--{option.replace('_', '-')} is for clients on the network",
            hint="--listen 0.0.0.0",
        )


def _make_relay(args: argparse.Namespace) -> Relay | None:
    """What asks other nodes; None where they could not be known. Raises RequestError."""
    from sightline.errors import RequestError

    if not args.ca:
        return None
    from sightline.capture.addresses import make_trust
    from sightline.capture.relay import Relay
    from sightline.capture.signing import read_token

    token = read_token(args.token_file) if args.listen else None
    if token is None:
        raise RequestError(
            "a daemon that asks others must itself listen on the network",
            hint="--listen 0.0.0.0 --token-file FILE --certificate FILE --key FILE",
        )
    return Relay(token, make_trust(args.ca))


def _open_net(args: argparse.Namespace, api: Any) -> Any:
    from sightline.capture.client import PORT
    from sightline.capture.server import NetServer, make_context
    from sightline.capture.signing import VARIABLE, read_token
    from sightline.errors import RequestError

    token = read_token(args.token_file)
    if token is None:
        raise RequestError(
            "clients on the network must know a token, and none was given",
            hint=f"(umask 077; openssl rand -hex 32 > TOKEN);  --token-file TOKEN   or {VARIABLE}",
        )
    if bool(args.certificate) != bool(args.key):
        raise RequestError("--certificate and --key belong together")
    context = make_context(args.certificate, args.key) if args.certificate else None
    host, colon, port = args.listen.rpartition(":")
    if not colon or args.listen.endswith("]") or (":" in host and not host.startswith("[")):
        host, port = args.listen, str(PORT)
    if not port.isdecimal() or int(port) > 65_535:
        raise RequestError(f"'{args.listen}' is not an address", hint="--listen 0.0.0.0:9477")
    return NetServer(host.strip("[]"), int(port), api, token, context)


def _find_user(name: str) -> int:
    import pwd

    from sightline.errors import RequestError

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        if name.isdecimal():
            return int(name)
        raise RequestError(f"there is no user {name} here") from None


def _name_shelf() -> Any:
    import os
    from pathlib import Path

    if os.geteuid() == 0:
        return Path("/var/lib/sightline/captures")
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local/state") / "sightline/captures"


def _announce(args: argparse.Namespace, place: Any, servers: list[Any], folder: Any) -> None:
    _say(f"listens at {place}; keeps {args.last} captures in {folder}, {args.max_size} at most")
    if len(servers) > 1:
        host, port = servers[1].server_address[:2]
        _say(f"answers clients that know the token at {host}:{port}")


def _say(text: str) -> None:
    import sys

    from sightline.core.text import clean_text

    print(f"sightline: {clean_text(text)}", file=sys.stderr, flush=True)
