"""Two jobs on eight nodes that are network namespaces, whose clocks are apart, recorded over HTTPS.

    python benchmarks/fleet_namespaces.py
    python benchmarks/fleet_namespaces.py --fan-out 4

Each node has an address, a daemon that answers at it with TLS and a token, and the door at which
PyTorch looks by default, whose name belongs to the namespace. One job is eight ranks of PyTorch
(Gloo, one rank a node, an unmodified training loop), the other 56 clients that speak the same
protocol, seven a node. Clocks of nodes are evenly up to 50 ms ahead and behind, by a library that
moves the time of day of their processes: a network namespace has no clock of its own. In each job
one rank is late. Printed is whether each capture names it, within what time the ranks began by the
machine's one clock, and what is said of the nodes' clocks.

With --fan-out daemons ask others, one of as many nodes each: a tree.

It needs root (or CAP_SYS_ADMIN and CAP_NET_ADMIN), ip, openssl and a C compiler. Everything lies in
namespaces of its own, which end with it: the machine's network is not touched.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fleet import LATE, SKEW_MS, build, read_starts, write_traces

INSIDE = "SIGHTLINE_FLEET_NAMESPACES"
NODES, LIGHT, NETWORK = 8, 7, "10.77.0"
SLOW_RANK = 5
JOBS = {"torch": "4712", "light": "4711"}
LOOP = """\
import os, time, torch, torch.distributed as dist
rank = int(os.environ["RANK"])
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
print("ready", flush=True)
while True:
    optimizer.zero_grad(); model(torch.randn(16, 64)).sum().backward(); optimizer.step()
    time.sleep(0.060 if rank == SLOW else 0.020)
