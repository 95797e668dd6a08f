"""The jobs of a cluster as a service: kept, searched, shown in a browser.

sightline cluster demo                  simulated jobs, to look at it
sightline cluster init                  find what the site has, write a file
sightline cluster serve cluster.toml    keep what is sent, serve pages
sightline cluster token                 a new token, and its hash
sightline cluster judge cluster.toml --since 365d --rules mine.json
                                        what rules say of all kept jobs

Line protocol is taken at /write (of cc-metric-collector, Telegraf, or
sightline watch --push), starts and ends of jobs at /api/jobs/start_job/ and
stop_job/ (of cc-slurm-adapter). One look at jobs needs none of it:
sightline jobs.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from sightline.doors.cli._cluster_judge import add_arguments as _add_judging

if TYPE_CHECKING:
    from collections.abc import Callable

    from sightline.cluster.config import Config
    from sightline.doors.http.running import ClusterService
    from sightline.doors.http.service import Login

HELP = "a service for a cluster's jobs: kept, searched, in a browser"

_WHAT = ("demo", "init", "serve", "token", "judge")
_FILE = "cluster.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=_WHAT, help="what to do")
    parser.add_argument(
        "config", nargs="?", default=_FILE, metavar="FILE", help=f"the configuration ({_FILE})"
    )
    parser.add_argument(
        "--listen",
        metavar="ADDRESS:PORT",
        help="demo: address to serve at (127.0.0.1, any free port)",
    )
    parser.add_argument("--open", action="store_true", help="demo: open a browser")
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="serve: the bucket is another service's, whose machine is gone",
    )
    parser.add_argument("--force", action="store_true", help="init: replace the file if it exists")
    _add_judging(parser)


def run(args: argparse.Namespace) -> int:
    if args.what == "judge":
        from sightline.doors.cli._cluster_judge import run as judge

        return judge(args)
    return {"demo": _demo, "init": _init, "serve": _serve, "token": _token}[args.what](args)


def _token(args: argparse.Namespace) -> int:
    import sys

    from sightline.cluster.access import make_token

    token, digest = make_token()
    print(token)
    print(
        f'In cluster.toml:\n[[access.tokens]]\nname = "..."\nrole = "user"\nsha256 = "{digest}"',
        file=sys.stderr,
    )
    return 0


def _init(args: argparse.Namespace) -> int:
    import os
    import sys
    from pathlib import Path

    from sightline.cluster.site import find_site, write_config
    from sightline.errors import RequestError

    place = Path(args.config)
    if place.exists() and not args.force:
        raise RequestError(
            f"{place} is there already", hint=f"Replace it:  sightline cluster init {place} --force"
        )
    site = find_site()
    text, tokens = write_config(site)
    with open(place, "w", opener=lambda p, flags: os.open(p, flags, 0o600)) as file:
        file.write(text)
    found = [
        "Slurm's accounting (sacct)" if site.slurm else "",
        f"archives of ClusterCockpit ({', '.join(site.archives)})" if site.archives else "",
        f"Prometheus ({site.prometheus})" if site.prometheus else "",
    ]
    listed = [one for one in found if one]
    print(f"Cluster {site.cluster}: {', '.join(listed) or 'no source was found here'}")
    if site.silence:
        _say(f"sacct is here, but does not answer: {site.silence}. Where it does:  slurm = true")
    print(f"Written: {place}")
    for name, token in tokens.items():
        print(f"Token of {name}, shown once: {token}")
    print(f"Next: sightline cluster serve {place}", file=sys.stderr)
    return 0


def _serve(args: argparse.Namespace) -> int:
    from pathlib import Path

    from sightline.cluster.config import read_config
    from sightline.doors.http.running import ClusterService, make_report

    config = read_config(Path(args.config))
    service = ClusterService(
        config, _say, make_report, provider=_open_provider(config), take_over=args.take_over
    )
    print(service.server.url, flush=True)
    if config.plain and not service.server.loopback_only:
        _say("Others on the network can read what is sent: plain = true")
    return _run(service)


def _open_provider(config: Config) -> Login | None:
    if config.provider is None:
        return None
    from sightline.doors.http.provider import ProviderLogin

    return ProviderLogin(config.provider, config.rules)


def _demo(args: argparse.Namespace) -> int:
    import shutil
    import tempfile
    from pathlib import Path

    from sightline.cluster.access import Rules, Token, make_token
    from sightline.cluster.config import Config
    from sightline.cluster.demo import CLUSTER, LIMITS, Now, list_month
    from sightline.doors.http.running import ClusterService, make_report

    host, port = _read_address(args.listen or "127.0.0.1:0")
    token, digest = make_token()
    rules = Rules((Token("you", "admin", digest),))
    folder = Path(tempfile.mkdtemp(prefix="sightline-demo-"))
    try:
        config = Config(CLUSTER, folder / "store", host, port, rules=rules)
        service = ClusterService(config, _say, make_report, limits=lambda row: LIMITS)
        jobs = service.store.add_jobs(list_month())
        now = Now(service.store)
        service.running.refresh()
        print(f"{service.server.url}/enter?token={token}", flush=True)
        _say(f"{jobs} simulated jobs, and some that run; nothing is kept. Ctrl-C ends it")
        if args.open:
            import webbrowser

            webbrowser.open(f"{service.server.url}/enter?token={token}")
        return _run(service, now.send)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(service: ClusterService, more: Callable[[], object] | None = None) -> int:
    import contextlib
    import signal
    import threading

    service.begin(more)
    before = signal.signal(
        signal.SIGTERM,
        lambda *_: threading.Thread(target=service.server.shutdown, daemon=True).start(),
    )
    try:
        with contextlib.suppress(KeyboardInterrupt):
            service.server.serve_forever(0.2)
    finally:
        signal.signal(signal.SIGTERM, before)
        service.close()
    return 0


def _read_address(text: str) -> tuple[str, int]:
    from sightline.cluster.config import read_address

    return read_address(text)


def _say(text: str) -> None:
    import sys

    from sightline.core.text import clean_text

    print(clean_text(text), file=sys.stderr, flush=True)
