"""What a capture costs who asks for it: one controller, many nodes that answer at once.

    python benchmarks/fleet_messages.py --nodes 1250
    python benchmarks/fleet_messages.py --nodes 1250 --fan-out 32

Each node is an address of a stand-in that speaks the daemons' protocol over TLS, in one of some
processes, and has eight ranks of a job of `tests/support/many_ranks.py`, reduced once and numbered
anew. On one node a rank is late. With --fan-out nodes are asked through a tree: those that ask
others do it with the daemon's own code. Printed is the controller's processor time and memory,
which do not depend on how long nodes take; the wall holds the stand-ins' work, too.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests")]

from sightline.capture import controller  # noqa: E402
from sightline.capture.addresses import make_trust  # noqa: E402
from sightline.capture.api import Reply  # noqa: E402
from sightline.capture.asking import Direct, Tree  # noqa: E402
from sightline.capture.client import Address, Client  # noqa: E402
from sightline.capture.relay import RELAY, Relay  # noqa: E402
from sightline.capture.server import NetServer, make_context  # noqa: E402
from sightline.fleet.rank_file import RankFile, write_ranks  # noqa: E402
from sightline.fleet.read import reduce_recordings  # noqa: E402
from support import many_ranks  # noqa: E402

TOKEN = "0123456789abcdef0123456789abcdef"
EACH, LATE_NODE, LATE_RANK, LATE_NS = 8, 17, 3, 400_000
PROCESSES = 5  # of stand-ins


def reduce_job(folder: Path, late: bool) -> list[Any]:
    """The ranks of one node's job."""
    causes = (many_ranks.Cause(many_ranks.HOST, LATE_RANK, LATE_NS),) if late else ()
    job = many_ranks.Program(EACH, steps=4, causes=causes)
    list(many_ranks.write_ranks(job, folder))
    return reduce_recordings([str(folder)]).ranks


def renumber(ranks: list[Any], node: int, nodes: int) -> bytes:
    """The same job as one of many nodes': its groups are its own."""
    own = pl.concat_str(pl.lit(f"{node}-"), pl.col("members"))
    made = [
        replace(
            rank,
            rank=rank.rank + EACH * node,
            world_size=EACH * nodes,
            rows=rank.rows.with_columns(pl.col("rank") + EACH * node, members=own),
        )
        for rank in ranks
    ]
    return write_ranks(RankFile([(f"rank{rank.rank}", rank) for rank in made], []))


def write_nodes(folder: Path, nodes: int) -> None:
    """What each node says of its ranks, as a file."""
    usual, late = (reduce_job(folder / str(kind), kind) for kind in (False, True))
    for node in range(nodes):
        data = renumber(late if node == LATE_NODE else usual, node, nodes)
        (folder / f"{node}.data").write_bytes(data)


def answer(
    folder: Path, relay: Relay, node: int, method: str, path: str, body: bytes, user: int
) -> Reply:
    """As `api.Api` does."""
    if path == "/v1/clock":
        return Reply(200, {"time_ns": time.time_ns()})
    if path == "/v1/node":
        ranks = range(EACH * node, EACH * (node + 1))
        listeners = [{"rank": rank, "job": "1", "pid": rank} for rank in ranks]
        told = {"node": f"n{node}", "time_ns": 0, "has_gpu": False, "capturing": None}
        return Reply(200, {**told, "listeners": listeners})
    if path == RELAY:
        return Reply(200, content=relay.answer(body))
    if method == "POST":
        return Reply(202, {"state": "waiting", "expected": list(range(EACH))})
    if path.endswith("/ranks"):
        return Reply(200, file=folder / f"{node}.data")
    return Reply(200, {"state": "done", "told": EACH, "files": {}, "problems": []})


def make_certificate(folder: Path) -> tuple[str, str]:
    """For 127.0.0.1."""
    key, certificate = str(folder / "key"), str(folder / "certificate")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=n"
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run(["openssl", *words.split(), *names], check=True, capture_output=True)
    return certificate, key


def serve(folder: Path, nodes: list[int]) -> None:
    """Answer for these until standard input ends; the ports are printed, and what it took."""
    context = make_context(str(folder / "certificate"), str(folder / "key"))
    ports = []
    for node in nodes:
        relay = Relay(TOKEN, make_trust(str(folder / "certificate")))
        api = SimpleNamespace(answer=partial(answer, folder, relay, node))
        server = NetServer("127.0.0.1", 0, api, TOKEN, context)
        threading.Thread(target=server.serve_forever, args=(5.0,), daemon=True).start()
        ports.append(server.server_address[1])
    print(json.dumps(ports), flush=True)
    sys.stdin.read()
    print(time.process_time())


def main() -> None:
    """Print what each part of one capture took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--fan-out", type=int, default=0, help="0: no tree")
    parser.add_argument("--serve", type=Path)
    parser.add_argument("--which", type=int, default=0)
    args = parser.parse_args()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, most), most))
    if args.serve:
        serve(args.serve, list(range(args.which, args.nodes, PROCESSES)))
        return
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = Path(place)
        certificate, _ = make_certificate(folder)
        write_nodes(folder, args.nodes)
        servers = []
        for which in range(PROCESSES):
            words = ["--nodes", str(args.nodes), "--serve", place, "--which", str(which)]
            servers.append(
                subprocess.Popen(
                    [sys.executable, __file__, *words],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )
            )  # fmt: skip
            stack.callback(servers[-1].kill)
        ports = [json.loads(one.stdout.readline()) for one in servers if one.stdout]
        trust = make_trust(certificate)
        clients = []
        for node in range(args.nodes):
            port = ports[node % PROCESSES][node // PROCESSES]
            client = Client(Address(f"n{node}", None, "127.0.0.1", port, TOKEN, trust))
            stack.callback(client.close)
            clients.append(client)
        asker = Tree(clients, args.fan_out, print) if args.fan_out else Direct()
        report(clients, folder, asker)
        used = [float(one.communicate()[0]) for one in servers]
        print(f"  all {args.nodes} nodes: processor {sum(used):.1f} s")


def report(clients: list[Client], folder: Path, asker: Direct | Tree) -> None:
    """One capture, and what it took."""
    used, wall = time.process_time(), time.monotonic()
    nodes = controller.look_around(clients, asker)
    lost = [node.problem for node in nodes if node.problem]
    print(f"{len(nodes)} nodes looked at, {len(lost)} lost {lost[:1]}")
    print(f"  processor {time.process_time() - used:.1f} s, wall {time.monotonic() - wall:.1f} s")
    worst = max(node.uncertainty_ns for node in nodes) / 1e6
    print(f"  clocks known to {worst:.1f} ms at worst")
    used, wall = time.process_time(), time.monotonic()
    out = folder / "out"
    out.mkdir()
    wanted = controller.Wanted(seconds=0.1, warm_up_s=0.0, traces=controller.NONE)
    outcome = controller.capture(nodes, wanted, out, print, asker)
    assert outcome.answer is not None
    print(f"{len(outcome.answer.job.ranks)} ranks: {len(outcome.problems)} problems")
    print(f"  processor {time.process_time() - used:.1f} s, wall {time.monotonic() - wall:.1f} s")
    first = outcome.answer.verdict.stragglers.row(0, named=True)
    print(f"  first: ranks {first['ranks']}, {first['cause']}")
    sent = sum(path.stat().st_size for path in out.iterdir())
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"  memory {most} MB, received {sent / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