""".replace("SLOW", str(SLOW_RANK))


def find_obstacle() -> str | None:
    """Why there can be no namespaces here; None where there can."""
    for program in ("ip", "unshare", "openssl", "cc", "mount"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    words = ["unshare", "--net", "--mount", "ip", "link", "add", "probe", "type", "bridge"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else done.stderr.strip()


def call(*words: str) -> None:
    """A program of the system, which must succeed."""
    subprocess.run(words, check=True, capture_output=True)


def address(node: int) -> str:
    """Of a node; that of the bridge is ours."""
    return f"{NETWORK}.{node + 1}"


def make_nodes() -> None:
    """A namespace for each, joined by a bridge; their names lie in a file system of our own."""
    Path("/run/netns").mkdir(exist_ok=True)
    call("mount", "-t", "tmpfs", "none", "/run/netns")
    call("ip", "link", "set", "lo", "up")
    call("ip", "link", "add", "bridge", "type", "bridge")
    call("ip", "addr", "add", f"{NETWORK}.254/24", "dev", "bridge")
    call("ip", "link", "set", "bridge", "up")
    for node in range(NODES):
        name = f"n{node}"
        call("ip", "netns", "add", name)
        pair = ["type", "veth", "peer", "name", "eth0", "netns", name]
        call("ip", "link", "add", f"v{node}", *pair)
        call("ip", "link", "set", f"v{node}", "master", "bridge", "up")
        call("ip", "-n", name, "addr", "add", f"{address(node)}/24", "dev", "eth0")
        call("ip", "-n", name, "link", "set", "eth0", "up")
        call("ip", "-n", name, "link", "set", "lo", "up")


def make_secrets(folder: Path) -> None:
    """A token, and a certificate of all nodes."""
    token = folder / "token"
    token.touch(0o600)
    token.write_text(os.urandom(32).hex())
    names = ",".join(f"IP:{address(node)}" for node in range(NODES))
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=n"
    files = ["-keyout", str(folder / "key"), "-out", str(folder / "certificate")]
    call("openssl", *words.split(), "-addext", f"subjectAltName={names}", *files)


@contextmanager
def run_in(node: int, words: list[str], env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process of a node, until the block ends."""
    process = subprocess.Popen(
        ["ip", "netns", "exec", f"n{node}", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
    try:
        yield process
    finally:
        process.terminate()  # a daemon ends what it started
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def drain(stream: Any) -> None:
    """Let nobody wait for a pipe that is full."""
    threading.Thread(target=stream.read, daemon=True).start()


def start_all(stack: ExitStack, folder: Path, traces: list[Path]) -> list[subprocess.Popen[str]]:
    """Daemons, the ranks of both jobs, once all of PyTorch train; the light clients."""
    skew, client = build(folder, "skew"), build(folder, "client")
    light, waited = [], []
    for node in range(NODES):
        clock = {"LD_PRELOAD": str(skew), "SKEW_MS": str(skew_of(node))}
        place = folder / f"n{node}"
        (place / "out").mkdir(parents=True)
        words = [sys.executable, "-m", "sightline", "daemon", "--socket", f"{place}/s"]
        words += ["--keep", f"{place}/kept", "--listen", address(node)]
        words += ["--token-file", f"{folder}/token"]
        words += ["--certificate", f"{folder}/certificate", "--key", f"{folder}/key"]
        words += ["--ca", f"{folder}/certificate"]
        daemon = stack.enter_context(run_in(node, words, clock))
        assert daemon.stderr is not None
        line = daemon.stderr.readline()
        if "listens at" not in line:
            raise SystemExit(line + daemon.stderr.read())
        drain(daemon.stderr)
        out = {"KINETO_ONDEMAND_TRACE_DIR": str(place / "out"), "KINETO_USE_DAEMON": "1"}
        for number in range(LIGHT):
            rank = node * LIGHT + number
            env = {"RANK": str(rank), "WORLD_SIZE": str(len(traces))}
            env |= {"SLURM_JOB_ID": JOBS["light"], **clock, **out}
            light.append(
                stack.enter_context(run_in(node, [str(client), "", str(traces[rank])], env))
            )
        env = {"RANK": str(node), "WORLD_SIZE": str(NODES), "SLURM_JOB_ID": JOBS["torch"]}
        env |= {"MASTER_ADDR": address(0), "MASTER_PORT": "29500", "GLOO_SOCKET_IFNAME": "eth0"}
        env |= {"OMP_NUM_THREADS": "1", **clock, **out}
        waited.append(stack.enter_context(run_in(node, [sys.executable, "-c", LOOP], env)))
        drain(waited[-1].stderr)
    for process in waited:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit("a rank of PyTorch ended before it trained")
    return light


def skew_of(node: int) -> int:
    """How far a node's clock is ahead, ms."""
    return round(SKEW_MS * (2 * node / (NODES - 1) - 1))


def capture(folder: Path, job: str, fan_out: int) -> dict[str, Any]:
    """What one capture of a job says."""
    words = [sys.executable, "-m", "sightline", "capture", "--job", JOBS[job], "--for", "1s"]
    words += ["--hosts", f"{NETWORK}.[1-{NODES}]", "--token-file", f"{folder}/token"]
    words += ["--ca", f"{folder}/certificate", "--traces", "all", "--json", "-o", f"{folder}/{job}"]
    words += ["--fan-out", str(fan_out)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode or "one by one" in done.stderr:
        raise SystemExit(done.stderr)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def read_torch_starts(folder: Path) -> list[int]:
    """When PyTorch's ranks began by the machine's clock, ns: what they wrote, less the skew."""
    found = []
    for path in folder.glob("rank*.json*"):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt") as file:
            told = json.load(file)
        (at,) = (e["ts"] for e in told["traceEvents"] if e["name"].startswith("Iteration Start"))
        node = int(path.name.removeprefix("rank").partition("-")[0])
        base = int(told.get("baseTimeNanoseconds", 0))
        found.append(base + round(at * 1000) - skew_of(node) * 1_000_000)
    return found


def report(job: str, told: dict[str, Any], planted: int, starts: list[int], took: float) -> None:
    """Print what came of a capture."""
    nodes = told["nodes"]
    recorded = sum(node["recorded"] for node in nodes)
    print(f"{job}: {recorded} ranks on {len(nodes)} nodes in {took:.1f} s")
    print(f"  problems: {len(told['problems'])} {told['problems'][:2]}")
    if starts:
        spread = (max(starts) - min(starts)) / 1e6
        print(f"  {len(starts)} starts within {spread:.1f} ms")
    known = [
        abs(node["clock_offset_ns"] - skew_of(number) * 10**6) <= node["clock_uncertainty_ns"]
        for number, node in enumerate(nodes)
    ]
    print(f"  clocks within what is stated: {sum(known)} of {len(nodes)}")
    print(f"  stated: {told['clock_uncertainty_ns'] / 1e6:.1f} ms at most")
    first = told["ranks"]["stragglers"][0] if told["ranks"]["stragglers"] else {}
    print(f"  first: ranks {first.get('ranks')}, {first.get('cause')}; planted: {planted}")


def main() -> None:
    """Play both jobs, and capture each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fan-out", type=int, default=0, help="0: no tree")
    args = parser.parse_args()
    if INSIDE not in os.environ:
        obstacle = find_obstacle()
        if obstacle is not None:
            raise SystemExit(f"no namespaces here: {obstacle}")
        words = ["unshare", "--net", "--mount", sys.executable, *sys.argv]
        os.execvpe(words[0], words, {**os.environ, INSIDE: "1"})
    with tempfile.TemporaryDirectory(prefix="f") as place, ExitStack() as stack:
        folder = Path(place)
        make_nodes()
        make_secrets(folder)
        traces = write_traces(NODES * LIGHT, 4, folder / "traces")
        light = start_all(stack, folder, traces)
        time.sleep(6)  # all have asked once
        for job, planted in (("torch", SLOW_RANK), ("light", LATE)):
            began = time.monotonic()
            told = capture(folder, job, args.fan_out)
            took = time.monotonic() - began
            made = folder / f"{job}.sightline"
            starts = read_torch_starts(made) if job == "torch" else read_starts(light)
            report(job, told, planted, starts, took)
        left = sum(1 for node in range(NODES) for _ in (folder / f"n{node}" / "out").iterdir())
        print(f"left where programs write: {left}")


if __name__ == "__main__":
    main()
